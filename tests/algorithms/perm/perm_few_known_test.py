"""Gradients of few clients that have much in common, in float32.

Centered with the zeros of all who sent none, most of what they have in common
would stay, and distances of about 1 be lost beside squares of 1e7 and more.
"""

import numpy as np
import tensorflow as tf

from tff_pers.algorithms.perm import fingerprints
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_clusters
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting
from tff_pers.numerics import mixing


def test_rows_of_few_known_clients_are_exact():
  """Three of 40."""
  rng = np.random.default_rng(0)
  common = 1e3 * rng.standard_normal(30)
  g = (common + 0.2 * rng.standard_normal([3, 30])).astype(np.float32)
  sizes = np.array([20.0, 30.0, 50.0], np.float32)
  keys = [31, 4, 17]
  table = fingerprints.written(
      fingerprints.empty_table(40, 30, tf.float32),
      dict(
          fingerprints=tf.constant(g), keys=tf.constant(keys),
          rows=tf.constant(sizes), sizes=tf.constant(sizes),
          variances=tf.ones([3]),
      ), 0,
  )
  problem = perm_mixing.Problem(
      setting.PermSetting(
          perm_devices.Devices(None), perm.PermHyperparameters(lambda_=80.0), 40
      ), table, tf.constant(80.0, tf.float64),
  )
  found = problem.cohort_rows(tf.eye(40), tf.range(40) > 3).numpy()
  exact = g.astype(np.float64)
  c = np.sum((exact[:, None] - exact) ** 2, axis=-1)
  expected = mixing.water_filling(c, tf.constant(sizes), 80.0).numpy()
  assert np.count_nonzero(expected) > 6 and expected.max() > 0.6
  np.testing.assert_allclose(found[keys][:, keys], expected, atol=1e-4)
  others = np.delete(np.arange(40), keys)
  np.testing.assert_array_equal(found[others], np.eye(40)[others])


_KEYS = np.array([3, 50, 7, 22, 9, 41])  # Of 60.
_GROUPS = np.array([0, 0, 0, 1, 1, 1])
_SIZES = np.array([2.0, 5.0, 3.0, 4.0, 2.0, 6.0], np.float32)
_VECTORS = np.float32(
    3e4 + np.array([[3.0, 0.0], [-3.0, 1.0]])[_GROUPS]
    + 0.1 * np.random.default_rng(0).standard_normal([6, 2])
)


def _two_groups():
  """Returns the columns of the table that clusters read."""
  fingerprints_, sizes = np.zeros([60, 2], np.float32), np.zeros(60, np.float32)
  fingerprints_[_KEYS], sizes[_KEYS] = _VECTORS, _SIZES
  return dict(
      fingerprints=tf.constant(fingerprints_), sizes=tf.constant(sizes)
  )


def test_clusters_of_few_known_clients_are_exact():
  old = dict(
      round=tf.constant(5), seed=tf.constant(3, tf.int64),
      mixing=tf.fill([2, 60], 1 / 60), assignment=tf.fill([60], -1),
  )
  problem = perm_mixing.Problem(
      setting.PermSetting(
          perm_devices.Devices(None), perm.PermHyperparameters(models=2), 60
      ), _two_groups(), tf.constant(20.0, tf.float64),
  )
  rows, assignment = perm_clusters.solve(problem, old)
  found = assignment.numpy()[_KEYS]
  assert len(set(zip(found, _GROUPS))) == len(set(found)) == 2
  vectors = _VECTORS.astype(np.float64)
  for cluster in (0, 1):
    members = found == cluster
    center = np.average(vectors[members], axis=0, weights=_SIZES[members])
    expected = mixing.water_filling(
        np.sum((vectors - center) ** 2, axis=1), tf.constant(_SIZES), 20.0
    )
    np.testing.assert_allclose(
        rows.numpy()[cluster][_KEYS], expected, atol=5e-3
    )


def test_new_clients_are_compared_with_who_is_known():
  """They get the model of the nearest of three clusters."""
  assignment = np.full(60, -1, np.int32)
  assignment[_KEYS] = [0, 0, 0, 1, 1, 2]
  state = dict(
      table=_two_groups(), assignment=tf.constant(assignment),
      models=(tf.range(3.0),),
  )
  found = perm_clusters.models_of_new_clients(state, dict(
      fingerprints=tf.constant(_VECTORS[[5, 0, 3]]), sizes=tf.ones([3]),
  ))
  np.testing.assert_array_equal(found[0], [2, 0, 1])
