"""Checks the defaults of PERM and FLoRAL on data they were not tuned on.

    python -m binaries.benchmark_defaults --data_dir=DATA

Runs comparisons and checks claims about their results.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import re
import sys
from typing import Any, Mapping, Sequence

from binaries import compare
from binaries import default_claims
from binaries import default_settings
from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import orderings

_EMBEDDED = 'embedded'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'benchmark_defaults', default_settings.FILE.help, flag_table, _benchmark,
      argv,
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'settings', ','.join(default_settings.SETTINGS),
          'Settings to run; embedded: all that need no files.',
      ),
      flags.own_flag('data_dir', '', 'Folder of EMNIST, CIFAR-10 and MNIST.'),
      flags.own_flag(
          'jobs', 1, 'Runs of a setting in parallel; 0: min(cores, 2).',
          minimum=0,
      ),
      flags.own_flag('output_dir', '', 'Folder of the results.'),
  ])


def _benchmark(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  given = {**flags.own_defaults(table), **given}
  chosen = _chosen(given['settings'], given['data_dir'])
  top = given['output_dir'] or flags.resolve_path('runs/benchmark_defaults')
  default_settings.write_tumours(top)
  sections, holds = [], True
  for name in chosen:
    folder = os.path.join(top, name)
    code = _compare(name, given, top)
    if code:
      return code
    rows = default_claims.check(name, folder)
    holds = holds and all(row['holds'] == 'yes' for row in rows)
    sections += [f'## {name}', _accuracies(folder),
                 results.markdown(orderings.COLUMNS, rows)]
  text = '\n\n'.join(['# Default flags', *sections]) + '\n'
  path = os.path.join(top, 'defaults.md')
  files.write_text(path, text)
  print(f'\n{text}\nThe page is {path}.')
  return int(not holds)


def _chosen(text: str, data_dir: str) -> list[str]:
  """Returns the names of `--settings`; refuses those without their files."""
  own = default_settings.SETTINGS
  embedded = ','.join(name for name in own if not own[name].files)
  text = re.sub(rf'\b{_EMBEDDED}\b', embedded, text)
  names = flags.chosen('settings', text, [_EMBEDDED, *own])
  for name in names:
    if own[name].files and not data_dir:
      raise flags.UsageError(
          f'`--data_dir` must be the folder with the files of {name}, found'
          f' none. Tip: --settings={_EMBEDDED} are those that need no files.'
      )
  return names


def _compare(name: str, given: Mapping[str, Any], top: str) -> int:
  """Runs `compare` on a setting; returns an exit code if it wrote no table."""
  setting, folder = default_settings.SETTINGS[name], os.path.join(top, name)
  own = {**setting.flags, 'jobs': given['jobs'], 'output_dir': folder}
  if setting.files:
    own['data_dir'] = given['data_dir']
  elif 'data_dir' in own:  # A table that this program wrote.
    own['data_dir'] = os.path.join(top, own['data_dir'])
  table = os.path.join(folder, 'runs.csv')
  if os.path.exists(table):  # May be left over from an interrupted run.
    os.remove(table)
  code = compare.main([
      'compare', *(f'--{flag}={value}' for flag, value in own.items())
  ])
  # A diverged run gives exit code 1 but still leaves a table.
  return 0 if os.path.exists(table) else code


def _accuracies(folder: str) -> str:
  """Returns the table of a setting's accuracies."""
  columns = ('algo', 'seeds', 'accuracy_mean', 'accuracy_std')
  rows = results.read_rows(folder, 'summary.csv', columns)
  for row in rows:  # One seed has no standard deviation.
    row.update({
        name: f'{float(row[name]):.4f}' for name in columns[2:] if row[name]
    })
  return results.markdown(columns, rows)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
