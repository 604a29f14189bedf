"""FLoRAL beside the methods it is compared with, tuned alike; its ablations.

    python -m binaries.benchmark_floral --data_dir=DATA

Collaborative and Efficient Personalization with Mixtures of Adaptors
    Abdulla Jasem Almansoori, Samuel Horvath, Martin Takac. 2024. Tables 1, 2,
    4 and 5.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import published
from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_floral --data_dir=DIR [--scale=cpu]
    [--parts=mnist_shifted,label_shift,...] [--flag=value]

Comparisons of FLoRAL, each with compare_tuned in a folder of its own. In those
of methods every one has the rate that validation data choose from a common
grid; those of forms have the task's rate.

  mnist_shifted, mnist_rotated   Table 1, reduced to 5 % of the images.
  cifar10_shifted                Table 1, reduced, with one hidden layer.
  label_shift   Generated: four clusters give the classes other names.
  adaptors      Table 2: C and the rank, on that task.
  conv_forms, biases             Tables 4 and 5 in part: MNIST, a CNN.

The paper's Tables 2, 4 and 5 stand beside those of ours that have them. DIR
holds the files of MNIST and of CIFAR-10. The scale cpu has 40 clients and
150 rounds of MNIST, paper the paper's 300 clients of 10 images and 1500 rounds.
Every other flag is one of compare_tuned and goes before the scale's. The same
command resumes. Writes floral.md beside the folders, each with tables and
curves.png."""

_METHODS = (
    'fedavg,local_adaptor,ifca,fedem,ensemble,ensemble[router=oracle],floral,'
    'floral[router_step=gradient],floral[router=oracle],floral[budget=0.1],'
    'floral[budget=0.1,router=oracle]'
)
_GRID = 'learning_rate:0.03,0.1,0.3'
_RATE = 'learning_rate:0.1'  # The task's own.
_SHIFTED = dict(
    task='mnist', partition='label_shift_clusters', train_fraction=0.05
)
_GENERATED = dict(
    task='floral_label_shift', num_clients=20, clients_per_round=0, rounds=200,
    eval_every=50,
)
_CNN = dict(_SHIFTED, model='emnist_cnn', grid=_RATE)


def _sizes(rank: int):
  """Returns FLoRAL with half, as many and twice the adaptors of clusters."""
  return [
      f'floral[rank={rank},num_adaptors={number}]' for number in (2, 4, 8)
  ]


BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_floral',
    summary=SUMMARY,
    title='FLoRAL and the methods it is compared with',
    note=(
        'Means over clients of test accuracies and over seeds, ± the standard'
        ' deviation over seeds. Rates are chosen on validation data of the'
        ' first seed. The number of clusters is known to all methods that have'
        ' one.'
    ),
    parts={
        'mnist_shifted': dict(_SHIFTED, algos=_METHODS, grid=_GRID),
        'mnist_rotated': dict(
            _SHIFTED, partition='rotated_clusters', algos=_METHODS, grid=_GRID
        ),
        'cifar10_shifted': dict(
            task='cifar10', partition='label_shift_clusters', num_clients=20,
            clients_per_round=0, train_fraction=0.25, model='mlp_200',
            rounds=400, eval_every=100, algos=_METHODS, grid=_GRID,
        ),
        'label_shift': dict(_GENERATED, algos=_METHODS, grid=_GRID),
        'adaptors': dict(
            _GENERATED, algos=','.join(_sizes(1) + _sizes(4)), grid=_RATE
        ),
        'conv_forms': dict(_CNN, algos=','.join(
            f'floral[conv_form={form}]'
            for form in ('balanced_2d', 'balanced', 'in', 'out')
        )),
        'biases': dict(_CNN, algos='floral,floral[adapt_bias=false]'),
    },
    titles={
        'mnist_shifted': 'MNIST, shifted labels, reduced',
        'mnist_rotated': 'MNIST, rotated, reduced',
        'cifar10_shifted': 'CIFAR-10, shifted labels, reduced',
        'label_shift': 'Clusters that give the classes other names',
        'adaptors': 'C and rank, on that task',
        'conv_forms': 'Forms of convolution kernels, MNIST, shifted labels',
        'biases': 'With and without adaptors of biases, the same task',
    },
    scales={
        'cpu': dict(
            seeds='0,1,2', validation_fraction=0.2, num_clients=40,
            clients_per_round=20, rounds=150, eval_every=50,
        ),
        # Clients and rounds are what these tasks default to.
        'paper': dict(
            seeds='0,1,2', validation_fraction=0.2, eval_every=100
        ),
    },
    file='floral.md',
    embedded=('label_shift', 'adaptors'),
    published={
        'adaptors': published.FLORAL_ADAPTORS,
        'conv_forms': published.FLORAL_FORMS,
        'biases': published.FLORAL_BIASES,
    },
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return tuned_parts.main(BENCHMARK, argv)


if __name__ == '__main__':
  run()
