"""PERM and FLoRAL with default flags on data that nothing was tuned to.

    python -m binaries.benchmark_defaults --data_dir=DATA

Runs comparisons and checks what is claimed of them.
"""

from binaries import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import re
import sys
from typing import Any, Mapping, Sequence

import numpy as np

from binaries import check_orderings
from binaries import compare
from binaries import default_settings
from binaries import flags
from tff_pers.evaluation import results

SUMMARY = f"""\
python -m binaries.benchmark_defaults --data_dir=DIR [--settings=A,B,...]

Runs PERM or FLoRAL with default flags beside the methods that bound them, each
setting with compare in a folder of its own, and checks what is claimed of it:

  {', '.join(list(default_settings.SETTINGS)[:3])}
      Writers of EMNIST, images of CIFAR-10 and MNIST. DIR holds their files.
  label_shift, rotated, shards, dirichlet, iid, each also _raw
      Partitions of digits, with and without each client's mean image.
  synthetic_groups, tumours, tumours_by_size
      Two groups of opposite labels; scikit-learn's table of tumours.
      Of all settings above but those of FLoRAL: PERM is nowhere far below
      local_only and fedavg, no round of visits is without one, and no value of
      a round is NaN.
  new_clients    Clients that never trained are near those that did.
  many_clients   1,000 clients, 100 in a round: the two groups are found.
  floral_label_shift   Rank 1: the clusters are found in each of ten seeds.

The same command resumes. Writes defaults.md beside the folders. Exit codes: 0
all claims hold, 1 one does not, 2 bad flags."""


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('benchmark_defaults', _benchmark, argv)


def _benchmark(argv: Sequence[str]) -> int:
  names = ','.join(default_settings.SETTINGS)
  table = dict([
      flags.own_flag('settings', names, 'Which of the settings.'),
      flags.own_flag('data_dir', '', 'Folder of EMNIST, CIFAR-10 and MNIST.'),
      flags.own_flag(
          'jobs', 1, 'Runs of a setting at a time; 0: as many as there are'
          ' cores, at most 2.', minimum=0,
      ),
      flags.own_flag('output_dir', '', 'Folder of the results.'),
  ])
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = flags.parse(argv, table)
  chosen = _chosen(given.get('settings', names), given.get('data_dir', ''))
  top = given.get('output_dir') or flags.resolve_path('runs/benchmark_defaults')
  default_settings.write_tumours(top)
  sections, holds = [], True
  for name in chosen:
    own = _flags(name, given, top)
    code = compare.main([
        'compare', *(f'--{flag}={value}' for flag, value in own.items())
    ])
    # 2: bad flags or data, and 130: stopped, leave no table.
    if code > 1:
      return code
    rows = claims(name, os.path.join(top, name))
    holds = holds and all(row['holds'] == 'yes' for row in rows)
    sections += [f'## {name}', _accuracies(os.path.join(top, name)),
                 results.markdown(check_orderings.COLUMNS, rows)]
  text = '\n\n'.join(['# Default flags', *sections]) + '\n'
  path = os.path.join(top, 'defaults.md')
  with open(path, 'w', encoding='utf-8') as file:
    file.write(text)
  print(f'\n{text}\nThe page is {path}.')
  return int(not holds)


def _chosen(text: str, data_dir: str) -> list[str]:
  known = default_settings.SETTINGS
  chosen = list(dict.fromkeys(text.split(',')))
  for name in chosen:
    if name not in known:
      raise flags.UsageError(
          f'`--settings` must be of {", ".join(known)}, found {name!r}.'
      )
    if default_settings.needs_files(name) and not data_dir:
      raise flags.UsageError(
          f'`--data_dir` must be the folder with the files of {name}, found'
          ' none. Tip: --settings names those that need no files.'
      )
  return chosen


def _flags(name: str, given: Mapping[str, Any], top: str) -> dict[str, Any]:
  """Returns the flags of `compare` of a setting."""
  own = dict(default_settings.SETTINGS[name].flags)
  if default_settings.needs_files(name):
    own['data_dir'] = given['data_dir']
  elif 'data_dir' in own:  # A table that this program made.
    own['data_dir'] = os.path.join(top, own['data_dir'])
  if 'jobs' in given:
    own['jobs'] = given['jobs']
  return dict(own, output_dir=os.path.join(top, name))


def claims(name: str, folder: str) -> list[dict[str, Any]]:
  """Returns a row of `check_orderings.COLUMNS` per claim of a setting.

  Args:
    name: The setting.
    folder: What `compare` wrote.
  """
  setting = default_settings.SETTINGS[name]
  rows = [
      row for claim in setting.claims for row in check_orderings.check(
          folder, claim.expect, metric=claim.metric, in_seeds=claim.in_seeds
      )
  ]
  runs = results.find_runs(folder)
  if setting.visits:
    of_perm = [
        path for path in runs if results.read_config(path)['variant'] == 'perm'
    ]
    rows += [
        _counted('no NaN in a round', [_has_nan(path) for path in runs]),
        _counted(
            'no round of visits without one',
            [_has_idle_round(path) for path in of_perm],
        ),
    ]
  if setting.new_clients:
    rows.append(_near(runs, setting.new_clients))
  return rows


def _counted(claim: str, fails: Sequence[bool]) -> dict[str, Any]:
  """Returns the row of what must not be in any run."""
  good = len(fails) - sum(fails)
  return dict(
      claim=claim, left='', right='', seeds=f'{good} of {len(fails)}',
      holds='yes' if fails and not any(fails) else 'no',
  )


def _has_nan(path: str) -> bool:
  """Whether a value of a run's rounds, or of its log, is NaN."""
  cells = [
      cell for row in results.read_rows(path, results.METRICS)
      for cell in row.values()
  ]
  with open(os.path.join(path, 'train.log'), encoding='utf-8') as file:
    return 'nan' in cells or bool(re.search(r'\bnan\b', file.read()))


def _has_idle_round(path: str) -> bool:
  """Whether nobody had a visit in a round after the first with visits."""
  idle = results.read_run(path).metrics['visits_idle']
  begun = np.flatnonzero(idle < 1)
  return not begun.size or bool(np.any(idle[begun[0]:] >= 1))


def _near(runs: Sequence[str], margin: float) -> dict[str, Any]:
  """Returns the row that compares new clients with those that trained."""
  pairs = []
  for path in runs:
    clients = results.read_clients(path) or {}
    pairs.append([
        np.mean(clients['accuracy'][clients['seen'] == seen]) for seen in (1, 0)
    ])
  trained, new = np.mean(pairs, axis=0)
  good = sum(pair[0] - margin <= pair[1] for pair in pairs)
  return dict(
      claim=f'trained clients-{margin}<=new clients',
      left=f'{trained - margin:.4g}', right=f'{new:.4g}',
      seeds=f'{good} of {len(pairs)}',
      holds='yes' if trained - margin <= new else 'no',
  )


def _accuracies(folder: str) -> str:
  """Returns the table of a setting's accuracies."""
  columns = ('algo', 'seeds', 'accuracy_mean', 'accuracy_std')
  rows = results.read_rows(folder, 'summary.csv', columns)
  for row in rows:  # Of one seed there is no deviation.
    row.update({
        name: f'{float(row[name]):.4f}' for name in columns[2:] if row[name]
    })
  return results.markdown(columns, rows)


if __name__ == '__main__':
  run()
