"""Schedules and matchings: perm check 5 and section 2.6."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
import scipy.stats
import tensorflow as tf

from tff_pers.numerics import schedule

_hosts = tf.function(schedule.hosts)


@pytest.mark.parametrize('n', [2, 3, 50])
def test_every_epoch_covers_all_pairs_once(n):
  """perm check 5: bijection per round, all N^2 pairs per epoch, 20 epochs."""
  first_rounds = []
  for epoch in range(20):
    rounds = range(epoch * n, (epoch + 1) * n)
    table = np.stack([_hosts(3, tf.constant(t), n) for t in rounds])
    for row in table:
      assert sorted(row) == list(range(n))
    for column in table.T:
      assert sorted(column) == list(range(n))
    first_rounds.append(tuple(table[0]))
  # 20 draws of N! permutations: all of them for N = 2 (6 for N = 3, seldom one
  # missing), no repetition for N = 50.
  assert len(set(first_rounds)) == {2: 2, 3: 6, 50: 20}[n]


def test_first_host_is_uniform():
  """perm check 5: chi-square p > 0.001 over 5 000 epochs, N = 5."""
  n = 5

  @tf.function
  def first_hosts():
    return tf.map_fn(
        lambda epoch: schedule.hosts(11, epoch * n, n), tf.range(5000)
    )

  drawn = first_hosts().numpy()
  for model in range(n):
    counts = np.bincount(drawn[:, model], minlength=n)
    assert scipy.stats.chisquare(counts).pvalue > 0.001


def test_owners_invert_hosts():
  hosts = schedule.hosts(0, 4, 7).numpy()
  owners = schedule.owners(tf.constant(hosts), 7).numpy()
  np.testing.assert_array_equal(owners[hosts], np.arange(7))
  partial = schedule.owners(tf.constant([2, -1, 0]), 3).numpy()
  np.testing.assert_array_equal(partial, [2, -1, 0])


_matching = tf.function(schedule.matching)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(seed=st.integers(0, 10**6), density=st.floats(0.05, 0.9))
def test_matching_is_maximum_and_valid(seed, density):
  """perm 2.6: distinct pending clients of the cohort; SciPy's cardinality."""
  rng = np.random.default_rng(seed)
  n = 9
  pending = rng.random((n, n)) < density
  available = rng.random(n) < 0.6
  hosts = _matching(
      tf.constant(pending), tf.constant(available),
      tf.constant([seed, 0], tf.int64),
  ).numpy()
  matched = np.flatnonzero(hosts >= 0)
  assert len(set(hosts[matched])) == len(matched)
  assert all(pending[m, hosts[m]] and available[hosts[m]] for m in matched)
  best = scipy.sparse.csgraph.maximum_bipartite_matching(
      scipy.sparse.csr_matrix(pending & available), perm_type='column'
  )
  assert len(matched) == np.sum(best >= 0)


def test_matching_prefers_the_fullest_pending_sets():
  pending = np.array([[1, 0, 0], [1, 1, 1], [1, 0, 0]], bool)
  for seed in range(10):
    hosts = _matching(
        tf.constant(pending), tf.constant([True, False, False]),
        tf.constant([seed, 0], tf.int64),
    ).numpy()
    np.testing.assert_array_equal(hosts, [-1, 0, -1])


def test_ties_are_random():
  pending = tf.ones([4, 4], tf.bool)
  drawn = {
      tuple(_matching(pending, tf.ones([4], tf.bool),
                      tf.constant([s, 0], tf.int64)).numpy())
      for s in range(40)
  }
  assert len(drawn) > 10
