"""Compares a local step of FLoRAL to one of the model without adaptors.

    python -m binaries.benchmark_adaptors --repetitions=15

The models, batches and minibatches of W1 and W2 of benchmark_runtime; 4
adaptors, each of 1 % and of 10 % of the model. One process measures all calls
in turn, so that machine load affects all of them alike. Seconds are medians; a
ratio is the median of the ratios within a turn; CPU seconds sum over threads.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import adaptors
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_adaptors', __doc__, adaptors.run,
    flags.own_flag('repetitions', 15, 'Number of measured turns.', minimum=1),
    flags.own_flag('epochs', 8, 'Local epochs per measurement.', minimum=1),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
