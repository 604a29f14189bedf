"""Local update methods on handwritten characters: two tables, two figures.

    python -m binaries.benchmark_local_updates --data_dir=DATA

On the Convergence and Accuracy Trade-Offs in Federated Learning and
Meta-Learning
    Charles, Konecny. AISTATS 2021. Experiments E1 and E3 of the spec sheet.
"""

import os

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Mapping, Sequence

from binaries import compare_tuned
from binaries import flags

SUMMARY = """\
python -m binaries.benchmark_local_updates --data_dir=DIR [--scale=cpu]
    [--parts=gamma,servers] [--flag=value]

Two comparisons on Federated EMNIST by writer, each with compare_tuned in a
folder of its own: every variant has the step size of its server that validation
data choose from one common grid.

  gamma    The rate of the clients from 0 (all gradients at the model received)
           upwards. The claim: a larger one is faster at first and ends higher.
  servers  FedAvg whose server has momentum or is adaptive.

DIR holds femnist_writers.npz. The scale cpu takes less than an hour on two
cores; full has the CNN and 1500 rounds. Every other flag is one of
compare_tuned and goes before the scale's. The same command resumes. Writes
local_updates.md beside the folders, each with tables and curves.png."""

_NUM_STEPS = 10
_GAMMAS = ('0', '0.03', '0.1', '0.3', '1')
PARTS = {
    'gamma': dict(
        algos=','.join(
            f'local_update[num_steps={_NUM_STEPS},gamma={gamma}]'
            for gamma in _GAMMAS
        ),
        grid='eta:0.01,0.03,0.1,0.3,1',
    ),
    'servers': dict(
        algos=(
            'fedavg,fedavgm,fedavgm[nesterov=true],fedadagrad,fedadam,fedyogi'
        ),
        grid='server_learning_rate:0.01,0.03,0.1,0.3,1',
    ),
}
_TITLES = {
    'gamma': 'The rate of the clients',
    'servers': 'Optimizers of the server',
}
_COMMON = dict(
    task='emnist', seeds='0,1,2', validation_fraction=0.2,
    clients_per_round=10,
)
SCALES = {
    'cpu': dict(
        _COMMON, model='mlp_200', num_clients=100, rounds=200, eval_every=10
    ),
    'full': dict(_COMMON, model='emnist_cnn', rounds=1500, eval_every=50),
}
_SCALE = 'cpu'
PAGE = 'local_updates.md'


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('benchmark_local_updates', _benchmark, argv)


def _benchmark(argv: Sequence[str]) -> int:
  table = {
      **dict([
          flags.own_flag(
              'scale', _SCALE, 'Model, rounds and writers.',
              choices=tuple(SCALES),
          ),
          flags.own_flag(
              'parts', ','.join(PARTS), 'Which of the comparisons.'
          ),
      ]),
      **{name: flag for name, flag in compare_tuned.flag_table().items()
         if name not in ('algos', 'grid')},
  }
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = flags.parse(argv, table)
  scale = given.pop('scale', _SCALE)
  parts = _parts(given.pop('parts', ','.join(PARTS)))
  top = given.pop('output_dir', '') or flags.resolve_path(
      f'runs/benchmark_local_updates_{scale}'
  )
  shared = {**SCALES[scale], **given}
  codes = [
      compare_tuned.main([
          'compare_tuned',
          *(f'--{k}={v}' for k, v in {**PARTS[part], **shared}.items()),
          f'--output_dir={os.path.join(top, part)}',
      ])
      for part in parts
  ]
  # 2: bad flags or data, and 130: stopped, leave no table.
  if max(codes) <= 1:
    text = page(scale, given, parts, top)
    path = os.path.join(top, PAGE)
    with open(path, 'w', encoding='utf-8') as file:
      file.write(text)
    print(f'\n{text}\nThe page is {path}.')
  return max(codes)


def _parts(text: str) -> list[str]:
  names = list(dict.fromkeys(text.split(',')))
  if not set(names) <= set(PARTS):
    raise flags.UsageError(
        f'`--parts` must be of {", ".join(PARTS)}, found {text!r}.'
    )
  return names


def page(
    scale: str, given: Mapping[str, Any], parts: Sequence[str], top: str
) -> str:
  """Returns the page: what was run, and a table per part, in Markdown.

  Args:
    scale: Value of `--scale`.
    given: The other flags that were given, by name.
    parts: Names of the comparisons.
    top: Where their folders are.
  """
  # The folder of the data is another one on every machine.
  shown = dict(given, data_dir='DATA')
  command = ['python -m binaries.benchmark_local_updates', f'--scale={scale}']
  texts = [
      '# Local update methods on handwritten characters',
      f'    {" ".join([*command, *flags.as_typed(shown)])}',
      'Accuracies are those of the global model before anybody adapts it, means'
      ' over clients of test data and over seeds, ± the standard deviation over'
      ' seeds. Step sizes are chosen on validation data of the first seed.',
  ]
  for part in parts:
    with open(
        os.path.join(top, part, 'summary.md'), encoding='utf-8'
    ) as file:
      table = file.read().strip()
    texts += [
        f'## {_TITLES[part]}', table,
        f'![Accuracy and loss against rounds]({part}/curves.png)',
    ]
  return '\n\n'.join(texts) + '\n'


if __name__ == '__main__':
  run()
