"""Krum and Multi-Krum: messages with close neighbours.

Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent
    Blanchard, El Mhamdi, Guerraoui, Stainer. NeurIPS 2017.
"""

from typing import Any

import tensorflow as tf

from tff_pers.numerics import distances
from tff_pers.numerics.robust import columns


def squared_distances(x: tf.Tensor) -> tf.Tensor:
  """Returns ||x_i - x_j||^2, float[n, n], through one matrix product."""
  # From a centre that no few messages move: with the mean, or with a message
  # that is chosen by its distance from it, one message that is far away drowns
  # the distances of all others in its rounding.
  return distances.gram_distances(x - columns.median(x))


def krum_scores(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns the sum of squared distances to the n - f - 2 nearest others.

  Args:
    x: float[n, d], n > f + 2.
    num_byzantine: f, an integer.
  """
  n = tf.shape(x)[0]
  # The first column is the message itself, at distance 0.
  ascending = tf.sort(squared_distances(x), axis=1)
  return tf.reduce_sum(ascending[:, 1 : n - num_byzantine - 1], axis=1)


def krum(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns the row of the smallest score, float[d]; see `krum_scores`.

  Of equal scores that of the smaller index.

  Args:
    x: float[n, d], n > f + 2.
    num_byzantine: f, an integer.
  """
  return x[tf.argmin(krum_scores(x, num_byzantine))]


def multi_krum(x: tf.Tensor, num_byzantine: Any, num_best: Any) -> tf.Tensor:
  """Returns the mean of the rows of the smallest scores.

  Args:
    x: float[n, d].
    num_byzantine: f.
    num_best: m in 1..n, how many.
  """
  order = tf.argsort(krum_scores(x, num_byzantine), stable=True)
  return tf.reduce_mean(tf.gather(x, order[:num_best]), axis=0)
