"""Sweeps the split of a partially private model.

    python -m binaries.sweep_splits --algo=A --splits=S,T,... --seeds=0,1,2
        [--flag=value ...]

Trains a method that splits the model with each split, and the two extremes:
fedavg_finetuned (nothing is private) and local_only (everything is). Runs are
in OUTPUT_DIR/<variant>/seed<seed>, as in compare: finished runs are not
repeated, interrupted runs are resumed. Writes splits.csv, splits.md and the
figure splits: accuracy against the share of private parameters.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import splits

main = flags.Program(
    'sweep_splits', __doc__, splits.run,
    flags.own_flag(
        'algo', 'local_ffgg',
        'The method, possibly with options, such as fedper[local_steps=5].',
    ),
    flags.own_flag(
        'splits', 'bias,adapter,output_layer,input_layer',
        'Splits to try: what is private.',
    ),
    flags.own_flag('seeds', '0', 'Seeds of the runs, such as 0,1,2.'),
    without=('seed',), resumes=True,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
