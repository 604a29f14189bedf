"""Measures what simulating events costs, with few and with many clients.

    python -m binaries.benchmark_events [--updates=2000] [--flag=value ...]

Runs FedAsync of a logistic regression, one message after the other, with 50
clients and with 10,000, each in its own process, and reports the CPU seconds of
a server update, the share of the time spent outside TensorFlow, and the memory
at the beginning and at the end. Writes events.csv and events.md.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import events
from binaries.speed import harness
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_events', __doc__, events.run,
    flags.own_flag(
        'sizes', '50:25,10000:500', 'Clients, and how many of them in flight.'
    ),
    flags.own_flag(
        'updates', 2000, 'Number of measured server updates.', minimum=1
    ),
    harness.measure_flag('one size'),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: runs/events.'
    ),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
