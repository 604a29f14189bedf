"""Measures what simulating events costs, with few and with many clients.

    python -m binaries.benchmark_events [--updates=2000] [--flag=value ...]

Runs FedAsync of a logistic regression, one message after the other, with 50
clients and with 10,000, each in its own process, and reports the CPU seconds of
a server update, the share of the time spent outside TensorFlow, and the memory
at the beginning and at the end. Writes events.csv and events.md.
"""

import json
import os
import time
from typing import Any, Mapping

import tensorflow as tf
from tensorflow.python import pywrap_tfe

from baselines import fedasync
from binaries.speed import harness
from binaries.speed import problems
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

COLUMNS = (
    'clients', 'in_flight', 'updates', 'cpu_seconds_per_update',
    'share_outside_tensorflow', 'rss_mb_first', 'rss_mb_last',
    'schedule_seconds',
)
# Unmeasured warm-up updates, which compile the computations.
_WARM_UP = 200


def _run(given: dict[str, Any]) -> None:
  updates = given['updates']
  if given['measure']:
    print(json.dumps(measure(*_parse_size(given['measure']), updates)))
    return
  folder = flags.output_dir(given, 'events')
  # All are checked before the first is measured.
  sizes = [_parse_size(text) for text in given['sizes'].split(',')]
  rows = []
  for clients, in_flight in sizes:
    print(f'{clients} clients, {in_flight} in flight ...', flush=True)
    rows.append(harness.in_own_process(
        'binaries.benchmark_events', measure=f'{clients}:{in_flight}',
        updates=updates,
    ))
  os.makedirs(folder, exist_ok=True)
  results.write_csv(os.path.join(folder, 'events.csv'), COLUMNS, rows)
  costs = [row['cpu_seconds_per_update'] for row in rows]
  text = (
      f'{results.markdown(COLUMNS, rows)}\n\n'
      f'Last / first CPU seconds: {costs[-1] / costs[0]:.2f}.\n'
  )
  files.write_text(os.path.join(folder, 'events.md'), text)
  print(f'{text}Results are in {folder}.')


def _parse_size(text: str) -> tuple[int, int]:
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


def measure(clients: int, in_flight: int, updates: int) -> Mapping[str, Any]:
  """Returns the row of one size, from a number of measured server updates."""
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
  first = _rss_mb()
  inside[0] = 0.0
  cost = harness.timed(lambda: _advance(trainer, updates))
  return dict(
      clients=clients, in_flight=in_flight, updates=updates,
      cpu_seconds_per_update=cost.cpu / updates,
      share_outside_tensorflow=1.0 - inside[0] / cost.wall,
      rss_mb_first=first, rss_mb_last=_rss_mb(), schedule_seconds=making,
  )


def _problem(clients: int):
  """Returns the process, and five examples of eight features per client."""
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 8]), problems.CLASSES
  )
  process = fedasync.build_fedasync(
      model, fedasync.FedAsyncHyperparameters(local_steps=1, batch_size=5)
  )
  data = problems.clients(clients, 5, 8)
  return process, list(map(client_data.constant, data))


def _advance(trainer, updates: int) -> None:
  for _ in range(updates):
    trainer.train_round(trainer.sampler(0, trainer.position.round))


def _rss_mb() -> float:
  """Returns the memory of this process now, in MiB."""
  return harness.memory(os.getpid(), 'VmRSS') / 2**20


def _timed_tensorflow() -> list[float]:
  """Returns [seconds spent in TensorFlow's functions and operations so far]."""
  seconds = [0.0]

  def timed(function):
    def call(*args):
      started = time.perf_counter()
      try:
        return function(*args)
      finally:
        seconds[0] += time.perf_counter() - started
    return call

  for name in ('TFE_Py_Execute', 'TFE_Py_FastPathExecute'):
    setattr(pywrap_tfe, name, timed(getattr(pywrap_tfe, name)))
  return seconds


main = flags.Program(
    'benchmark_events', __doc__, _run,
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
