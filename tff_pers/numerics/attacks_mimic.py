"""The mimic attack: all attackers copy one honest client.

It is invisible to outlier tests, and harmful if clients differ, because one of
them counts several times (Karimireddy, He, Jaggi 2022).
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tff_pers.numerics import attacks


class Direction(NamedTuple):
  """What the attackers know about the direction of largest variance.

  Attributes:
    mean: m, float[d], the mean of the honest messages so far.
    direction: z, float[d], of norm 1; zeros before the first round.
    round: int32, t, number of rounds with an honest message so far.
    target: int32, i*, the index of the client to copy; -1 initially.
  """

  mean: Any
  direction: Any
  round: Any
  target: Any


def start(dim: int, dtype: tf.DType) -> Direction:
  """Returns the knowledge before the first round, for float[dim] messages."""
  zeros = tf.zeros([dim], dtype)
  return Direction(zeros, zeros, tf.constant(0), tf.constant(-1))


def update(
    known: Direction, honest: tf.Tensor, indices: tf.Tensor, key: tf.Tensor,
    warmup: int,
) -> Direction:
  """Returns the knowledge after a round: one step of a power iteration.

    t = 0  : m <- mu, z <- normal;  q = sum_h <x_h - m, z> (x_h - m);
             z <- q / ||q||
    t < T_w: m <- (t m + mu) / (1 + t);  q likewise;
             z <- t / (1 + t) z + q / ((1 + t) ||q||);  z <- z / ||z||
             i* <- argmax_h <x_h, z>

  From T_w on, and in a round without honest messages, nothing changes
  (baselines 10.1).

  Args:
    known: Knowledge after the previous rounds.
    honest: float[h, d].
    indices: int32[h], clients of these messages.
    key: int64[2], key of the first z.
    warmup: T_w >= 1.
  """

  def learn():
    t = tf.cast(known.round, honest.dtype)
    is_first = tf.equal(known.round, 0)
    mean = (t * known.mean + attacks.mean(honest)) / (1 + t)
    drawn = tf.random.stateless_normal(
        tf.shape(known.direction), key, dtype=honest.dtype
    )
    z = tf.where(is_first, drawn, known.direction)
    centered = honest - mean
    q = tf.linalg.matvec(
        centered, tf.linalg.matvec(centered, z), transpose_a=True
    )
    # In the first round t / (1 + t) is 0, so that z is q / ||q||.
    z = _unit(t / (1 + t) * z + _unit(q) / (1 + t))
    nearest = tf.argmax(tf.linalg.matvec(honest, z), output_type=tf.int32)
    return Direction(mean, z, known.round + 1, tf.gather(indices, nearest))

  learns = tf.logical_and(tf.size(indices) > 0, known.round < warmup)
  return Direction(*tf.cond(learns, learn, lambda: known))


def follow(
    known: Direction, honest: tf.Tensor, indices: tf.Tensor
) -> tf.Tensor:
  """Returns the message of i*, or else the farthest one along z."""
  projections = tf.linalg.matvec(honest, known.direction)
  return copy_first(honest, tf.equal(indices, known.target), projections)


def follow_first(honest: tf.Tensor, indices: tf.Tensor) -> tf.Tensor:
  """Returns the message of the client of the smallest index."""
  nobody = tf.zeros_like(indices, tf.bool)
  return copy_first(honest, nobody, -tf.cast(indices, tf.float64))


def copy_first(
    honest: tf.Tensor, is_target: tf.Tensor, preference: tf.Tensor
) -> tf.Tensor:
  """Returns an exact copy of the target's row, or else the most preferred.

  Args:
    honest: float[h, d]; without rows the result is zeros.
    is_target: bool[h], at most one is true.
    preference: float[h].
  """
  def copy():
    place = tf.where(
        tf.reduce_any(is_target),
        tf.argmax(tf.cast(is_target, tf.int32)), tf.argmax(preference),
    )
    return tf.gather(honest, place)

  return tf.cond(
      tf.size(is_target) > 0, copy, lambda: tf.zeros_like(attacks.mean(honest))
  )


def _unit(vector):
  """Returns the vector with norm 1; zeros stay zeros."""
  return tf.math.divide_no_nan(vector, tf.norm(vector))
