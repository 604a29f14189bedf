"""What is done to messages before a rule combines them.

Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing
    Karimireddy, He, Jaggi. ICLR 2022.
Fixing by Mixing: A Recipe for Optimal Byzantine ML under Heterogeneity
    Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan. AISTATS 2023
    (nearest-neighbour mixing).
"""

from typing import Any

import tensorflow as tf

from tff_pers.numerics.robust import centers
from tff_pers.numerics.robust import lengths
from tff_pers.numerics.robust import neighbours


def bucketing(x: tf.Tensor, size: int, key: tf.Tensor) -> tf.Tensor:
  """Returns the means of random buckets, float[ceil(n / size), d].

  Args:
    x: float[n, d], n >= 1.
    size: s >= 1, messages per bucket; the last one may hold fewer.
    key: int64[2], of the permutation.
  """
  n = tf.shape(x)[0]
  order = tf.argsort(tf.random.stateless_uniform([n], key, dtype=tf.float64))
  return tf.math.segment_mean(tf.gather(x, order), tf.range(n) // size)


def nearest_neighbour_mixing(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns the means of the n - f nearest messages of each, float[n, d].

  A message is one of its own nearest; of equal distances those of smaller
  indices are nearer.

  Args:
    x: float[n, d].
    num_byzantine: f < n, an integer.
  """
  n = tf.shape(x)[0]
  squared = neighbours.squared_distances(x)
  count = n - num_byzantine
  nearest = tf.argsort(squared, axis=1, stable=True)[:, :count]
  # A product with the table of who is mixed, in the place of [n, n - f, d].
  chosen = tf.reduce_sum(tf.one_hot(nearest, n, dtype=x.dtype), axis=1)
  return tf.matmul(chosen, x) / tf.cast(count, x.dtype)


def clip_norms(x: tf.Tensor, bound: Any) -> tf.Tensor:
  """Returns x_i min(1, c / ||x_i||), float[n, d]; 0 stays 0.

  Args:
    x: float[n, d].
    bound: c >= 0, a scalar.
  """
  norms = lengths.distances(x, 0)
  factors = tf.minimum(
      tf.ones_like(norms),
      tf.math.divide_no_nan(tf.cast(bound, x.dtype), norms),
  )
  # 0 / 0 is 0 above, and so is the message.
  return x * factors[:, None]


def median_norm(x: tf.Tensor) -> tf.Tensor:
  """Returns the median of ||x_i||, a scalar.

  Args:
    x: float[n, d], n >= 1.
  """
  return centers.median_of(lengths.distances(x, 0))


def adaptive_norm(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns the bound of adaptive robust clipping (ARC).

  With k = floor(2 (f / n) (n - f)), it is the (n - k)-th smallest norm.

  Args:
    x: float[n, d].
    num_byzantine: f < n / 2, an integer.
  """
  n = tf.shape(x)[0]
  k = 2 * num_byzantine * (n - num_byzantine) // n
  return tf.sort(lengths.distances(x, 0))[n - k - 1]
