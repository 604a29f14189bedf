"""The mixing problem of PERM: how much each client learns from each other.

Row i of the mixing weights solves, for distances c = (d_i1, ..., d_iN),

  min over the simplex of  sum_j alpha(j) c_j + lambda sum_j alpha(j)^2 / n_j.
                                                                        (Eq. 2)

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023.
"""

from typing import Any, Optional

import tensorflow as tf

from tff_pers.numerics import simplex

# Keeps lambda > 0 if the estimated variance is 0, e.g. for a model that fits
# all examples.
_TINY = 1e-30


def water_filling(
    distances: tf.Tensor, sizes: tf.Tensor, lambda_: tf.Tensor
) -> tf.Tensor:
  """Solves (2) exactly: alpha(j) = n_j max(0, nu - c_j) / (2 lambda).

  nu is the water level at which alpha sums to 1. With c sorted ascending,
  S_m and Q_m the sums of n and n c over the m nearest, nu = (2 lambda + Q_m) /
  S_m for the largest m with nu_m > c_(m). Cost O(N log N) per row.

  Limits: lambda -> infinity gives n_j / n; lambda -> 0 gives all mass to the
  nearest; a client at distance >= nu (or infinity) gets exactly 0.

  Args:
    distances: c >= 0, floats [..., N]; +infinity excludes a client.
    sizes: n > 0, floats [N].
    lambda_: >= 0, in squared gradient norm times examples; scalar or [..., 1].

  Returns:
    alpha, float64 [..., N], rows on the simplex.
  """
  c = _float64(distances)
  n = tf.broadcast_to(_float64(sizes), tf.shape(c))
  two_lambda = 2 * tf.maximum(_float64(lambda_), _TINY)
  order = tf.argsort(c, axis=-1, stable=True)
  c_sorted = tf.gather(c, order, axis=-1, batch_dims=c.shape.rank - 1)
  n_sorted = tf.gather(n, order, axis=-1, batch_dims=c.shape.rank - 1)
  finite = tf.math.is_finite(c_sorted)
  s = tf.cumsum(n_sorted, axis=-1)  # S_m
  # Excluded clients (infinite distance) add nothing, so that nu stays finite.
  q = tf.cumsum(  # Q_m
      tf.where(finite, n_sorted * tf.where(finite, c_sorted, 0), 0), axis=-1
  )
  nu = (two_lambda + q) / s
  # nu_(m+1) is a weighted mean of nu_m and c_(m+1). So once nu_m <= c_(m), this
  # holds for all larger m: the active clients come first, and their number is
  # the largest m.
  active = tf.logical_and(nu > c_sorted, finite)
  num_active = tf.reduce_sum(tf.cast(active, tf.int32), axis=-1, keepdims=True)
  level = tf.gather(nu, num_active - 1, axis=-1, batch_dims=c.shape.rank - 1)
  alpha = n * tf.maximum(level - c, 0) / two_lambda
  # Dividing by the sum corrects rounding errors, which are large for small
  # lambda, because `level - c` cancels there.
  return alpha / tf.reduce_sum(alpha, axis=-1, keepdims=True)


def projected_gradient(
    distances: tf.Tensor, sizes: tf.Tensor, lambda_: tf.Tensor,
    initial: tf.Tensor, num_steps: int,
) -> tf.Tensor:
  """Takes `num_steps` projected-gradient steps on (2) from `initial`.

  alpha <- Proj( alpha - s (c + 2 lambda alpha / n) ), s = n_min / (2 lambda).
  Contracts by 1 - n_min / n_max per step: exact in one step for equal n.

  Args:
    distances: c, floats [..., N]; +infinity excludes a client.
    sizes: n > 0, floats [N].
    lambda_: Scalar > 0.
    initial: Start, floats [..., N], rows on the simplex.
    num_steps: T_alpha, >= 0.

  Returns:
    alpha, float64 [..., N].
  """
  c = _float64(distances)
  n = _float64(sizes)
  two_lambda = 2 * tf.maximum(_float64(lambda_), _TINY)
  # 1 over the largest curvature of (2), which is 2 lambda / n_min.
  step = tf.reduce_min(n) / two_lambda
  alpha = _float64(initial)
  for _ in range(num_steps):
    alpha = simplex.project(alpha - step * (c + two_lambda * alpha / n))
  return alpha


def auto_lambda(
    variances: tf.Tensor, has_variance: tf.Tensor, scale: float
) -> tf.Tensor:
  """Returns lambda = scale * mean_i v_i, a float64 scalar.

  With identical distributions E d_ij is about 2 v / n: all clients stay active
  iff lambda > v, and the noise-induced self weight is about 1 / scale.

  Args:
    variances: Per-sample gradient variance traces v_i, floats [N].
    has_variance: bool[N]; False entries are left out.
    scale: kappa_n > 0.
  """
  known = tf.cast(has_variance, tf.float64)
  total = tf.reduce_sum(tf.where(has_variance, _float64(variances), 0))
  return scale * total / tf.maximum(tf.reduce_sum(known), 1)


def entropy(alpha: tf.Tensor, num_clients: Optional[int] = None) -> tf.Tensor:
  """Returns the mean row entropy over ln N, in [0, 1].

  Args:
    alpha: Rows on the simplex, [M, K], K <= N.
    num_clients: N; None: M, a row for each client.
  """
  a = _float64(alpha)
  # Without a sign, also of the 0 of a single weight.
  rows = tf.abs(tf.reduce_sum(tf.math.xlogy(a, tf.maximum(a, _TINY)), axis=-1))
  # For a single client ln N would be 0, and the quotient 0 / 0.
  num_clients = tf.cast(num_clients or tf.shape(a)[0], tf.float64)
  return tf.reduce_mean(rows) / tf.math.log(tf.maximum(num_clients, 2.0))


def sparse_rows(alpha: tf.Tensor, owners: tf.Tensor, num_nonzeros: int) -> Any:
  """Keeps the `num_nonzeros` largest entries of each row, renormalized.

  The own entry is always kept, unless it is 0.

  Args:
    alpha: Rows on the simplex, [M, N].
    owners: int32[M], the column that is each row's own.
    num_nonzeros: k, 1 <= k <= N.

  Returns:
    `(columns int32[M, k], values float64[M, k])`.
  """
  own = tf.one_hot(owners, tf.shape(alpha)[1], dtype=alpha.dtype)
  # Entries are at most 1: with 1 added, the own entry is among the largest. An
  # own entry of 0 would leave nothing to divide by if it alone were kept.
  own = tf.where(alpha > 0, own, tf.zeros_like(own))
  _, columns = tf.math.top_k(alpha + own, num_nonzeros)
  values = tf.gather(alpha, columns, axis=1, batch_dims=1)
  return columns, values / tf.reduce_sum(values, axis=-1, keepdims=True)


def _float64(value):
  # `tf.cast(0.1, tf.float64)` would first make a float32 of the Python number.
  value = tf.convert_to_tensor(value, dtype_hint=tf.float64)
  return tf.cast(value, tf.float64)
