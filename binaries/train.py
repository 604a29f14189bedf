"""Trains one method on one task with one seed.

    python -m binaries.train --algo=NAME --task=NAME [--flag=value ...]

Trains one method on one task with one seed. Writes config.json, metrics.csv,
clients.csv, checkpoint.sqlite, TensorBoard events and plots to --output_dir.
Rerun the same command to resume after an interruption.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import runner

main = flags.Program(
    'train', __doc__, runner.run,
    flags.own_flag(
        'algo', runner.DEFAULT_ALGO,
        'Method, see above; brackets set its options: perm[lambda=0.1].',
    ),
    flags.own_flag(
        'fork', '',
        'Folder of a run: starts a new run from its last checkpoint, with its'
        ' flags unless others are given, such as another learning rate.',
    ),
    *exports.FLAGS, without=(), fills=(), resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
