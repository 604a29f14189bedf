"""The training program on a small stateful method (APFL, four clients)."""

import collections
import io
import threading

import numpy as np
import pytest
import tensorflow as tf

import baselines
from tests import lazy_tasks
from tff_pers.config import methods
from tff_pers.data import tasks
from tff_pers.simulation import cohort
from tff_pers.simulation import non_finite
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import release
from tff_pers.simulation import store

del baselines  # Registers.


@pytest.fixture(scope='module', name='problem')
def _problem():
  """Returns (process, data)."""
  task = tasks.get('digits').build(
      tasks.TaskRequest(num_clients=4, partition='iid', train_fraction=0.05),
      tasks.get('digits').options(),
  )
  method = methods.get('apfl')
  process = method.build(
      task, method.hyperparameters(local_steps=2, batch_size=5)
  )
  return process, program.Data(task.train, task.test)


def _run(problem, folder, *, rounds, **options):
  """Runs up to `rounds` with cohorts of 2; returns (trainer, metrics)."""
  process, data = problem
  states = store.ClientStateStore(folder / 'checkpoint.sqlite')
  trainer = program.TrainingProgram(process, data, states, seed=3)
  start = trainer.position.round
  with release.Releases(
      str(folder), trainer.columns, start
  ) as releases, progress.Progress(rounds, start, io.StringIO()) as shown:
    metrics = trainer.run(
        cohort.uniform(4, 2), rounds=rounds, eval_every=2, releases=releases,
        progress=shown, **options,
    )
  return trainer, states, metrics


def _assert_same(actual, expected):
  for a, b in zip(tf.nest.flatten(actual), tf.nest.flatten(expected)):
    assert np.asarray(a).dtype == np.asarray(b).dtype
    np.testing.assert_array_equal(a, b)


def _csv_without_seconds(folder):
  rows = (folder / 'metrics.csv').read_text().splitlines()
  return [row.split(',')[:1] + row.split(',')[2:] for row in rows]


def test_ends_after_the_row_that_is_enough(problem, tmp_path):
  seen = []
  def is_enough(row):
    seen.append((row['round'], row['loss_mean']))
    return len(seen) == 2
  trainer, states, _ = _run(problem, tmp_path, rounds=9, is_enough=is_enough)
  assert [number for number, _ in seen] == [2, 4]
  assert seen[0][1] != seen[1][1]
  assert trainer.position.round == states.position()['round'] == 4
  assert [row[0] for row in _csv_without_seconds(tmp_path)[1:]] == ['2', '4']


def test_states_of_clients_outside_the_cohort_do_not_change(problem):
  """Baselines B6."""
  process, data = problem
  states = store.ClientStateStore()
  trainer = program.TrainingProgram(process, data, states, seed=1)
  trainer.train_round(np.array([0, 2]))
  before = {c: tf.nest.map_structure(np.copy, states.get(c, None))
            for c in (0, 2)}
  server = tf.nest.map_structure(np.copy, trainer.state)
  trainer.evaluate(data)
  assert states.clients() == [0, 2]  # Evaluation adds no state.
  _assert_same(trainer.state, server)
  trainer.train_round(np.array([1, 2]))
  _assert_same(states.get(0, None), before[0])
  assert states.clients() == [0, 1, 2]
  changed = [
      np.any(a != b)
      for a, b in zip(tf.nest.flatten(states.get(2, None)),
                      tf.nest.flatten(before[2]))
  ]
  assert any(changed)


def test_new_clients_are_initialized_in_one_call(problem, monkeypatch):
  process, data = problem
  trainer = program.TrainingProgram(process, data, store.ClientStateStore())
  asked = []
  initialize = trainer._initialize  # pylint: disable=protected-access
  def count(state, indices):
    asked.append(list(indices))
    return initialize(state, indices)
  monkeypatch.setattr(trainer, '_initialize', count)
  trainer.train_round(np.array([0, 1, 3]))
  trainer.train_round(np.array([0, 2]))
  assert asked == [[0, 1, 3], [2]]


def _columns(process, data, **knowledge):
  return program.TrainingProgram(
      process, data, store.ClientStateStore(), **knowledge
  ).columns


def test_columns_begin_as_documented(problem):
  found = _columns(*problem)
  assert found[:7] == [
      'seconds', 'train_loss', 'accuracy_mean', 'loss_mean',
      'accuracy_worst_decile', 'bytes_down', 'bytes_up',
  ]
  assert 'non_finite' not in found and len(set(found)) == len(found)


def test_non_finite_loss_stops_with_round_and_clients(problem, tmp_path):
  process, data = problem
  broken = list(data.train)
  broken[2] = collections.OrderedDict(broken[2])
  broken[2]['examples'] = collections.OrderedDict(
      x=np.full_like(data.train[2]['examples']['x'], np.nan),
      y=data.train[2]['examples']['y'],
  )
  states = store.ClientStateStore(tmp_path / 'checkpoint.sqlite')
  trainer = program.TrainingProgram(
      process, program.Data(broken, data.test), states
  )
  trainer.train_round(np.array([0, 1]))
  before = trainer.state
  with pytest.raises(non_finite.NonFiniteError, match='in round 2 at client 2'):
    trainer.train_round(np.array([0, 2]))
  assert trainer.state is before and trainer.position.round == 1


def test_evaluation_in_parts_changes_no_number(problem, monkeypatch):
  process, data = problem
  trainer = program.TrainingProgram(process, data, store.ClientStateStore())
  whole = trainer.evaluate(data)
  monkeypatch.setattr(program, 'CLIENTS_PER_CALL', 3)
  _assert_same(trainer.evaluate(data), whole)
  assert whole['loss'].shape == (4,)
  assert whole['num_examples'].tolist() == [
      int(d['num_examples']) for d in data.test
  ]


def test_the_clock_leaves_out_what_comes_after_an_evaluation(
    problem, tmp_path, monkeypatch
):
  """The first release and checkpoint take as long as a compilation."""
  done = []
  def noted(kind, name):
    method = getattr(kind, name)
    def call(self, *args):
      done.append(name)
      return method(self, *args)
    monkeypatch.setattr(kind, name, call)
  noted(release.Releases, 'release')
  noted(store.ClientStateStore, 'commit')
  noted(progress.Progress, 'evaluated')
  _run(problem, tmp_path, rounds=2)
  assert done == ['release', 'commit', 'evaluated']


def test_the_next_cohort_is_read_while_a_round_runs(problem, tmp_path):
  process, data = problem
  listed, lazy = tmp_path / 'list', tmp_path / 'lazy'
  listed.mkdir()
  lazy.mkdir()
  expected = _run(problem, listed, rounds=3)
  before = set(threading.enumerate())
  reads = lazy_tasks.Reads()
  trainer, _, metrics = _run((process, reads.data(data)), lazy, rounds=3)
  _assert_same(metrics, expected[2])
  assert _csv_without_seconds(lazy) == _csv_without_seconds(listed)
  assert set(threading.enumerate()) == before
  # The first cohort and evaluations by this thread, later cohorts by another.
  assert len(reads.threads) == 2
  sampler = cohort.uniform(4, 2)
  drawn = [sampler(3, number).tolist() for number in range(3)]
  everybody = [0, 1, 2, 3]
  assert sorted(reads.train) == sorted([*sum(drawn, []), *2 * everybody])
  assert reads.train[:4] == drawn[0] + drawn[1]
  assert 0.0 < trainer.seconds_waiting < trainer.position.seconds


def test_only_the_sample_is_evaluated(problem):
  process, data = problem
  reads = lazy_tasks.Reads()
  trainer = program.TrainingProgram(
      process, reads.data(data), store.ClientStateStore(),
      evaluated=np.array([1, 3]),
  )
  whole = program.TrainingProgram(process, data, store.ClientStateStore())
  assert trainer.evaluated.tolist() == [1, 3]
  sample = trainer._evaluate_honest()  # pylint: disable=protected-access
  assert reads.train == reads.test == [1, 3]
  everybody = whole._evaluate_honest()  # pylint: disable=protected-access
  np.testing.assert_array_equal(sample['loss'], everybody['loss'][[1, 3]])


def test_clients_must_stand_at_their_index(problem):
  process, data = problem
  turned = program.Data(data.train[::-1], data.test[::-1])
  with pytest.raises(ValueError, match='must be its position.*found 3 at 0'):
    program.TrainingProgram(process, turned, store.ClientStateStore())
