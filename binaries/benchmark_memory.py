"""Measures the memory of PERM's model table: N models of d weights.

Reports the size of the table (N x d x 4 bytes), and the peak memory of this
process (which holds the server state between rounds) and, on the native
runtime, of TFF's worker (which runs the round), beside those of a run with few
models, which are the fixed cost.

  python -m binaries.benchmark_memory --clients=200
"""

import json

from absl import flags

from binaries.speed import harness
from binaries.speed import memory

_CLIENTS = flags.DEFINE_integer(
    'clients', 200, 'N, number of personalized models.', lower_bound=2
)
_ROUNDS = flags.DEFINE_integer('rounds', 3, 'Rounds.', lower_bound=1)
_RUNTIME = flags.DEFINE_enum(
    'runtime', 'fused', ['fused', 'native'], 'Runtime that runs the rounds.'
)
_MEASURE = flags.DEFINE_enum(
    'measure', None, memory.VARIANTS,
    'Measures one variant in this process and prints JSON; default: a table of'
    ' all, each measured in its own process.',
)
_FEW = 2  # Clients of the run that shows the fixed cost.


def main() -> None:
  own = dict(rounds=_ROUNDS.value, runtime=_RUNTIME.value)
  if _MEASURE.value:
    print(json.dumps(memory.measure(_MEASURE.value, _CLIENTS.value, **own)))
    return
  num_parameters = memory.model().num_parameters
  table = _CLIENTS.value * num_parameters * 4
  print(
      f'N = {_CLIENTS.value} models of d = {num_parameters:,} weights: the'
      f' table is {_mib(table)}; {_RUNTIME.value} runtime\n'
  )
  harness.print_header(
      'variant', 'process', 'fixed', 'peak', '(peak - fixed) / table'
  )
  for variant in memory.VARIANTS:
    # The peak memory of a process never falls: one process per number.
    fixed, peak = (
        harness.in_own_process(
            'binaries.benchmark_memory', measure=variant, clients=number, **own
        )
        for number in (_FEW, _CLIENTS.value)
    )
    for name in peak:
      copies = (peak[name] - fixed[name]) / table
      harness.print_row(
          variant, name, _mib(fixed[name]), _mib(peak[name]), f'{copies:.1f}'
      )


def _mib(num_bytes: int) -> str:
  return f'{num_bytes / 2**20:.0f} MiB'


if __name__ == '__main__':
  harness.run(main)
