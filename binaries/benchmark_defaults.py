"""PERM and FLoRAL with default flags on data that nothing was tuned to.

    python -m binaries.benchmark_defaults --data_dir=DATA

Runs comparisons and checks what is claimed of them.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Mapping, Sequence

from binaries import check_orderings
from binaries import compare
from binaries import default_claims
from binaries import default_settings
from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.experiments import flags

SUMMARY = """\
python -m binaries.benchmark_defaults --data_dir=DIR
    [--settings=embedded,femnist,...]

Runs PERM or FLoRAL with default flags beside the methods that bound them, each
setting with compare in a folder of its own, and checks what is claimed of it.
femnist, floral_cifar10 and floral_mnist need files, which DIR holds; all others
together are called embedded.

  label_shift, rotated, shards, dirichlet, iid, each also _raw
      Partitions of digits, with and without each client's mean image: PERM is
      at most .015 below local_only and fedavg (dirichlet_raw: .03 below
      fedavg), .1 and .06 above local_only on label_shift and label_shift_raw.
  synthetic_groups, tumours, tumours_by_size, femnist
      Two groups of opposite labels (.02 above local_only), scikit-learn's table
      of tumours, 30 writers of EMNIST: the same.
  new_clients    Clients that never trained are at most .03 below those that
      did. Of this and all above: no round of visits is without one, no value of
      a round is NaN.
  many_clients   1,000 clients, 100 in a round: .95 of them are in the right
      group, and PERM is at most .02 below oracle_groups.
  floral_label_shift   Rank 1: an accuracy of .8 in each of ten seeds.
  floral_cifar10, floral_mnist   Reduced data, shifted labels: FLoRAL is above
      local_adaptor, on MNIST by .15, and .6 at least.

The same command resumes. Writes defaults.md beside the folders. Exit codes: 0
all claims hold, 1 one does not, 2 bad flags."""
_EMBEDDED = 'embedded'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'benchmark_defaults', SUMMARY, flag_table, _benchmark, argv
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'settings', ','.join(default_settings.SETTINGS),
          'Which of the settings; embedded: those that need no files.',
      ),
      flags.own_flag('data_dir', '', 'Folder of EMNIST, CIFAR-10 and MNIST.'),
      flags.own_flag(
          'jobs', 1, 'Runs of a setting at a time; 0: as many as there are'
          ' cores, at most 2.', minimum=0,
      ),
      flags.own_flag('output_dir', '', 'Folder of the results.'),
  ])


def _benchmark(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  chosen = _chosen(
      given.get('settings', table['settings'].spec.default),
      given.get('data_dir', ''),
  )
  top = given.get('output_dir') or flags.resolve_path('runs/benchmark_defaults')
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
                 results.markdown(check_orderings.COLUMNS, rows)]
  text = '\n\n'.join(['# Default flags', *sections]) + '\n'
  path = os.path.join(top, 'defaults.md')
  files.write_text(path, text)
  print(f'\n{text}\nThe page is {path}.')
  return int(not holds)


def _compare(name: str, given: Mapping[str, Any], top: str) -> int:
  """Makes the table of a setting; returns 0, or why there is none."""
  table = os.path.join(top, name, 'runs.csv')
  if os.path.exists(table):  # Of a command that was stopped since, maybe.
    os.remove(table)
  own = _flags(name, given, top)
  code = compare.main([
      'compare', *(f'--{flag}={value}' for flag, value in own.items())
  ])
  # A run that diverged is an exit code, too, and leaves a table.
  return 0 if os.path.exists(table) else code


def _chosen(text: str, data_dir: str) -> list[str]:
  known = default_settings.SETTINGS
  names = text.split(',')
  if _EMBEDDED in names:
    place = names.index(_EMBEDDED)
    names[place:place + 1] = [
        name for name in known if not default_settings.needs_files(name)
    ]
  chosen = list(dict.fromkeys(names))
  for name in chosen:
    if name not in known:
      raise flags.UsageError(
          f'`--settings` must be of {_EMBEDDED}, {", ".join(known)}, found'
          f' {name!r}.'
      )
    if default_settings.needs_files(name) and not data_dir:
      raise flags.UsageError(
          f'`--data_dir` must be the folder with the files of {name}, found'
          f' none. Tip: --settings={_EMBEDDED} are those that need no files.'
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
  sys.exit(main(sys.argv))
