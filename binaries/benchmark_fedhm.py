"""FedHM and methods of sub-models beside FedAvg: a table per setting.

    python -m binaries.benchmark_fedhm --data_dir=DATA

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021. Tables 2 and 3.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import published
from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_fedhm --data_dir=DIR [--scale=cpu]
    [--parts=iid_fixed,iid_dynamic,dirichlet_fixed,dirichlet_dynamic,cifar10]
    [--flag=value]

FedHM, HeteroFL, Split-Mix, FedRolex and FjORD, whose clients have four tiers of
capacity, with models of about the same numbers of parameters; FedAvg with the
full model, and with a model that is narrow enough for the smallest tier; each
with compare_tuned in a folder of its own: every method has the step size that
validation data choose from one common grid.

  iid_fixed, iid_dynamic, dirichlet_fixed, dirichlet_dynamic
           The embedded digits; examples dealt at random or with Dirichlet(0.5)
           shares of the classes; the tier of a client for the whole run or
           drawn in every round, which FedAvg does not see. Three seeds.
  cifar10  CIFAR-10 from DIR, Dirichlet(0.5), fixed tiers, one seed.

The scale cpu took 15 minutes on two cores (digits: an MLP; CIFAR-10: a small
CNN, 30 rounds); full is the paper's CIFAR-10: ResNet-18, 160 rounds of 10
epochs. Every other flag is one of compare_tuned and goes before the scale's.
The same command resumes. Writes fedhm.md beside the folders, each with tables
(summary.md, tiers.csv) and curves.png."""

_TIERED = 'fedhm,heterofl,splitmix,fedrolex,fjord'
_METHODS = f'{_TIERED},fedavg,slim_fedavg'


def _all(**options):
  """Returns the flags that give all methods the same options."""
  return tuned_parts.for_methods(_METHODS.split(','), **options)


def _epochs(number: int, batch_size: int):
  """Returns the flags of so many local epochs, for all methods."""
  return _all(local_epochs=number, local_steps=0, batch_size=batch_size)


_COMMON = dict(
    num_clients=20, clients_per_round=10, client_weighting='uniform',
    validation_fraction=0.2,
    # As in the paper.
    **_all(momentum=0.9, weight_decay=1e-4),
)
_DIGITS = dict(
    _epochs(2, 10), task='digits', model='mlp', seeds='0,1,2', rounds=60,
    eval_every=10, grid='learning_rate:0.03,0.1,0.3,1',
)
_DIRICHLET = 'dirichlet[alpha=0.5,min=20]'
_CIFAR = dict(
    task='cifar10', partition=_DIRICHLET, tier_assignment='fixed',
    algos=_METHODS, seeds='0',
)


_EMBEDDED = tuple(
    f'{name}_{tiers}' for name in ('iid', 'dirichlet')
    for tiers in ('fixed', 'dynamic')
)
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_fedhm',
    summary=SUMMARY,
    title='Devices of different capacity',
    note=(
        'Accuracies of the first table of a setting are means over clients,'
        ' each with the model of its tier on its own test data; pooled ones'
        ' weight clients by test examples. The second table has the model of'
        ' every tier on the test data of all (FedRolex: the mean over five'
        ' windows), the multiplications of one example, and the bytes that a'
        ' client sends in a round. Means over seeds, ± the standard deviation'
        ' over seeds. Step sizes are chosen on validation data of the first'
        ' seed.'
    ),
    parts={
        **{
            name: dict(
                _DIGITS,
                partition='iid' if name.startswith('iid') else _DIRICHLET,
                tier_assignment=name.rpartition('_')[2],
                algos=_METHODS if name.endswith('fixed') else _TIERED,
            )
            for name in _EMBEDDED
        },
        'cifar10': _CIFAR,
    },
    titles={
        'iid_fixed': 'Digits, IID, fixed tiers',
        'iid_dynamic': 'Digits, IID, dynamic tiers',
        'dirichlet_fixed': 'Digits, Dirichlet(0.5), fixed tiers',
        'dirichlet_dynamic': 'Digits, Dirichlet(0.5), dynamic tiers',
        'cifar10': 'CIFAR-10, Dirichlet(0.5), fixed tiers',
    },
    scales={
        'cpu': dict(
            _COMMON, **_epochs(1, 64), rounds=30, eval_every=5,
            grid='learning_rate:0.01,0.03,0.1,0.3',
        ),
        'full': dict(
            _COMMON, **_all(**published.FEDHM_TRAINING), model='resnet18',
            rounds=160, eval_every=10, grid='learning_rate:0.03,0.1,0.3',
        ),
    },
    file='fedhm.md',
    embedded=_EMBEDDED,
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
