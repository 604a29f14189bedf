"""The table of partial personalization on handwritten characters by writer.

    python -m binaries.benchmark_emnist --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity (papers/partial_personalization.md 5.2 to 5.5: FEMNIST).
"""

from binaries import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Mapping, Sequence

from binaries import flags
from binaries import tuned_scales
from tff_pers.evaluation import results
from tff_pers.evaluation import tuning

SUMMARY = """\
python -m binaries.benchmark_emnist --data_dir=DIR [--scale=cpu] [--flag=value]

Makes the EMNIST table of partial personalization with compare_tuned: methods
that share a part of the model against those that share all or nothing, each at
the step size that validation data choose, over three seeds, for writers that
train and for writers that never do. DIR holds femnist_writers.npz. The scale
cpu takes less than an hour on two cores; full has the CNN and the paper's
rounds. Every other flag is one of compare_tuned and goes before the scale's.
The same command resumes. Writes emnist.md beside the files of compare_tuned."""


def _algos(pretrain_rounds: int) -> str:
  """Returns the variants; those of FFGG start from a model of FedAvg's."""
  ffgg = [
      f'local_ffgg[split={split},pretrain_rounds={pretrain_rounds}]'
      for split in ('input_layer', 'output_layer', 'adapter')
  ]
  return ','.join([
      'fedavg', 'fedavg_finetuned', 'fedper', 'fedrep', *ffgg, 'local_only'
  ])


_COMMON = dict(
    task='emnist', seeds='0,1,2',
    # Around the best of FedAvg (about 1) and of local training (below 0.5).
    grid='learning_rate:0.2,0.7,2', validation_fraction=0.2,
    # Table 2 of the paper.
    clients_per_round=10,
)
# Four fifths of the rounds of FFGG are pre-training, as in the paper; there the
# others go on after it, here all methods have equally many rounds.
SCALES = {
    'cpu': dict(
        _COMMON, algos=_algos(96), model='mlp_200', num_clients=100,
        holdout_clients=20, rounds=120, eval_every=120,
    ),
    # All writers, the paper's rounds; it keeps no writer for later.
    'full': dict(
        _COMMON, algos=_algos(2000), model='emnist_cnn', holdout_clients=50,
        rounds=2500, eval_every=500,
    ),
}
PAGE = 'emnist.md'


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('benchmark_emnist', _benchmark, argv)


def _benchmark(argv: Sequence[str]) -> int:
  return tuned_scales.run(
      'benchmark_emnist', argv, summary=SUMMARY, scales=SCALES,
      table='summary.csv', page=page, file_name=PAGE,
  )


def page(
    scale: str, given: Mapping[str, Any], chosen: Mapping[str, Any], top: str
) -> str:
  """Returns the page: what was run, and both tables, in Markdown.

  Args:
    scale: Value of `--scale`.
    given: The other flags that were given, by name.
    chosen: All flags that were handed on.
    top: The folder of the comparison.
  """
  rows = [
      _with_numbers(row) for row in results.read_rows(top, 'summary.csv')
  ]
  names = list(rows[0])
  new = [name for name in names if name.startswith('new_')]
  parts = [
      *tuned_scales.heading(
          'benchmark_emnist',
          'Partial personalization on handwritten characters',
          scale, given, chosen,
          'Numbers are means over seeds of test accuracies,'
          ' ± the standard deviation over seeds; pooled ones weight clients by'
          ' their test examples, as the paper does.',
      ),
      '## Writers that train',
      tuning.markdown([name for name in names if name not in new], rows),
  ]
  if new:
    parts += [
        '## Writers that never train',
        tuning.markdown(['algo', *new], rows),
    ]
  return '\n\n'.join(parts) + '\n'


def _with_numbers(row: Mapping[str, str]) -> dict[str, Any]:
  """Returns a row of `summary.csv` with its statistics as numbers."""
  def read(name, text):
    if name.endswith(('_mean', '_std')):
      return float(text) if text else None
    return text or None
  return {name: read(name, text) for name, text in row.items()}


if __name__ == '__main__':
  run()
