"""Plots runs from their folders.

    python -m binaries.plot --runs=DIR[,DIR...] [--output_dir=DIR]

Plots the runs in and under the folders, finished or running, as PNG and SVG:
accuracy and loss against rounds (band: range over seeds), the distance to the
optimum if it is known, and the distribution over clients; for a single run also
the data map and the mixing weights.
"""

from typing import Any

from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import report_file


def _run(given: dict[str, Any]) -> int:
  folders = flags.paths(given['runs'])
  found = report_file.find_runs(given['runs'])
  output_dir = given['output_dir'] or folders[0]
  # Plots of a single run stay in its folder if there are several.
  made = plots.plot_run(found[0], output_dir) if len(found) == 1 else [
      *plots.plot_runs(list(map(results.read_run, found)), output_dir),
      *(path for folder in found for path in plots.plot_run(folder)),
  ]
  for path in made:
    print(f'{path}.png')
  return 0


main = flags.Program(
    'plot', __doc__, _run,
    flags.own_flag('runs', '', 'Folders of runs or comparisons.'),
    flags.own_flag(
        'output_dir', '', 'Folder of the figures; empty: the first in --runs.'
    ),
)
