"""Who is Byzantine: named by the task, joined to it, or drawn by the seed."""

import dataclasses

import numpy as np
import pytest

from tests import built
from tff_pers.testing import tiny
from tff_pers.data import byzantine
from tff_pers.data import holdout
from tff_pers.data import least_squares
from tff_pers.data import tasks


def test_so_many_are_drawn_by_the_seed():
  first, again, other = (byzantine.drawn(25, 5, seed) for seed in (0, 0, 1))
  assert first.dtype == bool and first.sum() == other.sum() == 5
  np.testing.assert_array_equal(first, again)
  assert np.any(first != other)
  # All of the clients are drawn by some seed.
  assert all(
      any(byzantine.drawn(5, 2, seed)[client] for seed in range(20))
      for client in range(5)
  )


def test_a_task_keeps_those_that_it_names():
  named = np.array([False, True, False, False])
  task = tiny.task(byzantine=named)
  assert byzantine.appoint(task, 1, seed=0).byzantine is named
  assert byzantine.appoint(task, 0, seed=0).byzantine is named
  with pytest.raises(ValueError, match='`num_byzantine` must be 1, as many as'):
    byzantine.appoint(task, 2, seed=0)


@pytest.mark.parametrize('number, num_clients', [(2, 4), (3, 5), (1, 1)])
def test_half_of_the_clients_or_more_are_refused(number, num_clients):
  with pytest.raises(
      ValueError,
      match=f'less than half of the clients .{num_clients}., found {number}',
  ):
    byzantine.check(number, num_clients)
  byzantine.check((num_clients - 1) // 2, num_clients)


@pytest.mark.parametrize('name', ['overpersonalized', 'overpersonalized_control'])
def test_byzantine_clients_join_those_of_a_formula(name):
  """The honest ones are those of the task without them, to the last bit."""
  build = lambda number: built.task(name, num_byzantine=number, seed=3)
  alone, joined = build(0), build(5)
  assert alone.byzantine is None and alone.num_clients == 20
  assert joined.num_clients == 25
  np.testing.assert_array_equal(joined.honest, np.arange(20))
  for a, b in zip(alone.train, joined.train):
    np.testing.assert_array_equal(a['examples']['x'], b['examples']['x'])
    np.testing.assert_array_equal(a['examples']['y'], b['examples']['y'])
  # The optimum is the root of the mean over the honest clients.
  optimum = joined.optimum[0]
  np.testing.assert_array_equal(optimum[:20], alone.optimum[0])
  operators = [
      least_squares.operator(data['examples']['x'], data['examples']['y'], 10)
      for data in joined.train[:20]
  ]
  np.testing.assert_allclose(
      optimum[0], least_squares.root(operators), rtol=1e-9
  )
  with pytest.raises(ValueError, match='less than half of the clients .40.'):
    build(20)


@pytest.mark.parametrize('seed', range(4))
def test_clients_that_never_train_are_not_drawn(seed):
  task = built.task(
      'digits', num_clients=10, num_byzantine=3, holdout_clients=3, seed=seed,
      partition='iid',
  )
  held_out = holdout.choose(10, 3, seed)
  assert task.byzantine.sum() == 3 and not task.byzantine[held_out].any()
  with pytest.raises(ValueError, match='less than half of the clients .7.'):
    byzantine.appoint(
        dataclasses.replace(task, byzantine=None), 4, seed, num_held_out=3
    )


def test_other_tasks_draw_them():
  task = built.task(
      'digits', num_clients=7, num_byzantine=3, seed=1, partition='iid'
  )
  np.testing.assert_array_equal(task.byzantine, byzantine.drawn(7, 3, 1))
  with pytest.raises(ValueError, match='`num_byzantine` must be >= 0'):
    tasks.TaskRequest(num_byzantine=-1)
