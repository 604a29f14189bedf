"""Local update methods on handwritten characters: two tables, two figures.

    python -m binaries.benchmark_local_updates --data_dir=DATA

On the Convergence and Accuracy Trade-Offs in Federated Learning and
Meta-Learning
    Charles, Konecny. AISTATS 2021. Experiments E1 and E3 of the spec sheet.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_local_updates --data_dir=DIR [--scale=cpu]
    [--parts=gamma,servers] [--flag=value]

Two comparisons on Federated EMNIST by writer, each with compare_tuned in a
folder of its own: every variant has the step size of its server that validation
data choose from one common grid.

  gamma    The rate of the clients from 0 (all gradients at the model received)
           upwards. The claim: a larger one is faster at first and ends higher.
  servers  FedAvg whose server has momentum or is adaptive.

DIR holds femnist_writers.npz. The scale cpu took 100 minutes on two cores
behind other programs; full has the CNN and 1500 rounds. Every other flag is one
of compare_tuned and goes before the scale's. The same command resumes. Writes
local_updates.md beside the folders, each with tables and curves.png."""

_NUM_STEPS = 10
_GAMMAS = ('0', '0.03', '0.1', '0.3', '1')
_COMMON = dict(
    task='emnist', seeds='0,1,2', validation_fraction=0.2,
    clients_per_round=10,
)
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_local_updates',
    summary=SUMMARY,
    title='Local update methods on handwritten characters',
    note=(
        'Accuracies are those of the global model before anybody adapts it,'
        ' means over clients of test data and over seeds, ± the standard'
        ' deviation over seeds. Step sizes are chosen on validation data of the'
        ' first seed.'
    ),
    parts={
        'gamma': dict(
            algos=','.join(
                f'local_update[num_steps={_NUM_STEPS},gamma={gamma}]'
                for gamma in _GAMMAS
            ),
            grid='eta:0.01,0.03,0.1,0.3,1',
        ),
        'servers': dict(
            algos=(
                'fedavg,fedavgm,fedavgm[nesterov=true],fedadagrad,fedadam,'
                'fedyogi'
            ),
            grid='server_learning_rate:0.01,0.03,0.1,0.3,1',
        ),
    },
    titles={
        'gamma': 'The rate of the clients',
        'servers': 'Optimizers of the server',
    },
    scales={
        'cpu': dict(
            _COMMON, model='mlp_200', num_clients=100, rounds=200, eval_every=10
        ),
        'full': dict(_COMMON, model='emnist_cnn', rounds=1500, eval_every=50),
    },
    file='local_updates.md',
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
