"""Personalization on real clients: who gains, who is hurt, who comes later.

    python -m binaries.benchmark_personalization --data_dir=DATA
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Sequence

from binaries import real_data
from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_personalization --data_dir=DIR [--scale=cpu]
    [--parts=writers,...] [--algos=all] [--flag=value]

The same methods on natural clients of several kinds, each with compare_tuned in
a folder of its own: every method has the step size that validation data choose
from one grid. Some clients of every part never train and adapt at the end.

  writers   Federated EMNIST.
  digits    MNIST by writer.
  roles     The next character of Shakespeare by role.
  users     The tags of posts of Stack Overflow by user.

DIR holds the folders of these data. The scale smoke takes a minute, cpu half an
hour to an hour per part on one core; paper has all clients and more rounds.
Every other flag is one of compare_tuned and goes before the scale's. The same
command resumes. Writes personalization.md beside the folders."""

_FEW = dict(clients_per_round=10, rounds=100, eval_every=100)
_TASKS = dict(
    writers='emnist', digits='mnist', roles='shakespeare',
    users='stackoverflow_tags',
)
_PAPER = dict(rounds=1500, eval_every=500, holdout_clients=50)
_CNN = dict(_PAPER, model='emnist_cnn')
# The next model of a role takes long, so that fewer roles train.
_SMALL: dict[str, dict[str, Any]] = {
    'writers': dict(model='mlp_200', num_clients=100, holdout_clients=20),
    'digits': dict(model='mlp_50', num_clients=100, holdout_clients=20),
    'roles': dict(model='char_lstm_small', num_clients=40, holdout_clients=8),
    'users': dict(
        num_clients=100, holdout_clients=20, stackoverflow_tags_vocabulary=1000,
        stackoverflow_tags_tags=50,
    ),
}
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_personalization',
    summary=SUMMARY,
    title='Personalization on natural clients',
    note=(
        'Means over clients of test accuracies (of tags: recall at 5) and over'
        ' seeds, ± the standard deviation over seeds; new ones are of clients'
        ' that never train. A step size is chosen for each method by the mean'
        ' accuracy over clients on validation data of the first seed.'
    ),
    parts={
        part: real_data.part(
            task, partition='by_client',
            # The model of tags has one layer, of which nothing can be private.
            algos=real_data.algos(*['local_ffgg'] * (part == 'users')),
        )
        for part, task in _TASKS.items()
    },
    titles={
        'writers': 'Characters by writer', 'digits': 'Digits by writer',
        'roles': 'Shakespeare by role', 'users': 'Tags of posts by user',
    },
    scales=real_data.SCALES,
    sizes={
        **{f'cpu/{part}': dict(_FEW, **own) for part, own in _SMALL.items()},
        **{
            f'smoke/{part}': real_data.smoke(_TASKS[part], **dict(
                own, num_clients=8, clients_per_round=3, holdout_clients=2,
            ))
            for part, own in _SMALL.items()
        },
        'paper/writers': _CNN, 'paper/digits': _CNN,
        'paper/roles': _PAPER, 'paper/users': _PAPER,
    },
    file='personalization.md',
    chooses_algos=True,
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
