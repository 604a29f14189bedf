"""Measures memory and time with a large population read on demand.

    python -m binaries.benchmark_population --clients=1000,100000

Writes populations in the SQLite format of `tff.simulation.datasets` and trains
FedPer, whose clients keep their output layer, on cohorts of them. Each
population has its own process, so that peak memory is its own. Neither memory
nor time should depend on the number of clients.
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import sys

from binaries.speed import harness
from binaries.speed import population
from tff_pers.experiments import flags

main = flags.Program(
    'benchmark_population', __doc__, population.run,
    flags.own_flag('clients', '1000,100000', 'Sizes of the populations.'),
    flags.own_flag('clients_per_round', 100, 'Clients per round.', minimum=1),
    flags.own_flag('rounds', 100, 'Rounds.', minimum=2),
    flags.own_flag(
        'eval_clients', 1000, 'Clients per evaluation.', minimum=1
    ),
    harness.measure_flag('the population of this file'),
)

if __name__ == '__main__':
  sys.exit(main(sys.argv))
