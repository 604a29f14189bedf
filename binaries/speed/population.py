"""Measures memory and time with a large population read on demand.

Writes populations in the SQLite format of `tff.simulation.datasets` and trains
FedPer, whose clients keep their output layer, on cohorts of them. Each
population has its own process, so that peak memory is its own. Neither memory
nor time should depend on the number of clients.

  python -m binaries.benchmark_population --clients=1000,100000
"""

import contextlib
import functools
import io
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time
from typing import Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import numpy as np
import tensorflow as tf

import baselines
from tff_pers import runtime
from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.data.formats import clients as clients_lib
from tff_pers.data.formats import published
from tff_pers.data.formats import records
from tff_pers.data.formats import sqlite
from tff_pers.models import zoo
from tff_pers.simulation import cohort
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import release
from tff_pers.simulation import store

del baselines  # Registers.

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


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  if _MEASURE.value:
    print(json.dumps(_measure(_MEASURE.value)))
    return
  print(
      f'fedper, {_COHORT.value} clients per round, {_ROUNDS.value} rounds,'
      f' evaluations of {_EVAL_CLIENTS.value} clients\n'
  )
  print(
      '| clients | file, MB | peak memory, MB | s / round | of it waiting for'
      ' data | CPU s / round | s / evaluation | CPU s / evaluation |'
  )
  print('|---|---|---|---|---|---|---|---|')
  for number in map(int, _CLIENTS.value):
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, 'population.sqlite')
      _write(path, number)
      found = _in_own_process(path)
      size = os.path.getsize(path) / 2**20
    print(
        f'| {number:,} | {size:.0f} | {found["peak"]:.0f} |'
        f' {found["round"]:.3f} | {found["waiting"]:.1%} |'
        f' {found["round_cpu"]:.3f} | {found["evaluation"]:.2f} |'
        f' {found["evaluation_cpu"]:.2f} |', flush=True,
    )


def _write(path: str, num_clients: int) -> None:
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
  found = clients_lib.on_request(
      parts, parts[published.TRAIN].clients,
      lambda own, where: (own['x'], own['y'].astype(np.int32)),
  )
  return program.Data(found.train, found.test)


def _in_own_process(path: str) -> dict[str, float]:
  """Returns what `_measure` returns in a fresh interpreter."""
  output = subprocess.run(
      [
          sys.executable, '-m', 'binaries.speed.population',
          f'--measure={path}', f'--clients_per_round={_COHORT.value}',
          f'--rounds={_ROUNDS.value}', f'--eval_clients={_EVAL_CLIENTS.value}',
      ],
      check=True, stdout=subprocess.PIPE, text=True,
  ).stdout
  return json.loads(output.splitlines()[-1])


class _Clock(progress.Progress):
  """Records wall, CPU and waiting seconds at the end of each round."""

  def __init__(self, rounds: int, trainer: program.TrainingProgram):
    super().__init__(rounds, 0, io.StringIO())
    self._trainer = trainer
    self.times: list[list[float]] = []

  def round_done(self, *args) -> None:
    self.times.append([*_now(), self._trainer.seconds_waiting])
    super().round_done(*args)


def _now() -> np.ndarray:
  """Returns wall and CPU seconds."""
  return np.array([time.monotonic(), time.process_time()])


def _measure(path: str) -> dict[str, float]:
  """Trains on the population of a file; returns the cells of its row."""
  runtime.use('fused')
  data = _clients(path)
  number = len(data.train)
  model = zoo.build('mlp', tf.TensorSpec([None, _WIDTH]), _CLASSES)
  task = task_lib.Task(
      'population', model, *data[:2], num_classes=_CLASSES,
      clients_per_round=min(_COHORT.value, number),
  )
  method = methods.get('fedper')
  process = method.build(task, method.hyperparameters())
  with tempfile.TemporaryDirectory() as folder, store.ClientStateStore(
      os.path.join(folder, 'checkpoint.sqlite')
  ) as states:
    trainer = program.TrainingProgram(
        process, data, states, evaluated=cohort.evaluated(
            np.arange(number), min(_EVAL_CLIENTS.value, number), seed=0
        ),
    )
    with release.Releases(
        folder, trainer.columns, 0
    ) as releases, _Clock(_ROUNDS.value, trainer) as clock:
      trainer.run(
          cohort.uniform(number, task.clients_per_round),
          rounds=_ROUNDS.value, eval_every=_ROUNDS.value, releases=releases,
          progress=clock,
      )
    evaluated = data.pick(trainer.evaluated.tolist())
    evaluate = functools.partial(trainer.evaluate, evaluated)
    started = _now()
    evaluate()
    evaluation = _now() - started
  # The first round compiles the computations and is not counted.
  seconds = np.diff(clock.times, axis=0)
  wall, cpu, _ = np.median(seconds, axis=0)
  return dict(
      peak=_peak_mb(), round=wall, round_cpu=cpu,
      waiting=seconds[:, 2].sum() / seconds[:, 0].sum(),
      evaluation=evaluation[0], evaluation_cpu=evaluation[1],
  )


def _peak_mb() -> float:
  status = pathlib.Path('/proc/self/status').read_text(encoding='ascii')
  [peak] = [line for line in status.splitlines() if line.startswith('VmHWM')]
  return int(peak.split()[1]) / 1024


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
