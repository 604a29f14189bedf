"""Shows result folders as one HTML page.

    python -m binaries.report --runs=runs/compare_digits
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Mapping, Sequence

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.evaluation.report import folder_data
from tff_pers.evaluation.report import page
from tff_pers.experiments import flags

SUMMARY = """\
python -m binaries.report --runs=DIR[,DIR...] [--output=FILE]

Writes one HTML page of the runs in and under the folders, finished or running,
which needs neither a network nor a server: results and costs of each variant,
curves of test and validation data, the distribution over clients and who is
hurt, mixing weights and routers, flags and versions, and what is wrong with
runs. Tables of choose, tune, compare_tuned and robustness that are there, too,
come first."""

_NAME = 'report.html'


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('report', SUMMARY, flag_table, _report, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'runs', '', 'Folders of runs or comparisons, with commas between'
          ' them.'
      ),
      flags.own_flag(
          'output', '', f'File of the page; empty: {_NAME} in the first folder.'
      ),
  ])


def _report(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  del table  # Unused.
  folders = [
      flags.resolve_path(name)
      for name in given.get('runs', '').split(',') if name
  ]
  path = _output(given, folders)
  print(write(folders, path))
  return 0


def write(folders: Sequence[str], path: str) -> str:
  """Writes the page of `folders` to the file `path`; returns the path.

  Raises:
    flags.UsageError: If there is nothing to show, a file is damaged, or the
      page cannot be written there.
  """
  for folder in folders or ['none']:
    if not results.find_runs(folder) and not folder_data.find([folder]):
      raise flags.UsageError(
          '`--runs` must name folders that hold runs (a config.json) or tables'
          f' of them, found {folder}.'
      )
  found = list(dict.fromkeys(
      run for folder in folders for run in results.find_runs(folder)
  ))
  tables = folder_data.find(folders)
  with flags.sentences():
    text = page.render(page.collect(
        [results.read_run(folder) for folder in found],
        top=os.path.commonpath(folders), title=_title(folders), tables=tables,
    ))
  try:
    files.write_text(path, text)
  except OSError as error:
    raise flags.UsageError(
        f'`--output` must be a file that can be written, found {path}:'
        f' {error.strerror}.'
    ) from error
  return path


def _output(given: Mapping[str, Any], folders: Sequence[str]) -> str:
  """Returns where the page goes."""
  if given.get('output'):
    return flags.resolve_path(given['output'])
  return os.path.join(folders[0], _NAME) if folders else _NAME


def _title(folders: Sequence[str]) -> str:
  return ', '.join(os.path.basename(folder) or folder for folder in folders)


if __name__ == '__main__':
  sys.exit(main(sys.argv))
