"""Rules that move a center towards the messages, with one norm per message.

Robust Aggregation for Federated Learning
    Pillutla, Kakade, Harchaoui. IEEE TSP 2022 (RFA, the smoothed Weiszfeld
    algorithm).
Learning from History for Byzantine Robust Optimization
    Karimireddy, He, Jaggi. ICML 2021 (centered clipping).
"""

from typing import Any, Optional

import tensorflow as tf

from tff_pers.numerics.robust import columns
from tff_pers.numerics.robust import lengths


def geometric_median(
    x: tf.Tensor, *, passes: int = 8, start: Any = None,
    smoothing: Optional[float] = None,
) -> tf.Tensor:
  """Approximates argmin_z sum_i ||z - x_i||, by passes of Weiszfeld.

    b_i = 1 / max(nu, ||z - x_i||);  z <- sum_i b_i x_i / sum_i b_i

  No pass increases the smoothed objective.

  Args:
    x: float[n, d], n >= 1.
    passes: T >= 0.
    start: The first z, float[d]; None: the coordinate-wise median.
    smoothing: nu > 0; None: 1e-6 (float32: 1e-4) of the median distance to z,
      so that scale does not matter. A fixed nu makes a mean of messages that
      are closer than that.

  Returns:
    float[d].
  """
  z = columns.median(x) if start is None else start
  share = 1e-6 if x.dtype == tf.float64 else 1e-4
  for _ in range(passes):
    distance = lengths.distances(x, z)
    nu = smoothing
    if nu is None:
      nu = share * median_of(distance)
    # 0 / 0 where more than half of the messages are z: z is the median then.
    nearest = tf.maximum(distance, tf.maximum(_as(nu, x), _tiny(x)))
    weights = 1 / nearest
    weights /= tf.reduce_sum(weights)
    z = tf.linalg.matvec(x, weights, transpose_a=True)
  return z


def centered_clipping(
    x: tf.Tensor, *, steps: int = 3, start: Any = None,
    radius: Optional[float] = None,
) -> tf.Tensor:
  """Moves v by the mean of what is left of the differences when clipped.

    v <- v + (1/n) sum_i (x_i - v) min(1, r / ||x_i - v||)

  Args:
    x: float[n, d], n >= 1.
    steps: l >= 0.
    start: The first v, float[d]; None: the coordinate-wise median.
    radius: r > 0; None: the median distance to v, anew in every step.

  Returns:
    float[d].
  """
  v = columns.median(x) if start is None else start
  for _ in range(steps):
    distance = lengths.distances(x, v)
    r = median_of(distance) if radius is None else _as(radius, x)
    # 1 at distance 0. With r = 0 more than half of the messages are v, and v
    # stays where it is.
    factors = tf.minimum(
        tf.ones_like(distance), r / tf.maximum(distance, _tiny(x))
    )
    factors = tf.where(r > 0, factors, tf.zeros_like(factors))
    total = tf.linalg.matvec(x, factors, transpose_a=True)
    n = tf.cast(tf.shape(x)[0], x.dtype)
    v += (total - tf.reduce_sum(factors) * v) / n
  return v


def median_of(numbers: tf.Tensor) -> tf.Tensor:
  """Returns the median of float[n], a scalar."""
  # So few numbers need no network, which would be in the graph of every pass.
  n = tf.shape(numbers)[0]
  ordered = tf.sort(numbers)
  return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _as(number, x):
  if tf.is_tensor(number):
    return tf.cast(number, x.dtype)
  return tf.constant(number, x.dtype)


def _tiny(x):
  """Returns the smallest distance that is told from 0."""
  return tf.constant(1e-30, x.dtype)
