"""Shows result folders as one HTML page.

    python -m binaries.report --runs=DIR[,DIR...] [--output=FILE]

Writes one HTML page about the runs in and under the folders, finished or
running, that needs neither a network nor a server: results and costs of each
variant, curves of test and validation data, the distribution over clients and
which are hurt, mixing weights and routers, flags and versions, and problems of
runs. Tables that choose, tune, compare_tuned or robustness wrote to the folders
come first.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import report_file

main = flags.Program(
    'report', __doc__, report_file.run,
    flags.own_flag(
        'runs', '', 'Folders of runs or comparisons, with commas between them.'
    ),
    flags.own_flag(
        'output', '',
        f'File of the page; empty: {report_file.NAME} in the first folder.',
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
