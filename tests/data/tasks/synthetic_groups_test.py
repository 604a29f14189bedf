"""Tests of the task `synthetic_groups` (papers/perm.md 4.1)."""

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import tasks
from tff_pers.data.tasks import synthetic_groups

_Options = synthetic_groups.SyntheticGroupsOptions


def _build(options=_Options(), **request):
  return tasks.get('synthetic_groups').build(
      tasks.TaskRequest(**request), options
  )


def test_default_is_the_sheets_configuration():
  """perm check 11 runs on this."""
  task = _build()
  np.testing.assert_array_equal(task.groups, np.repeat([0, 1], 25))
  assert {int(d['num_examples']) for d in task.train} == {100}
  assert {int(d['num_examples']) for d in task.test} == {500}
  assert task.model.num_parameters == 61  # d = 60 and an intercept.
  assert task.rounds == 100


def test_features_have_the_sheets_mean_and_variance():
  """30,000 rows: means within 5 standard errors, variances within 5 %.

  A sample variance of n normal numbers has relative deviation sqrt(2 / n), so
  5 % are 6 deviations.
  """
  groups = np.repeat([0, 1], 25)
  x, _ = synthetic_groups.generate(groups, _Options(test=1100), seed=0)
  assert x.shape == (50, 1200, 60) and x.dtype == np.float32
  variance = np.arange(1, 61) ** -1.2
  for group, mu in ((0, 0.2), (1, -0.2)):
    rows = x[groups == group].reshape(-1, 60)
    error = 5 * np.sqrt(variance / len(rows))
    assert (np.abs(rows.mean(axis=0) - mu) < error).all()
    np.testing.assert_allclose(rows.var(axis=0), variance, rtol=0.05)


@pytest.mark.parametrize('seed', range(5))
def test_groups_have_opposite_labels(seed):
  """One linear rule fits group 0, and its opposite group 1, exactly."""
  groups = np.repeat([0, 1], 5)
  options = _Options(dimension=3, train=50, test=1)
  x, y = synthetic_groups.generate(groups, options, seed)
  signed = np.where(groups[:, None] == 0, 2 * y - 1, 1 - 2 * y).reshape(-1)
  rows = x.reshape(-1, 3)
  w = np.zeros(3)
  for _ in range(20000):  # Perceptron: ends on separable data.
    wrong = np.flatnonzero(signed * (rows @ w) <= 0)
    if not len(wrong):
      break
    w += signed[wrong[0]] * rows[wrong[0]]
  assert (signed * (rows @ w) > 0).all()


@pytest.mark.parametrize('seed', range(40))
def test_labelling_is_redrawn_until_balanced(seed):
  """About 18 % of first draws are unbalanced: 40 seeds meet some (1 - 4e-4)."""
  groups = np.repeat([0, 1], 3)
  _, y = synthetic_groups.generate(groups, _Options(), seed)
  for group in (0, 1):
    assert 0.3 <= y[groups == group].mean() <= 0.7


def test_flags_decide():
  options = _Options(dimension=5, train=7, test=9, l2=0.0)
  task = _build(options, num_clients=3, seed=4)
  np.testing.assert_array_equal(task.groups, [0, 0, 1])
  assert task.train[0]['examples']['x'].shape == (7, 5)
  assert task.test[2]['examples']['x'].shape == (9, 5)


def test_raises_when_no_labelling_is_balanced():
  options = _Options(dimension=1, mu=100.0, train=2, test=2)
  with pytest.raises(errors.DataError, match='`mu` must leave both labels'):
    _build(options)
