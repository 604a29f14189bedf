"""Schedules: perm check 5."""

import numpy as np
import pytest
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
