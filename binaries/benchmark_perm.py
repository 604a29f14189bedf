"""PERM beside the methods it is compared with, all tuned alike: a table a task.

    python -m binaries.benchmark_perm --data_dir=DATA

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_perm --data_dir=DIR
    [--parts=emnist,label_shift,rotated,shards,dirichlet,iid,synthetic_groups]
    [--flag=value]

PERM and eight other methods, each with compare_tuned in a folder of its own per
task. Every method has six trials on the first seed: three rates, times two
values of one hyperparameter that is its own. Validation data choose.

  emnist    30 writers, 10 in a round; DIR holds femnist_writers.npz.
  label_shift, rotated, shards, dirichlet, iid   Partitions of digits.
  synthetic_groups                               Two groups, opposite labels.

A part of digits takes a quarter of an hour on one core. Every other flag is one
of compare_tuned and goes before the benchmark's. The same command resumes.
Writes perm.md beside the folders, each with tables and curves.png."""

# The second hyperparameter of each method: what most depends on the data.
_OWN = {
    'perm': 'warmup_rounds:5,10',
    'ifca': 'restarts:1,3',
    'fedem': 'local_steps:5,20',
    'ensemble': 'router_learning_rate:0.1,1',
    'apfl': 'local_steps:5,20',
    'perfedavg': 'steps:1,20',
    'fedavg_finetuned': 'steps:5,20',
    'fedavg': 'local_steps:5,20',
    'local_only': 'local_steps:5,20',
}
_GRID = ';'.join([
    'learning_rate:0.1,0.3,1',
    *(f'{method}.{values}' for method, values in _OWN.items()),
])
_COMMON = dict(
    algos=','.join(_OWN), grid=_GRID, seeds='0,1,2', validation_fraction=0.2,
)
_PARTITIONS = {
    'label_shift': ('label_shift_clusters', 'the same images, other labels'),
    'rotated': ('rotated_clusters[order=blocks]', 'rotated images'),
    'shards': ('shards[classes=2]', 'two classes per client'),
    'dirichlet': ('dirichlet[alpha=0.5]', 'classes in other proportions'),
    'iid': ('iid', 'alike'),
}
_DIGITS = ('synthetic_groups', *_PARTITIONS)
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_perm',
    summary=SUMMARY,
    title='PERM and the methods it is compared with',
    note=(
        'Means over clients of test accuracies and over seeds, ± the standard'
        ' deviation over seeds. Rate and own hyperparameter are chosen on'
        ' validation data of the first seed, among six values for every method.'
        ' IFCA, FedEM and the ensemble are told the number of clusters where'
        ' there are any; PERM is not.'
    ),
    # What needs files comes first: without them it stops at once.
    parts={
        'emnist': dict(
            task='emnist', num_clients=30, clients_per_round=10,
            model='logistic_regression', rounds=100,
            # Local steps as on digits; some grids are of their number.
            **tuned_parts.for_methods(_OWN, local_epochs=0),
            **tuned_parts.for_methods(
                (method for method, values in _OWN.items()
                 if not values.startswith('local_steps:')), local_steps=10,
            ),
        ),
        **{name: dict(task='digits', partition=partition)
           for name, (partition, _) in _PARTITIONS.items()},
        'synthetic_groups': dict(task='synthetic_groups'),
    },
    titles={
        'emnist': 'Writers of Federated EMNIST',
        **{name: f'digits: {title}'
           for name, (_, title) in _PARTITIONS.items()},
        'synthetic_groups': 'Two groups with opposite labels',
    },
    # Parts have the rounds that their tasks default to.
    scales={'cpu': dict(_COMMON, eval_every=10)},
    file='perm.md',
    embedded=_DIGITS,
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
