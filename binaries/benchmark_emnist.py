"""Handwritten characters by writer: all families, and partial personalization.

    python -m binaries.benchmark_emnist --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity (papers/partial_personalization.md 5.2 to 5.5: FEMNIST).
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Sequence

from binaries import published
from binaries import real_data
from binaries import tuned_parts

SUMMARY = """\
python -m binaries.benchmark_emnist [--data_dir=DIR] [--scale=cpu]
    [--parts=partial,writers] [--algos=all] [--flag=value]

Comparisons on Federated EMNIST, each with compare_tuned in a folder of its own:
every method has the step size that validation data choose from one grid.

  partial   Methods that share a part of the model against those that share all
            or nothing, for writers that train and for writers that never do.
  writers   One method of each family and the best baselines.

DIR holds femnist_writers.npz, TFF's emnist_all.sqlite or fed_emnist_*.h5, or
LEAF's folders; without it TFF's file is downloaded. The scale smoke takes a
minute, cpu an hour per part on one core; paper has the papers' rounds, all
writers and ResNet-18. Every other flag is one of compare_tuned and goes before
the scale's. The same command resumes. Writes emnist.md beside the folders."""


def _partial(pretrain_rounds: int) -> str:
  """Returns the variants; those of FFGG start from a model of FedAvg's."""
  ffgg = [
      f'local_ffgg[split={split},pretrain_rounds={pretrain_rounds}]'
      for split in ('input_layer', 'output_layer', 'adapter')
  ]
  return ','.join([
      'fedavg', 'fedavg_finetuned', 'fedper', 'fedrep', *ffgg, 'local_only'
  ])


_SMALL = dict(
    model='mlp_200', num_clients=100, rounds=120, eval_every=120,
)
_PAPER = dict(
    model='resnet18', emnist_pixels='standardized', rounds=2500, eval_every=500
)
BENCHMARK = tuned_parts.Benchmark(
    name='benchmark_emnist',
    summary=SUMMARY,
    title='Handwritten characters by writer',
    note=(
        'Means over writers of test accuracies and over seeds, ± the standard'
        ' deviation over seeds; pooled ones weight writers by their test'
        ' images, as the paper does; new ones are of writers that never train.'
        ' A step size is chosen for each method by the mean accuracy over'
        ' writers on validation data of the first seed.'
    ),
    parts={
        # Four fifths of the rounds of FFGG are pre-training, as in the paper;
        # there the others go on after it, here all methods have equally many.
        'partial': real_data.part(
            'emnist', algos=_partial(96), clients_per_round=10
        ),
        'writers': real_data.part('emnist', clients_per_round=10),
    },
    titles={
        'partial': 'Partial personalization',
        'writers': 'A method of each family, and baselines',
    },
    scales=real_data.SCALES,
    sizes={
        'cpu/partial': dict(_SMALL, holdout_clients=20),
        'cpu/writers': _SMALL,
        # It keeps no writer for later in the paper.
        'paper/partial': dict(
            _PAPER, algos=_partial(2000), holdout_clients=50
        ),
        'paper/writers': _PAPER,
        'smoke/partial': real_data.smoke(
            'emnist', model='mlp_small', holdout_clients=2,
            algos='fedavg,local_ffgg[split=input_layer,pretrain_rounds=1]',
        ),
        'smoke/writers': real_data.smoke('emnist', model='mlp_small'),
    },
    published={'partial': published.EMNIST},
    file='emnist.md',
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
