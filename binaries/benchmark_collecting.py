"""Measures what it costs a server to collect messages instead of summing them.

Robust rules need the individual messages of a round. Every client makes a
message of random normal numbers; the server gets either their sum or all of
them, and averages. Reports CPU seconds per round of this process and, on the
native runtime, of TFF's worker, and by how much peak memory exceeds that of a
run with one-number messages, in multiples of the size of all messages.

  python -m binaries.benchmark_collecting --runtime=fused --parameters=1000000
  python -m binaries.benchmark_collecting --runtime=native --parameters=100000
"""

import json

from absl import flags

from binaries.speed import collecting
from binaries.speed import harness

_CLIENTS = flags.DEFINE_integer(
    'clients', 100, 'Messages per round.', lower_bound=1
)
_PARAMETERS = flags.DEFINE_integer(
    'parameters', 10**6, 'Numbers (float32) in a message.', lower_bound=1
)
_ROUNDS = flags.DEFINE_integer(
    'rounds', 3, 'Number of measured rounds.', lower_bound=1
)
_RUNTIME = flags.DEFINE_enum(
    'runtime', 'fused', ['fused', 'native'], 'Runtime that runs the rounds.'
)
_MEASURE = flags.DEFINE_enum(
    'measure', None, ['sum', 'collect'],
    'Measures one of the two in this process and prints JSON; default: a table'
    ' of both, each measured in its own process.',
)


def main() -> None:
  own = dict(
      clients=_CLIENTS.value, rounds=_ROUNDS.value, runtime=_RUNTIME.value
  )
  if _MEASURE.value:
    print(json.dumps(
        collecting.measure(_MEASURE.value, _PARAMETERS.value, **own)
    ))
    return
  size = _CLIENTS.value * _PARAMETERS.value * 4
  print(
      f'{_CLIENTS.value} messages of {_PARAMETERS.value:,} float32:'
      f' {size / 2**20:.0f} MiB together; {_RUNTIME.value} runtime\n'
  )
  harness.print_header(
      'the server', 'CPU seconds per round', 'peak memory, MiB', 'copies'
  )
  for what in ('sum', 'collect'):
    # The peak memory of a process never falls: one process per number.
    fixed, found = (
        harness.in_own_process(
            'binaries.benchmark_collecting', measure=what, parameters=number,
            **own
        )
        for number in (1, _PARAMETERS.value)
    )
    rise = found['peak'] - fixed['peak']
    harness.print_row(
        what, f'{found["seconds"]:.2f}', f'{rise / 2**20:.0f}',
        f'{rise / size:.1f}',
    )


if __name__ == '__main__':
  harness.run(main)
