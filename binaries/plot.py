"""Plots runs from their folders.

    python -m binaries.plot --runs=runs/digits
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys
from typing import Any, Sequence

from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.experiments import flags

SUMMARY = """\
python -m binaries.plot --runs=DIR[,DIR...] [--output_dir=DIR]

Plots the runs in and under the folders, finished or running, as PNG and SVG:
accuracy and loss against rounds (band: range over seeds), the distance to the
optimum if it is known, and the distribution over clients; for a single run also
the data map and the mixing weights."""


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program('plot', SUMMARY, flag_table, _plot, argv)


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag('runs', '', 'Folders of runs or comparisons.'),
      flags.own_flag(
          'output_dir', '', 'Folder of the figures; empty: the first in --runs.'
      ),
  ])


def _plot(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  del table  # Unused.
  folders = [
      flags.resolve_path(name)
      for name in given.get('runs', '').split(',') if name
  ]
  found = list(dict.fromkeys(
      run for folder in folders for run in results.find_runs(folder)
  ))
  if not found:
    raise flags.UsageError(
        '`--runs` must name folders that hold runs (a config.json), found'
        f" {given.get('runs', '')!r}."
    )
  output_dir = given.get('output_dir') or folders[0]
  for path in plot_all(found, output_dir):
    print(f'{path}.png')
  return 0


def plot_all(folders: Sequence[str], output_dir: str) -> list[str]:
  """Plots all figures of one run, or compares several; returns paths."""
  if len(folders) == 1:
    return plots.plot_run(folders[0], output_dir)
  made = plots.plot_runs(
      [results.read_run(folder) for folder in folders], output_dir
  )
  for folder in folders:  # Plots of a single run stay in its folder.
    made += plots.plot_run(folder)
  return made


if __name__ == '__main__':
  sys.exit(main(sys.argv))
