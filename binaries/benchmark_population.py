"""Measures memory and time with a large population read on demand.

Writes populations in the SQLite format of `tff.simulation.datasets` and trains
FedPer, whose clients keep their output layer, on cohorts of them. Each
population has its own process, so that peak memory is its own. Neither memory
nor time should depend on the number of clients.

  python -m binaries.benchmark_population --clients=1000,100000
"""

import json
import os
import tempfile

from absl import flags

from binaries.speed import harness
from binaries.speed import population

_CLIENTS = flags.DEFINE_list(
    'clients', ['1000', '100000'], 'Sizes of the populations.'
)
_COHORT = flags.DEFINE_integer(
    'clients_per_round', 100, 'Clients per round.', lower_bound=1
)
_ROUNDS = flags.DEFINE_integer('rounds', 100, 'Rounds.', lower_bound=2)
_EVAL_CLIENTS = flags.DEFINE_integer(
    'eval_clients', 1000, 'Clients per evaluation.', lower_bound=1
)
_MEASURE = flags.DEFINE_string(
    'measure', '',
    'Measures the population of this file in this process and prints JSON;'
    ' default: a table of all, each measured in its own process.',
)


def main() -> None:
  own = dict(
      clients_per_round=_COHORT.value, rounds=_ROUNDS.value,
      eval_clients=_EVAL_CLIENTS.value,
  )
  if _MEASURE.value:
    print(json.dumps(population.measure(_MEASURE.value, **own)))
    return
  print(
      f'fedper, {_COHORT.value} clients per round, {_ROUNDS.value} rounds,'
      f' evaluations of {_EVAL_CLIENTS.value} clients\n'
  )
  harness.print_header(
      'clients', 'file, MB', 'peak memory, MB', 's / round',
      'of it waiting for data', 'CPU s / round', 's / evaluation',
      'CPU s / evaluation',
  )
  for number in map(int, _CLIENTS.value):
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, 'population.sqlite')
      population.write(path, number)
      found = harness.in_own_process(
          'binaries.benchmark_population', measure=path, **own
      )
      size = os.path.getsize(path)
    harness.print_row(
        f'{number:,}', f'{size / 2**20:.0f}', f'{found["peak"] / 2**20:.0f}',
        f'{found["round"]:.3f}', f'{found["waiting"]:.1%}',
        f'{found["round_cpu"]:.3f}', f'{found["evaluation"]:.2f}',
        f'{found["evaluation_cpu"]:.2f}',
    )


if __name__ == '__main__':
  harness.run(main)
