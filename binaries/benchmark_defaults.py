"""Checks the defaults of PERM and FLoRAL on data they were not tuned on.

    python -m binaries.benchmark_defaults --data_dir=DATA

Runs comparisons and checks claims about their results.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import pathlib
import sys

from binaries import compare
from tff_pers.experiments import benchmarks
from tff_pers.experiments import default_claims
from tff_pers.experiments import flags

_FILE = benchmarks.read_settings(str(
    pathlib.Path(__file__).parent / 'benchmarks/settings/defaults.yaml'
))
SETTINGS = dict(_FILE.settings)

main = flags.Program(
    'benchmark_defaults', _FILE.help,
    lambda given: default_claims.run(given, SETTINGS, compare.main),
    flags.own_flag(
        'settings', ','.join(SETTINGS),
        'Settings to run; embedded: all that need no files.',
    ),
    flags.own_flag(
        'seeds', '', 'Seeds, such as 3001,3002, in place of those of a setting;'
        ' they need another output_dir.',
    ),
    flags.own_flag(
        'data_dir', '', 'Folder of EMNIST, School, CIFAR-10 and MNIST.'
    ),
    flags.own_flag(
        'jobs', 1, 'Runs of a setting in parallel; 0: min(cores, 2).',
        minimum=0,
    ),
    flags.own_flag('output_dir', '', 'Folder of the results.'),
    resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
