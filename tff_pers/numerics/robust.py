"""Robust rules as functions of the stacked messages, float[n, d].

Preparations of messages before a rule combines them are here as well.

Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent
    Blanchard, El Mhamdi, Guerraoui, Stainer. NeurIPS 2017 (Krum).
Learning from History for Byzantine Robust Optimization
    Karimireddy, He, Jaggi. ICML 2021 (centered clipping).
Robust Aggregation for Federated Learning
    Pillutla, Kakade, Harchaoui. IEEE TSP 2022 (RFA, the smoothed Weiszfeld
    algorithm).
Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing
    Karimireddy, He, Jaggi. ICLR 2022.
Fixing by Mixing: A Recipe for Optimal Byzantine ML under Heterogeneity
    Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan. AISTATS 2023
    (nearest-neighbour mixing).
Towards Trustworthy Federated Learning with Untrusted Participants
    Allouah, Guerraoui, Stephan. ICML 2025 (the covariance filter, CAF).
"""

from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tff_pers.numerics import distances
from tff_pers.numerics import sorting

# Largest square, relative to the largest number, so that sums and differences
# of messages, and their squares, do not overflow.
_SHARE = 1e-6


def mean(x: tf.Tensor) -> tf.Tensor:
  """Returns the mean row, float[d].

  Args:
    x: float[n, d], n >= 1.
  """
  return tf.reduce_mean(x, axis=0)


def median(x: tf.Tensor) -> tf.Tensor:
  """Returns the median of every column, float[d].

  For even n it is the mean of the two middle values.

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
    num_trimmed: b, an integer with n > 2 b: as many largest and smallest
      numbers are left out.
  """
  n = _number(x)
  return sorting.reduce_sorted(
      x, lambda rows: mean(rows(num_trimmed, n - num_trimmed))
  )


def geometric_median(
    x: tf.Tensor, *, passes: int = 8, start: Any = None,
    smoothing: Optional[float] = None,
) -> tf.Tensor:
  """Approximates argmin_z sum_i ||z - x_i||, by passes of Weiszfeld.

    b_i = 1 / max(nu, ||z - x_i||);  z <- sum_i b_i x_i / sum_i b_i

  No pass increases the smoothed objective. Weiszfeld's passes stay at a message
  once they are at one. By default such a z moves as in "The multivariate
  L1-median and associated data depth" (Vardi and Zhang, PNAS 2000), towards the
  mean z' of the other messages, with the same weights, unless the messages at z
  hold it:

    z <- z' + min(1, #{i: x_i = z} / ||sum_{x_i != z} b_i (x_i - z)||) (z - z')

  Args:
    x: float[n, d], n >= 1.
    passes: T >= 0.
    start: The first z, float[d]; None: the coordinate-wise median.
    smoothing: nu > 0, RFA's; None: messages closer to z than 1e-6 (float32:
      1e-4) of the median distance are at z, so that scale does not matter. A
      fixed nu gives the mean of messages that are closer than nu.

  Returns:
    float[d].
  """
  z = median(x) if start is None else start
  share = 1e-6 if x.dtype == tf.float64 else 1e-4
  for _ in range(passes):
    distance = _distances(x, z)
    if smoothing is not None:
      weights = 1 / tf.maximum(
          distance, tf.maximum(_as(smoothing, x), _tiny(x))
      )
      weights /= tf.reduce_sum(weights)
      z = tf.linalg.matvec(x, weights, transpose_a=True)
      continue
    is_at_z = distance <= tf.maximum(share * _median_of(distance), _tiny(x))
    weights = tf.where(is_at_z, tf.zeros_like(distance), 1 / distance)
    total = tf.reduce_sum(weights)
    others = tf.linalg.matvec(
        x, tf.math.divide_no_nan(weights, total), transpose_a=True
    )
    pull = total * _distances(others[None], z)[0]
    held = tf.reduce_sum(tf.cast(is_at_z, x.dtype))
    stays = held / tf.maximum(held, pull)
    z = others + tf.where(held > 0, stays * (z - others), tf.zeros_like(z))
  return z


def centered_clipping(
    x: tf.Tensor, *, steps: int = 3, start: Any = None,
    radius: Optional[float] = None,
) -> tf.Tensor:
  """Moves v by the mean of the clipped differences.

    v <- v + (1/n) sum_i (x_i - v) min(1, r / ||x_i - v||)

  Args:
    x: float[n, d], n >= 1.
    steps: l >= 0.
    start: The first v, float[d]; None: the coordinate-wise median.
    radius: r > 0; None: the median distance to v, recomputed in every step.

  Returns:
    float[d].
  """
  v = median(x) if start is None else start
  for _ in range(steps):
    distance = _distances(x, v)
    r = _median_of(distance) if radius is None else _as(radius, x)
    # 1 at distance 0. With r = 0 more than half of the messages equal v, and v
    # does not move.
    factors = tf.minimum(
        tf.ones_like(distance), r / tf.maximum(distance, _tiny(x))
    )
    factors = tf.where(r > 0, factors, tf.zeros_like(factors))
    total = tf.linalg.matvec(x, factors, transpose_a=True)
    n = tf.cast(tf.shape(x)[0], x.dtype)
    v += (total - tf.reduce_sum(factors) * v) / n
  return v


def squared_distances(x: tf.Tensor) -> tf.Tensor:
  """Returns ||x_i - x_j||^2, float[n, n], through one matrix product."""
  # Centered at a point that few messages cannot move: if it were the mean, or a
  # message chosen by its distance from the mean, one far message would drown
  # the distances of all others in its rounding error.
  return distances.gram_distances(x - median(x))


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

  Of equal scores, the smaller index is taken.

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
    num_best: m in 1..n, number of averaged rows.
  """
  order = tf.argsort(krum_scores(x, num_byzantine), stable=True)
  return tf.reduce_mean(tf.gather(x, order[:num_best]), axis=0)


def filtered_mean(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns a mean with less weight on messages far along one direction (CAF).

    c_i <- 1;  while sum_i c_i > n - 2 f:
      mu, Sigma <- mean and covariance of the x_i with weights c_i / sum_j c_j
      tau_i <- <x_i - mu, v>^2,  v the first eigenvector of Sigma
      c_i <- c_i (1 - tau_i / max tau), the maximum over those with c_j > 0
    the mu whose Sigma has the smallest first eigenvalue

  Args:
    x: float[n, d], n >= 1.
    num_byzantine: f < n / 2, an integer.

  Returns:
    float[d].
  """
  centered = x - median(x)  # See `squared_distances`.
  # Sigma's eigenvectors are combinations of messages: products suffice.
  products = tf.matmul(centered, centered, transpose_b=True)
  n = tf.shape(x)[0]
  rest = tf.cast(n - 2 * num_byzantine, x.dtype)
  ones = tf.ones([n], x.dtype)
  rounding = 1e3 * np.finfo(x.dtype.as_numpy_dtype).eps

  def step(c, best, smallest, _):
    w = c / tf.reduce_sum(c)
    to_mean = tf.linalg.matvec(products, w)
    # <x_i - mu, x_j - mu>
    around_mean = (
        products - to_mean[:, None] - to_mean + tf.reduce_sum(w * to_mean)
    )
    roots = tf.sqrt(w)
    values, vectors = tf.linalg.eigh(roots[:, None] * around_mean * roots)
    first = tf.maximum(values[-1], 0)
    along = tf.math.divide_no_nan(  # <x_i - mu, v>
        tf.linalg.matvec(around_mean, roots * vectors[:, -1]), tf.sqrt(first)
    )
    tau = tf.where(c > 0, along**2, tf.zeros_like(c))
    largest = tf.reduce_max(tau)
    left = 1 - tf.math.divide_no_nan(tau, largest)
    # Copies of one message must lose their weights together. By rounding, one
    # of them would keep 1e-16, count as > 0, and cause another pass.
    left = tf.where(left < rounding, tf.zeros_like(left), left)
    return (
        c * left,
        tf.where(first < smallest, w, best), tf.minimum(first, smallest),
        largest,
    )

  _, best, _, _ = tf.while_loop(
      lambda c, best, smallest, largest: (
          (tf.reduce_sum(c) > rest) & (largest > 0)
      ),
      step, (ones, ones / tf.reduce_sum(ones), x.dtype.max, x.dtype.max),
  )
  return tf.linalg.matvec(x, best, transpose_a=True)


def bucketing(x: tf.Tensor, size: int, key: tf.Tensor) -> tf.Tensor:
  """Returns the means of random buckets, float[ceil(n / size), d].

  Args:
    x: float[n, d], n >= 1.
    size: s >= 1, messages per bucket; the last one may hold fewer.
    key: int64[2], key of the permutation.
  """
  n = tf.shape(x)[0]
  order = tf.argsort(tf.random.stateless_uniform([n], key, dtype=tf.float64))
  return tf.math.segment_mean(tf.gather(x, order), tf.range(n) // size)


def nearest_neighbour_mixing(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns the means of the n - f nearest messages of each, float[n, d].

  A message is one of its own nearest; of equal distances, smaller indices count
  as nearer.

  Args:
    x: float[n, d].
    num_byzantine: f < n, an integer.
  """
  n = tf.shape(x)[0]
  squared = squared_distances(x)
  count = n - num_byzantine
  nearest = tf.argsort(squared, axis=1, stable=True)[:, :count]
  # A product with the selection matrix avoids a tensor [n, n - f, d].
  chosen = tf.reduce_sum(tf.one_hot(nearest, n, dtype=x.dtype), axis=1)
  return tf.matmul(chosen, x) / tf.cast(count, x.dtype)


def clip_norms(x: tf.Tensor, bound: Any) -> tf.Tensor:
  """Returns x_i min(1, c / ||x_i||), float[n, d]; 0 stays 0.

  Args:
    x: float[n, d].
    bound: c >= 0, a scalar.
  """
  norms = _distances(x, 0)
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
  return _median_of(_distances(x, 0))


def adaptive_norm(x: tf.Tensor, num_byzantine: Any) -> tf.Tensor:
  """Returns the bound of adaptive robust clipping (ARC).

  With k = floor(2 (f / n) (n - f)), it is the (n - k)-th smallest norm.

  Args:
    x: float[n, d].
    num_byzantine: f < n / 2, an integer.
  """
  n = tf.shape(x)[0]
  k = 2 * num_byzantine * (n - num_byzantine) // n
  return tf.sort(_distances(x, 0))[n - k - 1]


def are_finite(x: tf.Tensor) -> tf.Tensor:
  """Returns whether rules can calculate with each row, bool[n].

  That is, rows without NaN and infinity whose norm is below 1.8e16 in float32,
  below 1.3e151 in float64. A larger finite message could turn the mean of a
  bucket, or a distance, into NaN.

  Args:
    x: float[n, d].
  """
  return _squared_norms(x) < tf.constant(_SHARE * x.dtype.max, x.dtype)


def _squared_norms(x: tf.Tensor) -> tf.Tensor:
  """Returns ||x_i||^2 for x, float[n, d], as float[n]; inf on overflow."""
  # A product of each row with itself avoids a matrix of squares.
  return tf.matmul(x[:, None, :], x[:, :, None])[:, 0, 0]


def _distances(x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
  """Returns ||x_i - z||, float[n], for x, float[n, d], and z, float[d]."""
  # Takes half the time of `_squared_norms` of the differences, which are a new
  # matrix here in any case.
  return tf.sqrt(tf.reduce_sum(tf.math.squared_difference(x, z), axis=1))


def _median_of(numbers: tf.Tensor) -> tf.Tensor:
  """Returns the median of float[n], a scalar."""
  # So few numbers need no network, which would enlarge the graph per pass.
  n = tf.shape(numbers)[0]
  ordered = tf.sort(numbers)
  return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _as(number, x):
  if tf.is_tensor(number):
    return tf.cast(number, x.dtype)
  return tf.constant(number, x.dtype)


def _tiny(x):
  """Returns the smallest distance that is distinguished from 0."""
  return tf.constant(1e-30, x.dtype)


def _number(x):
  """Returns n, an int if it is known."""
  return x.shape[0] or tf.shape(x)[0]
