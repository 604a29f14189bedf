"""Compares a local step of each FedHM tier to one of the full model.

    python -m binaries.benchmark_tiers --repetitions=5

Measures ResNet-18 on 32x32 images at the ratios 1, 1/2, 1/4, 1/8, and an MLP at
1, 1/4, 1/8, 1/16. Also measures the server's decompositions per round, relative
to a round of 10 clients of these tiers with 2,500 examples each, 1 epoch,
batches of 64 (measured steps times their number). One process measures all
calls in turn, so that machine load affects all alike. CPU seconds sum over
threads, medians over turns; a ratio is the median of those within a turn.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import tiers
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_tiers', __doc__, tiers.run,
    flags.own_flag('repetitions', 5, 'Number of measured turns.', minimum=1),
    flags.own_flag(
        'models', ','.join(tiers.SETTINGS), 'Models to measure.'
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
