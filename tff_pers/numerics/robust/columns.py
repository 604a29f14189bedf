"""Rules that look at every coordinate by itself."""

from typing import Any

import tensorflow as tf

from tff_pers.numerics.robust import sorting


def mean(x: tf.Tensor) -> tf.Tensor:
  """Returns the mean row, float[d].

  Args:
    x: float[n, d], n >= 1.
  """
  return tf.reduce_mean(x, axis=0)


def median(x: tf.Tensor) -> tf.Tensor:
  """Returns the median of every column, float[d].

  For even n it is the mean of the two in the middle.

  Args:
    x: float[n, d], n >= 1.
  """
  n = _number(x)
  return sorting.reduce_sorted(
      x, lambda rows: mean(rows((n - 1) // 2, n // 2 + 1))
  )


def trimmed_mean(x: tf.Tensor, num_trimmed: Any) -> tf.Tensor:
  """Returns the mean of every column without its extremes.

  Args:
    x: float[n, d].
    num_trimmed: b, an integer with n > 2 b: so many of the largest and of the
      smallest numbers are left out.
  """
  n = _number(x)
  return sorting.reduce_sorted(
      x, lambda rows: mean(rows(num_trimmed, n - num_trimmed))
  )


def _number(x):
  """Returns n, an int where it is known."""
  return x.shape[0] or tf.shape(x)[0]
