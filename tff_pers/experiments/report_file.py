"""Shows result folders as one HTML page.

    python -m binaries.report --runs=DIR[,DIR...] [--output=FILE]

Writes one HTML page about the runs in and under the folders, finished or
running, that needs neither a network nor a server: results and costs of each
variant, curves of test and validation data, the distribution over clients and
which are hurt, mixing weights and routers, flags and versions, and problems of
runs. Tables that choose, tune or compare_tuned wrote to the folders come first.
"""

import itertools
import os
from typing import Any, Sequence

from tff_pers.core import files
from tff_pers.evaluation import results
from tff_pers.evaluation.report import folder_data
from tff_pers.evaluation.report import page
from tff_pers.experiments import flags

NAME = 'report.html'


def _run(given: dict[str, Any]) -> int:
  folders = flags.paths(given['runs'])
  path = os.path.join(folders[0], NAME) if folders else NAME
  if given['output']:
    path = flags.resolve_path(given['output'])
  print(write(folders, path))
  return 0


def find_runs(text: str) -> list[str]:
  """Returns the folders of all runs in and under those of `--runs`.

  Raises:
    flags.UsageError: If there are none.
  """
  found = [run for path in flags.paths(text) for run in results.find_runs(path)]
  if not found:
    raise flags.UsageError(
        '`--runs` must name folders that hold runs (a config.json), found'
        f' {text!r}.'
    )
  return list(dict.fromkeys(found))


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
  found = list(dict.fromkeys(itertools.chain(*map(results.find_runs, folders))))
  tables = folder_data.find(folders)
  with flags.usage_errors():
    text = page.render(page.collect(
        [results.read_run(folder) for folder in found],
        top=os.path.commonpath(folders), tables=tables,
        title=', '.join(os.path.basename(path) or path for path in folders),
    ))
  try:
    files.write_text(path, text)
  except OSError as error:
    raise flags.UsageError(
        f'`--output` must be a file that can be written, found {path}:'
        f' {error.strerror}.'
    ) from error
  return path


main = flags.Program(
    'report', __doc__, _run,
    flags.own_flag(
        'runs', '', 'Folders of runs or comparisons, with commas between them.'
    ),
    flags.own_flag(
        'output', '',
        f'File of the page; empty: {NAME} in the first folder.',
    ),
)
