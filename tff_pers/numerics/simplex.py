"""Euclidean projections onto the probability simplex, and onto a hull."""

import tensorflow as tf

_NUM_STEPS = 300  # Of `nearest_combination`.


def project(v: tf.Tensor) -> tf.Tensor:
  """Returns argmin_x ||x - v|| over the simplex {x >= 0, sum x = 1}.

  Sort v descending as u; rho = max{k : u_k > (sum_{l<=k} u_l - 1) / k};
  theta = (sum_{l<=rho} u_l - 1) / rho; x = max(v - theta, 0).

  Args:
    v: Floats of shape [..., N]; each row is projected.

  Returns:
    A tensor like `v` whose rows lie on the simplex.
  """
  # Changes no projection; otherwise rounding of large numbers would swamp the
  # constraint that the sum is 1.
  v -= tf.reduce_max(v, axis=-1, keepdims=True)
  u = tf.sort(v, axis=-1, direction='DESCENDING')
  k = tf.range(1, tf.shape(v)[-1] + 1)
  thetas = (tf.cumsum(u, axis=-1) - 1) / tf.cast(k, v.dtype)
  # u_k > theta_k holds for exactly the first rho entries, so counting them
  # gives the largest k.
  rho = tf.reduce_sum(tf.cast(u > thetas, tf.int32), axis=-1, keepdims=True)
  theta = tf.gather(
      thetas, rho - 1, axis=-1, batch_dims=v.shape.rank - 1
  )
  return tf.maximum(v - theta, 0)


def nearest_combination(
    points: tf.Tensor, target: tf.Tensor, start: tf.Tensor
) -> tf.Tensor:
  """Returns argmin_beta ||sum_j beta_j points_j - target||^2 over the simplex.

  By Nesterov's projected gradient.

  Args:
    points: float64[K, N].
    target: float64[N].
    start: float64[K], on the simplex.
  """
  gram = tf.matmul(points, points, transpose_b=True)
  wanted = tf.linalg.matvec(points, target)
  # The largest row sum bounds the curvature of this quadratic.
  step = 1 / tf.maximum(tf.reduce_max(tf.reduce_sum(gram, axis=1)), 1e-12)

  def descend(k, beta, ahead):
    new = project(ahead - step * (tf.linalg.matvec(gram, ahead) - wanted))
    momentum = tf.cast(k / (k + 3), tf.float64)
    return k + 1, new, new + momentum * (new - beta)

  _, beta, _ = tf.while_loop(
      lambda k, *_: k < _NUM_STEPS, descend, (0, start, start)
  )
  return beta
