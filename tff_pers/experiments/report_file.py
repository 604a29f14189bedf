"""Writes the report page of runs."""

import os
from typing import Any, Mapping, Sequence

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.evaluation.report import folder_data
from tff_pers.evaluation.report import page
from tff_pers.experiments import flags

NAME = 'report.html'


def run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  """Runs `binaries.report`; returns the exit code.

  Args:
    given: Values of the flags that were given, and the program's defaults.
    table: All flags.

  Raises:
    flags.UsageError: If flags conflict or cannot be carried out.
  """
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
  with flags.usage_errors():
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
  """Returns the path of the page."""
  if given.get('output'):
    return flags.resolve_path(given['output'])
  return os.path.join(folders[0], NAME) if folders else NAME


def _title(folders: Sequence[str]) -> str:
  return ', '.join(os.path.basename(folder) or folder for folder in folders)
