"""Plots runs from their folders.

    python -m binaries.plot --runs=DIR[,DIR...] [--output_dir=DIR]

Plots the runs in and under the folders, finished or running, as PNG and SVG:
accuracy and loss against rounds (band: range over seeds), the distance to the
optimum if it is known, and the distribution over clients; for a single run also
the data map and the mixing weights.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import report_file

main = flags.Program(
    'plot', __doc__, report_file.plot,
    flags.own_flag('runs', '', 'Folders of runs or comparisons.'),
    flags.own_flag(
        'output_dir', '', 'Folder of the figures; empty: the first in --runs.'
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
