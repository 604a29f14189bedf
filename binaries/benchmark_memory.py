"""Measures the memory of PERM's model table: N models of d weights.

    python -m binaries.benchmark_memory --clients=200

Reports the size of the table (N x d x 4 bytes), and the peak memory of this
process (which holds the server state between rounds) and, on the native
runtime, of TFF's worker (which runs the round), beside those of a run with few
models, which are the fixed cost.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import harness
from binaries.speed import memory
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_memory', __doc__, memory.run,
    flags.own_flag(
        'clients', 200, 'N, number of personalized models.', minimum=2
    ),
    flags.own_flag('rounds', 3, 'Rounds.', minimum=1),
    harness.RUNTIME_FLAG,
    harness.measure_flag('one variant', choices=('', *memory.VARIANTS)),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
