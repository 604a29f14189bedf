"""Predicts with the exported model of a client.

    python -m binaries.predict --run=DIR --data_dir=FILE [--client=NAME]
        [--output=FILE]

Predicts with the model that a client deploys. Reads examples from a .csv,
.parquet or .npz file (labels are not needed) or from a folder of images, and
scales them as in training. DIR is the folder of a run or an evaluation that
was exported with --export=saved_model. Writes a row per example: its number in
the file (from 0), the client, the prediction, and for classes their
probabilities. For a client that never trained, the model is the one that the
method gives a client without data.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from tff_pers.experiments import flags
from tff_pers.experiments import predictions

main = flags.Program(
    'predict', __doc__, predictions.run,
    flags.own_flag('run', '', 'Folder of a run with exported models.'),
    flags.own_flag('data_dir', '', 'File with examples.'),
    flags.own_flag(
        'client', '', 'Client whose model predicts; empty: for each row the'
        ' client in its column `client`.'
    ),
    flags.own_flag(
        'output', '', 'File to write; empty: predictions.csv in --run, for'
        ' other data in a new folder there.'
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
