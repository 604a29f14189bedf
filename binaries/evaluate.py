"""Evaluates a run on other data, or on clients that it has never seen.

    python -m binaries.evaluate --run=DIR [--data_dir=FILE] [--output_dir=DIR]
        [--export=saved_model] [--export_clients=NAMES] [--import=MODULES]

Evaluates a run, finished or not, at its last checkpoint, without changing the
run. FILE (.csv, .parquet, .npz, or a folder) has the columns of the training
data. Clients that trained adapt to their training data, then are tested on all
rows of FILE that `split` does not call train. New clients adapt as the method
says to their training rows (by `split`, else a share drawn by the run's
--train_fraction) and are tested on their other rows, or on all rows if the
method does not adapt. Features are preprocessed as in training. Without FILE,
the run's own test data are evaluated again. Writes clients.csv, and with
--export the models for binaries.predict.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import reload_run

main = flags.Program(
    'evaluate', __doc__, reload_run.run,
    flags.own_flag('run', '', 'Folder of the run.'),
    flags.own_flag('data_dir', '', 'File with the examples.'),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: `evaluation` in'
        ' --run, `evaluation_2` for other data, and so on.'
    ),
    flags.own_flag(
        'import_', '', 'Your own modules that the run was started with.'
    ),
    *exports.FLAGS,
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
