"""Tests of the tasks `floral_linear`, `floral_mlp`, `floral_label_shift`."""

import numpy as np
import pytest

from tests import built
from tff_pers.data.tasks import floral_label_shift
from tff_pers.data.tasks import floral_regression

_build = built.task


@pytest.mark.parametrize(
    'name,num_clients,clusters,train,test,parameters,rounds',
    [
        ('floral_linear', 10, 2, 7, 500, 10 * 3 + 3, 1000),
        ('floral_mlp', 20, 4, 96, 500, 11 * 20 + 21, 1000),
        ('floral_label_shift', 20, 4, 40, 100, 21 * 50 + 51 * 10, 200),
    ],
)
def test_defaults_are_the_sheets(
    name, num_clients, clusters, train, test, parameters, rounds
):
  """Floral checks 12, 13 and 14: what is trained, on how much, how."""
  task = _build(name)
  np.testing.assert_array_equal(
      task.groups, np.arange(num_clients) % clusters
  )
  assert {int(d['num_examples']) for d in task.train} == {train}
  assert {int(d['num_examples']) for d in task.test} == {test}
  assert task.model.num_parameters == parameters
  assert task.rounds == rounds and task.full_participation


def _least_squares(task, clients):
  """Returns (map [10, 3], largest error) of one linear map for `clients`."""
  rows = [task.test[k]['examples'] for k in clients]
  x = np.concatenate([r['x'] for r in rows])
  y = np.concatenate([r['y'] for r in rows])
  solution = np.linalg.lstsq(x, y, rcond=None)[0]
  return solution, np.abs(x @ solution - y).max()


@pytest.mark.parametrize('seed', range(3))
def test_linear_clusters_are_exact_and_differ_by_rank_two(seed):
  """G.1: one map per cluster without noise; two adaptors of rank 1 apart."""
  task = _build('floral_linear', seed=seed)
  even, error_even = _least_squares(task, range(0, 10, 2))
  odd, error_odd = _least_squares(task, range(1, 10, 2))
  assert max(error_even, error_odd) < 1e-4  # float32 examples.
  singular = np.linalg.svd(even - odd, compute_uv=False)
  assert singular[2] < 1e-5 < 0.1 < singular[1]
  _, mixed = _least_squares(task, range(10))
  assert mixed > 0.5
  # Seven examples of ten features do not determine a map.
  assert np.linalg.matrix_rank(task.train[0]['examples']['x']) == 7


@pytest.mark.parametrize('seed', range(3))
def test_linear_optimum_is_the_least_squares_map_of_each_client(seed):
  """500 exact test examples determine the ten by three map."""
  task = _build('floral_linear', seed=seed, num_clients=4)
  kernel, bias = task.optimum
  assert kernel.shape == (4, 10, 3) and bias.shape == (4, 3)
  for client in range(4):
    solution, _ = _least_squares(task, [client])
    np.testing.assert_allclose(kernel[client], solution, atol=1e-4)
  assert not bias.any()
  weights = task.model.init(np.zeros(2, np.int64))
  assert [w.shape for w in weights] == [a.shape[1:] for a in task.optimum]


def test_only_the_linear_model_has_an_optimum():
  """Weights of a network are one of many for the same function."""
  assert _build('floral_linear', model='mlp_20').optimum is None
  assert _build('floral_mlp').optimum is None


def test_maps_have_the_sheets_sizes():
  """W and V: variance 1/10; U: 1. Over 2000 draws, 5 standard errors.

  An entry of W + 2 u v^T has variance 1/10 + 4/10; its square has variance
  16 * 3 * 3/100 + 6 * 4/10 * 1/10 + 3/100 - 1/4 = 1.46. The 30 entries of a
  draw are dependent, so that it counts as one.
  """
  squares = [
      np.mean(np.square(floral_regression.linear_targets(
          np.eye(10)[None], np.array([0]), 1, seed
      )))
      for seed in range(2000)
  ]
  assert abs(np.mean(squares) - 0.5) < 5 * 1.21 / np.sqrt(2000)


def test_mlp_targets_follow_the_formula():
  """G.2: y is positively homogeneous in x, and not linear; clusters differ."""
  x = floral_regression.features(1, 50, seed=3).repeat(4, axis=0)
  y = floral_regression.mlp_targets(x, np.arange(4), 4, seed=3)
  assert y.shape == (4, 50)
  np.testing.assert_allclose(
      floral_regression.mlp_targets(3 * x, np.arange(4), 4, seed=3), 3 * y,
      rtol=1e-4, atol=1e-5,
  )
  even = y + floral_regression.mlp_targets(-x, np.arange(4), 4, seed=3)
  assert np.abs(even).max() > 0.1  # A linear map would give 0.
  for c in range(1, 4):
    assert np.abs(y[c] - y[0]).max() > 0.1


@pytest.mark.parametrize('name', ['floral_linear', 'floral_mlp'])
def test_nobody_shares_examples(name):
  task = _build(name, num_clients=8, seed=5)
  assert task.num_classes == 0 and task.class_counts is None
  rows = np.concatenate([
      data['examples']['x'] for data in [*task.train, *task.test]
  ])
  assert len(np.unique(rows, axis=0)) == len(rows)


def test_label_shift_moves_labels_by_k_mod_4():
  """Check 14: undo the shift, and the nearest class mean is nearly right.

  The means are estimated from client 0; at noise 0.7 and distance about 4.2
  (norm 3, random directions) a test example is beyond the midpoint of a pair of
  classes with probability Phi(-3): above 90 % of them stay, closer pairs
  included.
  """
  groups = np.arange(8) % 4
  x, y = floral_label_shift.generate(groups, 400, seed=0)
  assert x.shape == (8, 400, 20) and y.dtype == np.int32
  means = np.stack([x[0][y[0] == c].mean(axis=0) for c in range(10)])
  np.testing.assert_allclose(np.linalg.norm(means, axis=1), 3, atol=0.6)
  for k in range(1, 8):
    distance = np.square(x[k][:, None] - means).sum(axis=2)
    shifted = (distance.argmin(axis=1) + groups[k]) % 10
    assert np.mean(shifted == y[k]) > 0.9


def test_reduced_label_shift_has_the_same_test_set_size():
  task = _build('floral_label_shift', options=dict(train=10))
  assert {int(d['num_examples']) for d in task.train} == {10}
  assert {int(d['num_examples']) for d in task.test} == {100}


@pytest.mark.parametrize('name', [
    'floral_label_shift', 'floral_linear', 'floral_mlp', 'synthetic_groups',
])
def test_raises_on_a_cluster_without_clients(name):
  with pytest.raises(ValueError, match='`num_clients` must be >= [24], one'):
    _build(name, num_clients=1)
