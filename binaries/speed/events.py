"""Measures what simulating events costs, with few and with many clients.

    python -m binaries.benchmark_events
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import json
import os
import subprocess
import sys
import time
from typing import Any, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe

from baselines import fedasync
from tff_pers import runtime
from tff_pers.core import files
from tff_pers.data import client_data
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.models import zoo
from tff_pers.simulation import asynchrony
from tff_pers.simulation import asynchrony_delays
from tff_pers.simulation import asynchrony_program
from tff_pers.simulation import program
from tff_pers.simulation import store

SUMMARY = """\
python -m binaries.benchmark_events [--updates=2000] [--flag=value ...]

Runs FedAsync of a logistic regression, one message after the other, with 50
clients and with 10,000, each in its own process, and reports the CPU seconds of
a server update, the share of the time spent outside TensorFlow, and the memory
at the beginning and at the end. Writes events.csv and events.md."""

COLUMNS = (
    'clients', 'in_flight', 'updates', 'cpu_seconds_per_update',
    'share_outside_tensorflow', 'rss_mb_first', 'rss_mb_last',
    'schedule_seconds',
)
_SIZES = ('50:25', '10000:500')
# Unmeasured warm-up updates, which compile the computations.
_WARM_UP = 200


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.program(
      'benchmark_events', SUMMARY, flag_table, _benchmark, argv
  )


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags."""
  return dict([
      flags.own_flag(
          'sizes', ','.join(_SIZES), 'Clients, and how many of them in flight.'
      ),
      flags.own_flag(
          'updates', 2000, 'Number of measured server updates.', minimum=1
      ),
      flags.own_flag(
          'measure', '', 'Measures one size in this process and prints JSON.'
      ),
      flags.own_flag(
          'output_dir', '', 'Folder of the results; empty: runs/events.'
      ),
  ])


def _benchmark(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  del table  # Unused.
  updates = given.get('updates', 2000)
  if given.get('measure'):
    print(json.dumps(measure(*_size(given['measure']), updates)))
    return 0
  folder = given.get('output_dir') or flags.resolve_path('runs/events')
  sizes = [
      _size(text) for text in given.get('sizes', ','.join(_SIZES)).split(',')
  ]
  rows = [_in_own_process(*size, updates) for size in sizes]
  os.makedirs(folder, exist_ok=True)
  results.write_csv(os.path.join(folder, 'events.csv'), COLUMNS, rows)
  text = results.markdown(COLUMNS, rows)
  costs = [row['cpu_seconds_per_update'] for row in rows]
  text += f'\n\nLast / first CPU seconds: {costs[-1] / costs[0]:.2f}.\n'
  files.write_text(os.path.join(folder, 'events.md'), text)
  print(f'{text}Results are in {folder}.')
  return 0


def _size(text: str) -> tuple[int, int]:
  """Returns (clients, in flight) of `50:25`.

  Raises:
    flags.UsageError: If it is not two integers, the second at most the first.
  """
  parts = text.split(':')
  numbers = [int(part) for part in parts if part.isdecimal()]
  if len(parts) != 2 or len(numbers) != 2 or not 1 <= numbers[1] <= numbers[0]:
    raise flags.UsageError(
        '`--sizes` must be pairs of the number of clients and how many of them'
        f' are in flight, such as 50:25, found {text!r}.'
    )
  return numbers[0], numbers[1]


def _in_own_process(clients: int, in_flight: int, updates: int):
  """Returns a row, measured by a fresh interpreter."""
  print(f'{clients} clients, {in_flight} in flight ...', flush=True)
  output = subprocess.run(
      [
          sys.executable, '-m', 'binaries.speed.events',
          f'--measure={clients}:{in_flight}', f'--updates={updates}',
      ],
      check=True, stdout=subprocess.PIPE, text=True,
  ).stdout
  return json.loads(output.splitlines()[-1])


def measure(clients: int, in_flight: int, updates: int) -> Mapping[str, Any]:
  """Returns the row of one size.

  Args:
    clients: N, number of clients.
    in_flight: P, number of clients in flight.
    updates: Number of measured server updates.
  """
  runtime.use('fused', 'cpu')
  inside = _timed_tensorflow()
  process, data = _problem(clients)
  started = time.process_time()
  schedule = asynchrony.make_schedule(
      asynchrony_delays.build('pareto[shape=1.5]', '', range(clients)), clients,
      in_flight, _WARM_UP + updates, seed=0,
  )
  making = time.process_time() - started
  trainer = asynchrony_program.AsynchronousProgram(
      process, program.Data(data, data), store.ClientStateStore(), schedule
  )
  _advance(trainer, _WARM_UP)
  first, inside.seconds = _rss_mb(), 0.0
  cpu, wall = time.process_time(), time.perf_counter()
  _advance(trainer, updates)
  cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
  return dict(
      clients=clients, in_flight=in_flight, updates=updates,
      cpu_seconds_per_update=cpu / updates,
      share_outside_tensorflow=1.0 - inside.seconds / wall,
      rss_mb_first=first, rss_mb_last=_rss_mb(), schedule_seconds=making,
  )


def _problem(clients: int):
  """Returns the process, and five examples of eight features per client."""
  model = zoo.build('logistic_regression', tf.TensorSpec([None, 8]), 4)
  process = fedasync.build_fedasync(
      model, fedasync.FedAsyncHyperparameters(local_steps=1, batch_size=5)
  )
  rng = np.random.default_rng(0)
  data = [
      client_data.constant(client_data.dense(
          client, rng.random((5, 8), np.float32),
          rng.integers(0, 4, 5).astype(np.int32),
      ))
      for client in range(clients)
  ]
  return process, data


def _advance(trainer, updates: int) -> None:
  for _ in range(updates):
    trainer.train_round(trainer.sampler(0, trainer.position.round))


class _Clock:
  """Accumulates seconds."""

  seconds = 0.0


def _timed_tensorflow() -> _Clock:
  """Returns a clock of the time spent in TensorFlow's functions and ops."""
  clock = _Clock()

  def timed(function):
    def call(*args):
      started = time.perf_counter()
      try:
        return function(*args)
      finally:
        clock.seconds += time.perf_counter() - started
    return call

  for name in ('TFE_Py_Execute', 'TFE_Py_FastPathExecute'):
    setattr(pywrap_tfe, name, timed(getattr(pywrap_tfe, name)))
  return clock


def _rss_mb() -> float:
  """Returns the memory of this process now, in MiB."""
  with open('/proc/self/statm', encoding='ascii') as file:
    pages = int(file.read().split()[1])
  return pages * os.sysconf('SC_PAGESIZE') / 2**20


if __name__ == '__main__':
  sys.exit(main(sys.argv))
