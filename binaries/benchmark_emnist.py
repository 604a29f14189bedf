"""The table of partial personalization on handwritten characters by writer.

    python -m binaries.benchmark_emnist --data_dir=DATA

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity (papers/partial_personalization.md 5.2 to 5.5: FEMNIST).
"""

from binaries import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Mapping, Sequence

from binaries import compare_tuned
from binaries import flags
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
_SCALE = 'cpu'
PAGE = 'emnist.md'


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('benchmark_emnist', _benchmark, argv)


def _benchmark(argv: Sequence[str]) -> int:
  table = {
      **dict([flags.own_flag(
          'scale', _SCALE, 'Model, rounds and writers.', choices=tuple(SCALES)
      )]),
      **compare_tuned.flag_table(),
  }
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = flags.parse(argv, table)
  scale = given.pop('scale', _SCALE)
  top = given.pop('output_dir', '') or flags.resolve_path(
      f'runs/benchmark_emnist_{scale}'
  )
  chosen = {**SCALES[scale], **given}
  code = compare_tuned.main([
      'compare_tuned', *(f'--{name}={v}' for name, v in chosen.items()),
      f'--output_dir={top}',
  ])
  # 2: bad flags or data, and 130: stopped, leave no table.
  if code in (0, 1) and os.path.exists(os.path.join(top, 'summary.csv')):
    text = page(scale, given, chosen, results.read_rows(top, 'summary.csv'))
    with open(os.path.join(top, PAGE), 'w', encoding='utf-8') as file:
      file.write(text)
    print(f'\n{text}\nThe page is {os.path.join(top, PAGE)}.')
  return code


def page(
    scale: str, given: Mapping[str, Any], chosen: Mapping[str, Any],
    rows: Sequence[Mapping[str, str]],
) -> str:
  """Returns the page: what was run, and both tables, in Markdown.

  Args:
    scale: Value of `--scale`.
    given: The other flags that were given, by name.
    chosen: All flags that were handed on.
    rows: Those of `summary.csv`.
  """
  rows = [_with_numbers(row) for row in rows]
  names = list(rows[0])
  new = [name for name in names if name.startswith('new_')]
  # The folder of the data is another one on every machine.
  shown = dict(given, data_dir='DATA')
  command = ['python -m binaries.benchmark_emnist', f'--scale={scale}']
  parts = [
      '# Partial personalization on handwritten characters',
      f'    {" ".join([*command, *flags.as_typed(shown)])}',
      'Settings: '
      + ' '.join(f'`{word}`' for word in flags.as_typed(
          {**chosen, 'data_dir': 'DATA'}
      ))
      + '. A step size is chosen for each method by the mean accuracy over'
      ' clients on validation data of the first seed. Numbers are means over'
      ' seeds of test accuracies, ± the standard deviation over seeds; pooled'
      ' ones weight clients by their test examples, as the paper does.',
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
