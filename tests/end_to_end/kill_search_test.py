"""SIGKILL during `tune` and `choose`, then the same command: real processes.

No trial is lost or repeated, and nothing but the interrupted one runs again: of
it at most the rounds since its last checkpoint, which is taken after every
evaluated round. All are marked slow.
"""

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from tests import csv_rows
from tests.end_to_end import killed_search

_rows = csv_rows.read

_ROOT = pathlib.Path(__file__).resolve().parents[2]
_TINY = [
    '--num_clients=5', '--partition=iid', '--train_fraction=0.05', '--rounds=4',
    '--eval_every=2', '--algos=fedavg,local_only',
]
_TUNE = [*_TINY, '--trials=4', '--seeds=0,1', '--jobs=1']
_CHOOSE = [*_TINY, '--budget=60s', '--seeds=0,1']
_EVAL_EVERY = 2
_SECONDS = 900


def _start(moment, count, log, name, flags, folder):
  return subprocess.Popen(
      [sys.executable, '-m', killed_search.__name__, moment, str(count),
       str(log), name, *flags, f'--output_dir={folder}'],
      cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
      stderr=subprocess.PIPE, text=True,
  )


def _wait(child):
  """Waits for a process; one that hangs does not outlive the test."""
  try:
    return child.communicate(timeout=_SECONDS)[1]
  finally:
    child.kill()


def _finish(log, name, flags, folder):
  child = _start('never', 0, log, name, flags, folder)
  errors = _wait(child)
  assert child.returncode == 0, errors


def _without(rows, *names):
  return [{k: v for k, v in row.items() if k not in names} for row in rows]


def _rounds(log):
  """Returns how often each round of each run was trained."""
  return collections.Counter(
      tuple(line.rsplit(' ', 1)) for line in log.read_text().splitlines()
  )


def _check_repeated(log, kills):
  """Asserts that only rounds without a checkpoint were trained again."""
  repeated = [key for key, number in _rounds(log).items() if number > 1]
  assert len({folder for folder, _ in repeated}) <= kills
  assert len(repeated) <= kills * _EVAL_EVERY


def _check_whole(folder):
  """Asserts that every trial of every method has ended, with its own number."""
  rows = _rows(folder / 'trials.csv')
  for algo in ('fedavg', 'local_only'):
    own = [row for row in rows if row['algo'] == algo]
    assert [row['trial'] for row in own] == [
        str(i) for i in range(1, len(own) + 1)
    ]
    assert all(row['state'] != 'running' for row in own)
    # A folder for each trial, none beside them, no values twice.
    assert len(list((folder / algo).glob('trial*'))) == len(own)
    values = [tuple(_without([row], 'trial', 'seconds', 'state', 'rounds',
                             'validation')[0].items()) for row in own]
    assert len(set(values)) == len(values)


@pytest.fixture(scope='module', name='tuned')
def _tuned(tmp_path_factory):
  """Returns what `tune` finds when nobody kills it."""
  top = tmp_path_factory.mktemp('whole')
  _finish(top / 'log', 'tune', _TUNE, top / 'run')
  rounds = {
      (os.path.relpath(folder, top / 'run'), number)
      for folder, number in _rounds(top / 'log')
  }
  assert max(_rounds(top / 'log').values()) == 1
  return _results(top / 'run'), rounds


def _results(folder):
  """Returns what must not depend on kills."""
  with open(folder / 'best.json', encoding='utf-8') as file:
    best = json.load(file)
  return (
      best, _without(_rows(folder / 'trials.csv'), 'seconds'),
      _without(_rows(folder / 'runs.csv'), 'seconds_per_round'),
  )


@pytest.mark.slow
@pytest.mark.parametrize('moment, count', [
    ('values drawn', 4), ('trial claimed', 2), ('config written', 3),
    ('round trained', 7), ('checkpoint committed', 5), ('round reported', 4),
    ('run finished', 2), ('trial ended', 3),
])
def test_tune_goes_on_where_it_was_killed(moment, count, tuned, tmp_path):
  folder, log = tmp_path / 'run', tmp_path / 'log'
  child = _start(moment, count, log, 'tune', _TUNE, folder)
  errors = _wait(child)
  assert child.returncode == -signal.SIGKILL, errors
  _finish(log, 'tune', _TUNE, folder)
  expected, rounds = tuned
  assert _results(folder) == expected
  _check_whole(folder)
  _check_repeated(log, kills=1)
  assert {
      (os.path.relpath(run, folder), number) for run, number in _rounds(log)
  } == rounds


@pytest.mark.slow
def test_several_processes_tune_one_study_and_one_is_killed(tuned, tmp_path):
  """Every trial is run once, by either; the survivor ends what was begun."""
  folder, log = tmp_path / 'run', tmp_path / 'log'
  killed = _start('round trained', 5, log, 'tune', _TUNE, folder)
  survivor = _start('never', 0, log, 'tune', _TUNE, folder)
  errors = _wait(survivor)
  _wait(killed)
  assert survivor.returncode == 0, errors
  _check_whole(folder)
  _check_repeated(log, kills=1)
  expected, _ = tuned
  found = _results(folder)[1]
  assert len(found) == len(expected[1])


@pytest.mark.slow
@pytest.mark.parametrize('moment, count', [
    ('round trained', 6), ('trial ended', 2), ('run finished', 5),
])
def test_choose_goes_on_where_it_was_killed(moment, count, tmp_path):
  folder, log = tmp_path / 'run', tmp_path / 'log'
  argv = [*_CHOOSE, '--jobs=1']
  child = _start(moment, count, log, 'choose', argv, folder)
  errors = _wait(child)
  assert child.returncode == -signal.SIGKILL, errors
  spent = json.loads((folder / 'clock.json').read_text())['seconds']
  before = _rounds(log)
  _finish(log, 'choose', argv, folder)
  assert json.loads((folder / 'clock.json').read_text())['seconds'] > spent
  _check_whole(folder)
  _check_repeated(log, kills=1)
  assert not before - _rounds(log)
  assert sum(int(row['recommended'])
             for row in _rows(folder / 'choice.csv')) == 1


@pytest.mark.slow
def test_kills_of_choose_at_random_until_it_ends(tmp_path):
  """With two processes that train, which must die with the first one."""
  folder, log = tmp_path / 'run', tmp_path / 'log'
  # Starts count, too: on a busy machine three of them take a minute.
  argv = [*_TINY, '--budget=180s', '--seeds=0,1', '--jobs=2']
  generator = random.Random(0)
  kills = 3
  for number in range(kills):
    child = _start('never', 0, log, 'choose', argv, folder)
    deadline = time.monotonic() + _SECONDS
    lines = len(log.read_text().splitlines()) if log.exists() else 0
    while not log.exists() or len(log.read_text().splitlines()) == lines:
      assert time.monotonic() < deadline
      if child.poll() is not None:
        break  # It has ended before we could.
      time.sleep(0.05)
    time.sleep(generator.uniform(0.0, 4.0))
    child.kill()
    child.communicate()
    assert number == 0 or child.returncode in (0, -signal.SIGKILL)
  _finish(log, 'choose', argv, folder)
  _check_whole(folder)
  # Two at a time.
  _check_repeated(log, kills=2 * kills)
