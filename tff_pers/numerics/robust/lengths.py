"""Lengths of rows."""

import tensorflow as tf

# Of the largest number: what a square may be, so that sums and differences of
# messages, and their squares, do not overflow either.
_SHARE = 1e-6


def squared_norms(x: tf.Tensor) -> tf.Tensor:
  """Returns ||x_i||^2 of x, float[n, d], float[n]; inf where it overflows."""
  # A product of each row with itself, in the place of a matrix of squares.
  return tf.matmul(x[:, None, :], x[:, :, None])[:, 0, 0]


def distances(x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
  """Returns ||x_i - z||, float[n].

  Args:
    x: float[n, d].
    z: float[d].
  """
  # Half the time of `squared_norms` of the differences, which are a matrix of
  # their own here in any case.
  return tf.sqrt(tf.reduce_sum(tf.math.squared_difference(x, z), axis=1))


def are_finite(x: tf.Tensor) -> tf.Tensor:
  """Returns whether rules can calculate with a row, bool[n].

  That is with rows without NaN and infinities whose norm is not beyond all
  measure either: below 1.8e16 in float32, below 1.3e151 in float64. A finite
  message above that would make NaN of the mean of a bucket or a distance.

  Args:
    x: float[n, d].
  """
  return squared_norms(x) < tf.constant(_SHARE * x.dtype.max, x.dtype)
