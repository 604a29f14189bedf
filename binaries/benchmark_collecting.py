"""Measures what it costs a server to collect messages instead of summing them.

    python -m binaries.benchmark_collecting --parameters=1000000
    python -m binaries.benchmark_collecting --runtime=native --parameters=100000

Robust rules need the individual messages of a round. Every client makes a
message of random normal numbers; the server gets either their sum or all of
them, and averages. Reports CPU seconds per round of this process and, on the
native runtime, of TFF's worker, and by how much peak memory exceeds that of a
run with one-number messages, in multiples of the size of all messages.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import collecting
from binaries.speed import harness
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_collecting', __doc__, collecting.run,
    flags.own_flag('clients', 100, 'Messages per round.', minimum=1),
    flags.own_flag(
        'parameters', 10**6, 'Numbers (float32) in a message.', minimum=1
    ),
    flags.own_flag('rounds', 3, 'Number of measured rounds.', minimum=1),
    harness.RUNTIME_FLAG,
    harness.measure_flag('one of the two', choices=('', 'sum', 'collect')),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
