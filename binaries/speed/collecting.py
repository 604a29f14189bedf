"""Measures what it costs a server to collect messages instead of summing them.

    python -m binaries.benchmark_collecting --parameters=1000000
    python -m binaries.benchmark_collecting --runtime=native --parameters=100000

Robust rules need the individual messages of a round. Every client makes a
message of random normal numbers; the server gets either their sum or all of
them, and averages. Reports CPU seconds per round of this process and, on the
native runtime, of TFF's worker, and by how much peak memory exceeds that of a
run with one-number messages, in multiples of the size of all messages.
"""

import json
from typing import Any

import numpy as np
import tensorflow as tf

from binaries.speed import harness
from tff_pers import runtime as runtime_lib
from tff_pers.aggregators import shuffling
from tff_pers.experiments import flags
from tff_pers import tff


def _run(given: dict[str, Any]) -> None:
  chosen = given.pop('measure')
  if chosen:
    print(json.dumps(measure(chosen, **given)))
    return
  size = given['clients'] * given['parameters'] * 4
  print(
      f'{given["clients"]} messages of {given["parameters"]:,} float32:'
      f' {size / 2**20:.0f} MiB together; {given["runtime"]} runtime\n'
  )
  harness.print_header(
      'the server', 'CPU seconds per round', 'peak memory, MiB', 'copies'
  )
  for what in ('sum', 'collect'):
    # The peak memory of a process never falls: one process per number.
    fixed, found = (
        harness.in_own_process(
            'binaries.benchmark_collecting', measure=what,
            **{**given, 'parameters': number},
        )
        for number in (1, given['parameters'])
    )
    rise = found['peak'] - fixed['peak']
    harness.print_row(
        what, f'{found["seconds"]:.2f}', f'{rise / 2**20:.0f}',
        f'{rise / size:.1f}',
    )


def measure(
    what: str, parameters: int, clients: int, rounds: int, runtime: str
) -> dict[str, float]:
  """Returns CPU seconds per round, and the peak of all processes in bytes.

  `what` is `sum` or `collect`, `parameters` are the numbers in a message, and
  `clients` send one each. A round that traces is not measured.
  """
  runtime_lib.use(runtime)
  round_fn = _build(what, clients, parameters)
  indices = list(np.arange(clients, dtype=np.int32))
  round_fn(indices)  # Traces, and starts the worker.
  costs = [harness.timed(lambda: round_fn(indices)) for _ in range(rounds)]
  return dict(
      seconds=sum(cost.cpu for cost in costs) / rounds,
      peak=sum(map(harness.memory, harness.processes().values())),
  )


def _build(what, num_clients, num_parameters):
  """Returns ({index} -> the first number of the mean or sum at the server)."""

  @tff.tensorflow.computation(np.int32)
  def make(index):
    seed = tf.stack([index, 0])
    row = tf.random.stateless_normal([1, num_parameters], seed)
    return row if what == 'collect' else row[0]

  message_type = make.type_signature.result
  if what == 'collect':
    rows = shuffling.RowCollectionFactory(num_clients).create(message_type)
    collected_type = rows.next.type_signature.result['result'].member
  else:
    collected_type = message_type

  @tff.tensorflow.computation(collected_type)
  def first(collected):
    total = (
        tf.reduce_mean(collected, axis=0) if what == 'collect' else collected
    )
    return total[0]

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def round_fn(indices):
    messages = tff.federated_map(make, indices)
    if what == 'collect':
      collected = rows.next(rows.initialize(), messages).result
    else:
      collected = tff.federated_sum(messages)
    return tff.federated_map(first, collected)

  return round_fn


main = flags.Program(
    'benchmark_collecting', __doc__, _run,
    flags.own_flag('clients', 100, 'Messages per round.', minimum=1),
    flags.own_flag(
        'parameters', 10**6, 'Numbers (float32) in a message.', minimum=1
    ),
    flags.own_flag('rounds', 3, 'Number of measured rounds.', minimum=1),
    harness.RUNTIME_FLAG,
    harness.measure_flag('one of the two', choices=('', 'sum', 'collect')),
)
