"""Weighted k-means that starts from an assignment, against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.numerics import kmeans

_GROUPS = np.repeat(np.arange(3), [4, 7, 5])
_RNG = np.random.default_rng(0)
_VECTORS = (
    np.array([[4.0, 0.0], [-3.0, 3.0], [-1.0, -4.0]])[_GROUPS]
    + 0.3 * _RNG.standard_normal([16, 2])
)
_WEIGHTS = _RNG.uniform(1, 9, 16)


def _assign(vectors, weights, start, num_clusters, seed=0):
  assignment, apart = kmeans.assign(
      tf.constant(np.asarray(vectors, np.float64)),
      tf.constant(np.asarray(weights, np.float64)),
      tf.constant(np.asarray(start, np.int32)), num_clusters, random.key(seed),
  )
  return assignment.numpy(), apart.numpy()


def _is_same(found, groups):
  """Whether both are the same clusters, under whatever names."""
  pairs = set(zip(found, groups))
  return len(pairs) == len(set(found)) == len(set(groups))


@pytest.mark.parametrize('seed', range(5))
def test_clear_groups_are_found_and_distances_are_to_weighted_means(seed):
  found, apart = _assign(_VECTORS, _WEIGHTS, np.full(16, -1), 3, seed)
  assert _is_same(found, _GROUPS)
  for cluster in range(3):
    members = found == cluster
    center = np.average(_VECTORS[members], axis=0, weights=_WEIGHTS[members])
    np.testing.assert_allclose(
        apart[cluster], np.sum((_VECTORS - center) ** 2, axis=1), atol=1e-9
    )


def test_clusters_keep_their_names():
  start = np.array([2, 0, 1])[_GROUPS]
  np.testing.assert_array_equal(
      _assign(_VECTORS, _WEIGHTS, start, 3)[0], start
  )


def test_a_start_that_lloyd_does_not_leave_is_left():
  """Two clusters share the first group, two groups share a cluster."""
  start = np.where(_GROUPS == 0, np.arange(16) % 2, 2)
  assert _is_same(_assign(_VECTORS, _WEIGHTS, start, 3)[0], _GROUPS)


def test_who_is_new_joins_the_nearest():
  start = np.where(np.arange(16) % 2, np.array([2, 0, 1])[_GROUPS], -1)
  np.testing.assert_array_equal(
      _assign(_VECTORS, _WEIGHTS, start, 3)[0], np.array([2, 0, 1])[_GROUPS]
  )


@pytest.mark.parametrize('weight, groups', [(1.0, [0, 1, 1]), (0.1, [0, 0, 1])])
def test_weights_decide(weight, groups):
  """Cost of a pair: s t / (s + t) d^2; 8 or 1.5 for the first, 4.5 else."""
  found, _ = _assign([[-4.0], [0.0], [3.0]], [weight, 1, 1], [-1] * 3, 2)
  assert _is_same(found, groups)


def test_a_light_vector_far_away_gets_no_cluster_of_its_own():
  """A pair of weight 100 costs 200 together, the other one 6 at most."""
  vectors = np.array([[0.0], [2.0], [10.0]]) - 4
  found, _ = _assign(vectors, [100, 100, 0.1], [-1] * 3, 2)
  assert _is_same(found, [0, 1, 1])


def test_vectors_without_weight_count_for_nothing():
  """No cluster goes to the one far away, and no center is drawn to it."""
  vectors = np.vstack([_VECTORS, [[50.0, 50.0]]])
  found, apart = _assign(vectors, [*_WEIGHTS, 0], [-1] * 17, 3)
  assert _is_same(found[:16], _GROUPS)
  np.testing.assert_allclose(
      np.sort(apart[:, :16], axis=0),
      np.sort(_assign(_VECTORS, _WEIGHTS, [-1] * 16, 3)[1], axis=0),
      atol=1e-9,
  )


def test_of_two_places_there_are_two_clusters_and_the_others_are_empty():
  found, apart = _assign([[1.0], [1.0], [-1.0]], [1, 2, 3], [-1] * 3, 4)
  assert _is_same(found, [0, 0, 1])
  assert np.sum(np.isinf(apart).all(axis=1)) == 2
  assert np.isfinite(apart).any(axis=1).sum() == 2


def test_the_few_that_cost_are_drawn_among_many():
  """Sixty vectors, and sixteen candidates: who costs nothing is none."""
  vectors, groups = np.zeros([60, 2]), np.zeros(60, int)
  for group, client in enumerate((40, 50), 1):
    vectors[client, group - 1] = 8.0
    groups[client] = group
  start = np.where(groups, -1, 0)
  assert _is_same(_assign(vectors, np.ones(60), start, 3)[0], groups)


def test_equal_vectors_are_one_cluster():
  found, apart = _assign(np.zeros([3, 2]), [1, 1, 1], [-1] * 3, 2)
  np.testing.assert_array_equal(found, 0)
  np.testing.assert_array_equal(apart[0], 0)


@pytest.mark.parametrize('gap, moves', [(2.4, False), (3.2, True)])
def test_a_cluster_moves_if_it_gains_twice_what_is_lost(gap, moves):
  """Lost is 1; the pair apart by `gap` would gain gap^2 / 4, 1.44 or 2.56."""
  vectors = np.array([[0.0], [1.0], [10.0], [10.0 + gap]])
  found, _ = _assign(
      vectors - vectors.mean(), np.ones(4), [0, 1, 2, 2], 3
  )
  assert _is_same(found, [0, 0, 1, 2] if moves else [0, 1, 2, 2])


def test_nothing_has_the_size_of_all_pairs():
  n = 3000

  @tf.function
  def assign(vectors, start):
    return kmeans.assign(vectors, tf.ones([n]), start, 5, random.key(0))

  definition = assign.get_concrete_function(
      tf.TensorSpec([n, 2]), tf.TensorSpec([n], tf.int32)
  ).graph.as_graph_def(add_shapes=True)
  nodes = list(definition.node)
  for function in definition.library.function:
    nodes += function.node_def
  sizes = [
      np.prod([dim.size for dim in shape.dim])
      for node in nodes for shape in node.attr['_output_shapes'].list.shape
  ]
  assert n * 16 == max(sizes)  # Distances to the candidates.
