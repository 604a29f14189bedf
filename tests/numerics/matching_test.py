"""Matchings of models to clients: perm section 2.6."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import scipy.sparse
import scipy.sparse.csgraph
import tensorflow as tf

from tff_pers.numerics import matching

_matching = tf.function(matching.matching)


def _hosts(visits, available, seed, so_far=None):
  """Clients stand in another order in the rows, as sparse rows have them."""
  visits = np.asarray(visits, np.int32)[:, ::-1]
  num_models, num_clients = visits.shape
  clients = np.tile(
      np.arange(num_clients, dtype=np.int32)[::-1], [num_models, 1]
  )
  return _matching(
      tf.constant(clients), tf.constant(visits),
      tf.constant(so_far or [0] * num_models), tf.constant(available),
      tf.constant([seed, 0], tf.int64),
  ).numpy()


@hypothesis.settings(derandomize=True, deadline=None, max_examples=100)
@hypothesis.given(seed=st.integers(0, 10**6), density=st.floats(0.0, 0.9))
def test_matching_is_maximum_and_valid(seed, density):
  """perm 2.6: distinct pending clients of the cohort; SciPy's cardinality."""
  rng = np.random.default_rng(seed)
  # With more models than clients, as in small cohorts, and with fewer.
  pending = rng.random((9, 9)) < density * rng.random((9, 1))
  available = rng.random(9) < 0.6
  hosts = _hosts(pending, available, seed)
  matched = np.flatnonzero(hosts >= 0)
  assert len(set(hosts[matched])) == len(matched)
  assert all(pending[m, hosts[m]] and available[hosts[m]] for m in matched)
  best = scipy.sparse.csgraph.maximum_bipartite_matching(
      scipy.sparse.csr_matrix(pending & available), perm_type='column'
  )
  assert len(matched) == np.sum(best >= 0)


def test_matching_of_many_sparse_rows_is_maximum():
  """Long augmenting paths: 300 models of 2 pending clients each."""
  rng = np.random.default_rng(0)
  ids = rng.permuted(np.tile(np.arange(300), [300, 1]), axis=1)[:, :2]
  ids = ids.astype(np.int32)
  pending = np.zeros([300, 300], bool)
  np.put_along_axis(pending, ids, True, axis=1)
  hosts = _matching(
      tf.constant(ids), tf.ones([300, 2], tf.int32), tf.zeros([300], tf.int32),
      tf.ones([300], tf.bool), tf.constant([0, 0], tf.int64),
  ).numpy()
  best = scipy.sparse.csgraph.maximum_bipartite_matching(
      scipy.sparse.csr_matrix(pending), perm_type='column'
  )
  assert np.sum(hosts >= 0) == np.sum(best >= 0) > 240


def test_matching_prefers_models_that_were_visited_least():
  """However many visits their epochs have left."""
  visits = [[1, 0, 0], [1, 0, 0], [5, 5, 5]]
  for seed in range(10):
    hosts = _hosts(visits, [True, False, False], seed, so_far=[4, 3, 4])
    np.testing.assert_array_equal(hosts, [-1, 0, -1])


def test_ties_are_random():
  drawn = {
      tuple(_hosts(np.ones([4, 4]), [True] * 4, seed)) for seed in range(40)
  }
  assert len(drawn) > 10


def test_nobody_to_visit():
  np.testing.assert_array_equal(
      _hosts(np.zeros([3, 3]), [True] * 3, 0), [-1, -1, -1]
  )
  np.testing.assert_array_equal(
      _hosts(np.ones([3, 3]), [False] * 3, 0), [-1, -1, -1]
  )


def test_clients_are_asked_in_proportion_to_their_visits():
  """One model, 3 : 1 : 0 visits; 400 draws, 5 standard errors are 0.11."""
  visits = [[3, 1, 0], [0, 0, 0], [0, 0, 0]]
  drawn = [_hosts(visits, [True] * 3, seed)[0] for seed in range(400)]
  assert abs(np.mean(np.equal(drawn, 0)) - 0.75) < 0.11
  assert 2 not in drawn
