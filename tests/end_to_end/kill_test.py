"""SIGKILL at any point, then `--resume`: bit-identical results.

APFL has server state and client states, the cohorts are
partial, so that states are made, changed and left alone. A kill in the middle
of a checkpoint is for every day, the other moments are marked slow.
"""

import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from binaries import train
from tests import csv_rows
from tests import slow
from tests.end_to_end import killed_train

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Messages are under way at every checkpoint, and the buffer is half full.
_EVENTS = [
    '--algo=fedbuff[buffer_size=3]', '--num_clients=6', '--in_flight=4',
    '--rounds=6', '--eval_every=2', '--partition=iid', '--train_fraction=0.05',
    '--delays=pareto[slow=3]', '--seed=7',
]
_FLAGS = [
    '--algo=apfl', '--num_clients=5', '--clients_per_round=3', '--rounds=6',
    '--eval_every=2', '--partition=iid', '--train_fraction=0.05', '--seed=7',
]


def _start(module, *argv):
  """Starts a program in a process of its own, which we may kill."""
  return subprocess.Popen(
      [sys.executable, '-m', module, *argv],
      cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
  )


def _final(folder):
  """Returns all that must not depend on kills."""
  rows = csv_rows.read(folder / 'metrics.csv')
  for row in rows:
    del row['seconds']
  database = sqlite3.connect(folder / 'checkpoint.sqlite')
  states = database.execute(
      'SELECT owner, leaf, chunk, npy FROM committed ORDER BY 1, 2, 3'
  ).fetchall()
  working = database.execute('SELECT count(*) FROM working').fetchone()
  database.close()
  return rows, (folder / 'clients.csv').read_text(), states, working


@pytest.fixture(scope='module', name='expected')
def _expected(tmp_path_factory):
  """Returns the results of the run that nobody kills."""
  folder = tmp_path_factory.mktemp('whole') / 'run'
  assert train.main(['train', *_FLAGS, f'--output_dir={folder}']) == 0
  rows, clients, states, working = _final(folder)
  assert [row['round'] for row in rows] == ['2', '4', '6']
  assert {owner for owner, *_ in states} >= {-1} and working == (0,)
  return rows, clients, states, working


@pytest.mark.parametrize('moment, count', slow.beyond(1, [
    ('server state in the transaction', 2), ('config written', 1),
    ('round trained', 1), ('round trained', 3), ('evaluation begun', 2),
    ('row released', 1), ('row released', 3),
    ('server state in the transaction', 1),
    ('server state in the transaction', 3), ('checkpoint committed', 1),
    ('clients written', 1), ('all but finished', 1),
]))
def test_kill_at_a_chosen_moment(moment, count, expected, tmp_path):
  folder = tmp_path / 'run'
  argv = [*_FLAGS, f'--output_dir={folder}']
  child = _start(killed_train.__name__, moment, str(count), *argv)
  assert child.wait(timeout=300) == -signal.SIGKILL
  assert train.main(['train', *argv, '--resume']) == 0
  assert _final(folder) == expected


@pytest.mark.slow
def test_kills_of_a_run_of_events(tmp_path):
  """Messages in flight, their versions and the clock are in the checkpoint."""
  whole, folder = tmp_path / 'whole', tmp_path / 'run'
  assert train.main(['train', *_EVENTS, f'--output_dir={whole}']) == 0
  expected = _final(whole)
  # Messages under way are below the server's -1.
  assert sum(owner < -1 for owner, leaf, *_ in expected[2] if leaf == 0) >= 3
  argv = [*_EVENTS, f'--output_dir={folder}']
  for moment, count in (
      ('server state in the transaction', 2), ('row released', 1),
      ('checkpoint committed', 1), ('evaluation begun', 1),
  ):
    child = _start(killed_train.__name__, moment, str(count), *argv, '--resume')
    assert child.wait(timeout=300) == -signal.SIGKILL
  assert train.main(['train', *argv, '--resume']) == 0
  assert _final(folder) == expected


@pytest.mark.slow
@pytest.mark.parametrize('seed', range(3))
def test_kills_at_random_until_finished(seed, expected, tmp_path):
  folder = tmp_path / 'run'
  argv = [*_FLAGS, f'--output_dir={folder}']
  generator = random.Random(seed)
  for _ in range(4):
    child = _start('binaries.train', *argv, '--resume')
    deadline = time.monotonic() + 200
    while not (folder / 'config.json').exists():  # Past the imports.
      assert child.poll() is None and time.monotonic() < deadline
      time.sleep(0.01)
    time.sleep(generator.uniform(0.0, 12.0))
    child.kill()
    child.wait()
  assert train.main(['train', *argv, '--resume']) == 0
  assert _final(folder) == expected


@pytest.mark.slow
def test_workers_die_with_the_killed_program(tmp_path):
  """Else every kill would leave a process of TFF behind."""
  child = _start(
      killed_train.__name__, 'round trained', '1', *_FLAGS,
      f'--output_dir={tmp_path / "run"}', '--runtime=native',
  )
  workers = set()
  while child.poll() is None:
    listed = subprocess.run(
        ['ps', '-o', 'pid=', '--ppid', str(child.pid)],
        capture_output=True, text=True, check=False,
    )
    workers |= {int(pid) for pid in listed.stdout.split()}
    time.sleep(0.2)
  assert workers
  deadline = time.monotonic() + 20
  while any(os.path.exists(f'/proc/{pid}/exe') for pid in workers):
    assert time.monotonic() < deadline
    time.sleep(0.1)
