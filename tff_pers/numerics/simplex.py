"""Euclidean projection onto the probability simplex."""

import tensorflow as tf


def project(v: tf.Tensor) -> tf.Tensor:
  """Returns argmin_x ||x - v|| over the simplex {x >= 0, sum x = 1}.

  Sort v descending as u; rho = max{k : u_k > (sum_{l<=k} u_l - 1) / k};
  theta = (sum_{l<=rho} u_l - 1) / rho; x = max(v - theta, 0).

  Args:
    v: Floats of shape [..., N]; each row is projected.

  Returns:
    A tensor like `v` whose rows lie on the simplex.
  """
  u = tf.sort(v, axis=-1, direction='DESCENDING')
  k = tf.range(1, tf.shape(v)[-1] + 1)
  thetas = (tf.cumsum(u, axis=-1) - 1) / tf.cast(k, v.dtype)
  # u_k > theta_k holds for the first rho entries and no others, so counting
  # them gives the largest k.
  rho = tf.reduce_sum(tf.cast(u > thetas, tf.int32), axis=-1, keepdims=True)
  theta = tf.gather(
      thetas, rho - 1, axis=-1, batch_dims=v.shape.rank - 1
  )
  return tf.maximum(v - theta, 0)
