"""What is counted and what is found to be finite."""

import numpy as np
import tensorflow as tf

from tff_pers.core import round_metrics


def test_payload_bytes_counts_floats_in_their_width():
  structure = dict(
      a=tf.zeros([2, 3]), b=tf.zeros([5], tf.float64), c=tf.zeros([7], tf.int32)
  )
  assert round_metrics.payload_bytes(structure) == 2 * 3 * 4 + 5 * 8
  assert round_metrics.payload_bytes(()) == 0


def test_all_finite_ignores_integers_and_sees_every_leaf():
  good = (tf.ones([2]), tf.constant(3), tf.zeros([], tf.float64))
  assert round_metrics.all_finite(good)
  assert round_metrics.all_finite(())
  assert not round_metrics.all_finite((*good, tf.constant([1.0, np.nan])))
  assert not round_metrics.all_finite((tf.constant(-np.inf), *good))


def test_all_finite_where_only_the_norm_overflows():
  assert round_metrics.all_finite(tf.fill([4], np.float32(3e38)))
