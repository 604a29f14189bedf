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
import os
import pathlib
import subprocess
import sys
from typing import Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import numpy as np
import tensorflow as tf

from tff_pers import runtime
from tff_pers.aggregators import shuffling
from tff_pers.runtime import native
from tff_pers import tff

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


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  if _MEASURE.value:
    print(json.dumps(_measure(_MEASURE.value)))
    return
  size = _CLIENTS.value * _PARAMETERS.value * 4
  print(
      f'{_CLIENTS.value} messages of {_PARAMETERS.value:,} float32:'
      f' {size / 2**20:.0f} MiB together; {_RUNTIME.value} runtime\n'
  )
  print('| the server | CPU seconds per round | peak memory, MiB | copies |')
  print('|---|---|---|---|')
  for what in ('sum', 'collect'):
    # The peak memory of a process never falls: one process per number.
    fixed, found = _in_own_process(what, 1), _in_own_process(
        what, _PARAMETERS.value
    )
    rise = found['peak'] - fixed['peak']
    print(
        f'| {what} | {found["seconds"]:.2f} | {rise / 2**20:.0f} |'
        f' {rise / size:.1f} |', flush=True,
    )


def _in_own_process(what, num_parameters):
  """Returns what `_measure` returns in a fresh interpreter."""
  output = subprocess.run(
      [
          sys.executable, '-m', 'binaries.speed.collecting',
          f'--measure={what}', f'--clients={_CLIENTS.value}',
          f'--parameters={num_parameters}', f'--rounds={_ROUNDS.value}',
          f'--runtime={_RUNTIME.value}',
      ],
      check=True, stdout=subprocess.PIPE, text=True,
  ).stdout
  return json.loads(output.splitlines()[-1])


def _measure(what):
  """Returns CPU seconds per round, and the peak of all processes in bytes."""
  runtime.use(_RUNTIME.value)
  round_fn = _build(what, _PARAMETERS.value)
  clients = list(np.arange(_CLIENTS.value, dtype=np.int32))
  round_fn(clients)  # Traces, and starts the worker.
  pids = [os.getpid()]
  worker = native.worker_pid()
  if worker is not None:
    pids.append(worker)
  before = sum(map(_cpu_seconds, pids))
  for _ in range(_ROUNDS.value):
    round_fn(clients)
  seconds = (sum(map(_cpu_seconds, pids)) - before) / _ROUNDS.value
  return dict(seconds=seconds, peak=sum(map(_peak_bytes, pids)))


def _build(what, num_parameters):
  """Returns ({index} -> the first number of the mean or sum at the server)."""

  @tff.tensorflow.computation(np.int32)
  def make(index):
    seed = tf.stack([index, 0])
    row = tf.random.stateless_normal([1, num_parameters], seed)
    return row if what == 'collect' else row[0]

  message_type = make.type_signature.result
  if what == 'collect':
    rows = shuffling.RowCollectionFactory(_CLIENTS.value).create(message_type)
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


def _cpu_seconds(pid):
  fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2]
  user, system = fields.split()[11:13]
  return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')


def _peak_bytes(pid):
  status = pathlib.Path(f'/proc/{pid}/status').read_text()
  peak = next(
      line for line in status.splitlines() if line.startswith('VmHWM')
  )
  return int(peak.split()[1]) * 1024


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
