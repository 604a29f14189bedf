"""Messages of Byzantine clients, computed from the honest ones.

All functions take the stacked honest messages of a round, floats [h, d], and
return floats [d], the message of every attacker. `h` may be unknown, and 0;
then mean and standard deviation are 0.

The attacks are those of partial personalization 3.4 and baselines 10.
"""

from typing import Any, Union

import tensorflow as tf


def mean(honest: tf.Tensor) -> tf.Tensor:
  """Returns mu, the mean of the rows."""
  count = tf.cast(tf.shape(honest)[0], honest.dtype)
  return tf.math.divide_no_nan(tf.reduce_sum(honest, axis=0), count)


def std(honest: tf.Tensor) -> tf.Tensor:
  """Returns the unbiased standard deviation per coordinate; 0 for one row."""
  squares = tf.reduce_sum(tf.square(honest - mean(honest)), axis=0)
  freedom = tf.cast(tf.maximum(tf.shape(honest)[0] - 1, 0), honest.dtype)
  return tf.sqrt(tf.math.divide_no_nan(squares, freedom))


def ipm(honest: tf.Tensor, eps: Any) -> tf.Tensor:
  """Returns -eps mu, inner product manipulation (Xie 2020)."""
  return -tf.cast(eps, honest.dtype) * mean(honest)


def sign_flip(honest: tf.Tensor) -> tf.Tensor:
  """Returns -mu."""
  return -mean(honest)


def alie_z(
    num_messages: Union[int, tf.Tensor], num_byzantine: Union[int, tf.Tensor]
) -> tf.Tensor:
  """Returns z of ALIE ("a little is enough", Baruch 2019), float64.

    s = floor(n / 2 + 1) - f,   z = Phi^{-1}((n - f - s) / (n - f))

  The fraction is kept half an honest client away from 0 and 1, where z would be
  infinite; with so many attackers this attack is not needed.

  Args:
    num_messages: n, all messages of the round; int scalar.
    num_byzantine: f, int scalar < n.
  """
  supporters = num_messages // 2 + 1 - num_byzantine
  honest = tf.cast(tf.maximum(num_messages - num_byzantine, 1), tf.float64)
  share = 1 - tf.cast(supporters, tf.float64) / honest
  margin = 0.5 / honest
  return tf.math.ndtri(tf.clip_by_value(share, margin, 1 - margin))


def alie(honest: tf.Tensor, z: Any) -> tf.Tensor:
  """Returns mu - z std."""
  return mean(honest) - tf.cast(z, honest.dtype) * std(honest)


def noise_scale(honest: tf.Tensor, scale: Any) -> tf.Tensor:
  """Returns `scale` times the RMS over coordinates of the honest std."""
  return tf.cast(scale, honest.dtype) * tf.sqrt(
      tf.reduce_mean(tf.square(std(honest)))
  )
