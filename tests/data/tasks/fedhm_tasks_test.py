"""Tests of the tasks `low_rank_regression` and `gaussian_modes`."""

import numpy as np
import pytest

from tests import built
from tff_pers.core import random
from tff_pers.data.tasks import low_rank_regression

_build = built.task


def test_regression_is_check_a14():
  task = _build('low_rank_regression')
  assert {int(d['num_examples']) for d in task.train} == {100}
  assert task.num_clients == 8 and task.full_participation
  assert task.rounds == 300 and task.client_weighting == 'uniform'
  assert task.rank_ratios == (1.0, 0.5, 0.25, 0.125)
  # 16 columns of 20 numbers of deviation 0.1: within 4 standard errors.
  start = task.model.initial_weights(0)[0].numpy()
  assert abs(np.std(start) - 0.1) < 4 * 0.1 / np.sqrt(2 * 320)


@pytest.mark.parametrize('rank', [2, 4])
def test_targets_are_one_map_of_that_rank(rank):
  task = _build('low_rank_regression', options=dict(rank=rank), seed=3)
  target = task.optimum[0]
  assert np.linalg.matrix_rank(target[0], tol=1e-4) == rank
  for data in [*task.train, *task.test, task.global_test]:
    x, y = data['examples']['x'], data['examples']['y']
    np.testing.assert_allclose(x @ target[0], y, atol=1e-4)
  np.testing.assert_array_equal(target[1:], target[:-1])
  assert task.global_test['num_examples'] == 800
  assert task.global_test['index'] == -1
  other = _build('low_rank_regression', options=dict(rank=rank), seed=4)
  assert np.abs(other.optimum[0] - target).max() > 0.1


def test_loss_of_the_regression_is_half_the_squared_error():
  model = low_rank_regression.linear_model()
  weights = model.initial_weights(0)
  x = np.random.default_rng(0).standard_normal((3, 20)).astype(np.float32)
  y = np.ones([3, 16], np.float32)
  found = model.example_loss(y, model.predict(weights, x, True, random.key(0)))
  expected = np.sum(np.square(x @ weights[0].numpy() - 1), axis=1) / 2
  np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_another_model_of_the_regression():
  task = _build('low_rank_regression', model='mlp_20')
  assert task.model.num_parameters == 21 * 20 + 21 * 16
  assert task.optimum is None


def test_modes_are_check_a15():
  task = _build('gaussian_modes')
  sizes = [int(d['num_examples']) for d in task.train]
  assert len(sizes) == 20 and sum(sizes) == 4000 and min(sizes) >= 40
  assert task.clients_per_round == 10 and task.rounds == 60
  assert task.global_test['num_examples'] == 2000
  assert task.partition == 'dirichlet[alpha=0.5,min=40]'
  assert task.rank_ratios == (1.0, 0.25, 0.125, 0.0625)
  # Gaussian kernels of variance 2 / inputs: within 4 standard errors.
  kernel = task.model.initial_weights(0)[2].numpy()
  expected = np.sqrt(2 / 128)
  assert abs(np.std(kernel) - expected) < 4 * expected / np.sqrt(2 * 128**2)


def test_clients_are_tested_on_the_classes_that_they_train_on():
  task = _build('gaussian_modes', seed=1)
  for index, (train, test) in enumerate(zip(task.train, task.test)):
    own, held_out = (
        np.bincount(d['examples']['y'], minlength=10) for d in (train, test)
    )
    np.testing.assert_array_equal(own, task.class_counts[index])
    assert np.all(own[held_out > 0] > 0)
    assert held_out.sum() == -(-own.sum() // 4)
    assert np.abs(
        held_out / held_out.sum() - own / own.sum()
    ).max() < 0.2


def test_classes_are_not_linear_but_can_be_told_apart():
  """Far above 10 % for the nearest neighbour, far below for the means."""
  task = _build('gaussian_modes', partition='iid')
  x = np.concatenate([d['examples']['x'] for d in task.train])
  y = np.concatenate([d['examples']['y'] for d in task.train])
  test = task.global_test['examples']
  means = np.stack([x[y == c].mean(axis=0) for c in range(10)])
  def share(centres, labels):
    distance = ((test['x'][:, None] - centres[None]) ** 2).sum(-1)
    return np.mean(labels[distance.argmin(1)] == test['y'])
  assert share(x[::4], y[::4]) > share(means, np.arange(10)) + 0.05 > 0.2
