"""Measures memory and time with a large population read on demand.

    python -m binaries.benchmark_population --clients=1000,100000

Writes populations in the SQLite format of `tff.simulation.datasets` and trains
a method on cohorts of them, by default FedPer, whose clients keep their output
layer. Each population has its own process, so that peak memory is its own.
Neither memory nor time of a round should depend on the number of clients.
"""

import contextlib
import io
import json
import os
import sqlite3
import tempfile
import time
from typing import Any

import numpy as np
import tensorflow as tf

import baselines
from binaries.speed import harness
from tff_pers import runtime
from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.data.formats import clients as clients_lib
from tff_pers.data.formats import published
from tff_pers.data.formats import records
from tff_pers.data.formats import sqlite
from tff_pers.experiments import flags
from tff_pers.models import zoo
from tff_pers.simulation import cohort
from tff_pers.simulation import position
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import release
from tff_pers.simulation import store

del baselines  # Registers.

_WIDTH = 64  # Features of an example.
_CLASSES = 10
_FIELDS = {
    'x': records.Field(np.float32, (_WIDTH,)), 'y': records.Field(np.int64),
}
_TABLES = """
CREATE TABLE examples (
    split_name TEXT, client_id TEXT, serialized_example_proto BLOB);
CREATE TABLE client_metadata (
    client_id TEXT, split_name TEXT, num_examples INTEGER);
"""


def _run(given: dict[str, Any]) -> None:
  path, sizes = given.pop('measure'), given.pop('clients').split(',')
  if path:
    print(json.dumps(measure(path, **given)))
    return
  with flags.usage_errors():
    methods.get(given['algo'])
  if not all(size.strip().isdigit() for size in sizes):
    raise flags.UsageError(
        '`--clients` must be integers, such as 1000,10000, found'
        f' {",".join(sizes)}.'
    )
  print(
      f'{given["algo"]}, {given["clients_per_round"]} clients per round,'
      f' {given["rounds"]} rounds, evaluations of {given["eval_clients"]}'
      ' clients\n'
  )
  harness.print_header(
      'clients', 'file, MB', 'peak memory, MB', 's / round',
      'of it waiting for data', 'CPU s / round', 's / evaluation',
      'CPU s / evaluation',
  )
  for number in map(int, sizes):
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, 'population.sqlite')
      write(path, number)
      found = harness.in_own_process(
          'binaries.benchmark_population', measure=path, **given
      )
      size = os.path.getsize(path)
    harness.print_row(
        f'{number:,}', f'{size / 2**20:.0f}', f'{found["peak"] / 2**20:.0f}',
        f'{found["round"]:.3f}', f'{found["waiting"]:.1%}',
        f'{found["round_cpu"]:.3f}', f'{found["evaluation"]:.2f}',
        f'{found["evaluation_cpu"]:.2f}',
    )


def write(path: str, num_clients: int) -> None:
  """Writes clients of 5 to 20 examples, a quarter of which are test data."""
  rng = np.random.default_rng(0)
  centers = rng.standard_normal([_CLASSES, _WIDTH]).astype(np.float32)
  # Parsing costs the same for any numbers, so a few distinct ones suffice.
  labels = np.arange(50) % _CLASSES
  protos = [
      _example(centers[y] + rng.standard_normal(_WIDTH), y) for y in labels
  ]
  sizes = rng.integers(5, 21, num_clients)
  tests = sizes // 4

  def examples():
    for client in range(num_clients):
      for row in range(sizes[client]):
        split = 'test' if row < tests[client] else 'train'
        yield split, f'{client:06}', protos[(client + row) % len(protos)]

  with contextlib.closing(sqlite3.connect(path)) as db:
    db.executescript(_TABLES)
    with db:
      db.executemany('INSERT INTO examples VALUES (?, ?, ?)', examples())
      for split, counts in (('train', sizes - tests), ('test', tests)):
        db.executemany(
            'INSERT INTO client_metadata VALUES (?, ?, ?)',
            ((f'{c:06}', split, int(n)) for c, n in enumerate(counts)),
        )
      db.execute('CREATE INDEX by_client ON examples (client_id, split_name)')


def _example(x: np.ndarray, y: int) -> bytes:
  """Returns one example as a serialized `tf.train.Example`."""
  return tf.train.Example(features=tf.train.Features(feature=dict(
      x=tf.train.Feature(float_list=tf.train.FloatList(value=x)),
      y=tf.train.Feature(int64_list=tf.train.Int64List(value=[y])),
  ))).SerializeToString()


def _clients(path: str) -> program.Data:
  """Returns the clients of the file, which are read on demand."""
  parts = {
      part: sqlite.read(path, part, _FIELDS)
      for part in (published.TRAIN, published.TEST)
  }
  return program.Data(*clients_lib.on_request(
      parts, parts[published.TRAIN].clients,
      lambda own, where: (own['x'], own['y'].astype(np.int32)),
  ))


class _Clock(progress.Progress):
  """Records wall, CPU and waiting seconds at the end of each round."""

  def __init__(self, rounds: int, trainer: program.TrainingProgram):
    super().__init__(rounds, 0, io.StringIO())
    self._trainer = trainer
    self.times: list[list[float]] = []

  def round_done(self, *args) -> None:
    self.times.append([
        time.monotonic(), time.process_time(), self._trainer.seconds_waiting
    ])
    super().round_done(*args)


def measure(
    path: str, *, algo: str, clients_per_round: int, rounds: int,
    eval_clients: int, all_states: bool,
) -> dict[str, float]:
  """Trains on the population of a file; returns the cells of its row.

  At most all clients take part in a round, or in an evaluation. With
  `all_states` all have a state on disk before the first round.
  """
  runtime.use('fused')
  data = _clients(path)
  number = len(data.train)
  model = zoo.build('mlp', tf.TensorSpec([None, _WIDTH]), _CLASSES)
  task = task_lib.Task(
      'population', model, *data[:2], num_classes=_CLASSES,
      clients_per_round=min(clients_per_round, number),
  )
  method = methods.get(algo)
  process = method.build(task, method.hyperparameters())
  with tempfile.TemporaryDirectory() as folder, store.ClientStateStore(
      os.path.join(folder, 'checkpoint.sqlite')
  ) as states:
    if all_states:
      server = process.initialize_seeded(0)
      state = process.initialize_client(server, 0)
      for client in range(number):
        states.put(client, state)
      states.commit(server, position.Position()._asdict())
    # The evaluation of the run has as many clients as one call, compiles the
    # computations and is not counted.
    trainer = program.TrainingProgram(
        process, data, states,
        evaluated=np.arange(min(program.CLIENTS_PER_CALL, number)),
    )
    with release.Releases(
        folder, trainer.columns, 0
    ) as releases, _Clock(rounds, trainer) as clock:
      trainer.run(
          cohort.uniform(number, task.clients_per_round), rounds=rounds,
          eval_every=rounds, releases=releases, progress=clock,
      )
    evaluated = data.pick(cohort.evaluated(
        np.arange(number), min(eval_clients, number), seed=0
    ).tolist())
    evaluation = harness.timed(lambda: trainer.evaluate(evaluated))
  # The first round compiles the computations and is not counted.
  seconds = np.diff(clock.times, axis=0)
  wall, cpu, _ = np.median(seconds, axis=0)
  return dict(
      peak=harness.memory(os.getpid()), round=wall, round_cpu=cpu,
      waiting=seconds[:, 2].sum() / seconds[:, 0].sum(),
      evaluation=evaluation.wall, evaluation_cpu=evaluation.cpu,
  )


main = flags.Program(
    'benchmark_population', __doc__, _run,
    flags.own_flag('clients', '1000,100000', 'Sizes of the populations.'),
    flags.own_flag('algo', 'fedper', 'Name of the method, without options.'),
    flags.own_flag(
        'all_states', False, 'Whether all clients have a state at first.'
    ),
    flags.own_flag('clients_per_round', 100, 'Clients per round.', minimum=1),
    flags.own_flag('rounds', 100, 'Rounds.', minimum=2),
    flags.own_flag(
        'eval_clients', 1000, 'Clients per evaluation.', minimum=1
    ),
    harness.measure_flag('the population of this file'),
)
