"""The adaptive attack: the worst message against a known rule.

The attackers know the rule, its f and the honest messages, and search the v
with the largest damage

    F(v) = || rule(honest, f copies of v) - mu ||

along four directions, on both sides of the mean for asymmetric rules, and among
further given messages (baselines 10.2).
"""

from typing import Any, NamedTuple, Protocol, Union

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.numerics import attacks

# 0, then geometric.
GRID = np.concatenate([[0.0], np.geomspace(1e-2, 1e3, 26)])
_REFINED = 13
_PERMUTATIONS = 4  # R.


class Rule(Protocol):
  """A robust rule, as known to the attackers.

  Attributes:
    f: The number of attackers that it assumes; -1: not given.
    is_random: Whether it makes random draws.
  """

  f: int
  is_random: bool

  def __call__(self, x, num_byzantine, key):
    """Returns float[d] from messages float[n, d]; key is int64[2]."""

  def is_possible(
      self, num_messages: Union[int, tf.Tensor], num_byzantine: tf.Tensor
  ) -> tf.Tensor:
    """Returns whether the rule has enough messages."""


class Mean:
  """The plain mean as a rule."""

  f = 0
  is_random = False

  def __call__(self, x, num_byzantine, key):
    del num_byzantine, key
    return attacks.mean(x)

  def is_possible(
      self, num_messages: Union[int, tf.Tensor], num_byzantine: tf.Tensor
  ) -> tf.Tensor:
    """Returns True."""
    del num_messages, num_byzantine
    return True


class Found(NamedTuple):
  """The worst message.

  Attributes:
    message: float[d].
    damage: F, a scalar.
    is_capped: bool, whether it is at the end of the grid: either the damage is
      unbounded, or, for clipping rules, it approaches its bound.
  """

  message: Any
  damage: Any
  is_capped: Any


def search(
    honest: tf.Tensor, num_attackers: tf.Tensor, rule: Rule,
    num_byzantine: tf.Tensor, key: tf.Tensor, others: tf.Tensor,
) -> Found:
  """Returns the found message of largest damage.

  The search uses a grid of 27 step sizes t along each direction, refined by 13
  points between the neighbours of the best one. Ties: the smallest t. For a
  random rule, F is the mean over 4 draws by the attackers.

  Args:
    honest: float[h, d], h >= 1.
    num_attackers: int32, number of copies of the message.
    rule: See `Rule`.
    num_byzantine: f, as passed to the rule.
    key: int64[2], not a key that the server draws from.
    others: float[k, d], k >= 1, further messages to try.
  """
  mu, along = attacks.mean(honest), directions(honest)

  def damage(message):
    copies = tf.tile(message[None], [num_attackers, 1])
    messages = tf.concat([honest, copies], axis=0)
    draws = range(_PERMUTATIONS if rule.is_random else 1)
    return tf.reduce_mean([
        tf.norm(rule(messages, num_byzantine, random.fold_in(key, draw)) - mu)
        for draw in draws
    ])

  def message_at(place):
    number, t = place
    return mu + t * tf.gather(along, number)

  def damages(numbers, steps):
    """Returns F at all points: int32[k] directions, float[k] steps."""
    return tf.map_fn(
        lambda place: damage(message_at(place)), (numbers, steps),
        fn_output_signature=honest.dtype,
    )

  count, points = along.shape[0], len(GRID)
  numbers = np.repeat(np.arange(count, dtype=np.int32), points)
  steps = tf.tile(tf.constant(GRID, honest.dtype), [count])
  found = damages(tf.constant(numbers), steps)
  fine_numbers = tf.repeat(tf.range(count), _REFINED)
  fine_steps = _refined(tf.reshape(found, [count, points]))
  fine = damages(fine_numbers, fine_steps)

  numbers = tf.concat([numbers, fine_numbers], axis=0)
  steps = tf.concat([steps, fine_steps], axis=0)
  found = tf.concat([found, fine], axis=0)
  of_others = tf.map_fn(damage, others)
  best = tf.maximum(tf.reduce_max(found), tf.reduce_max(of_others))
  # Rounding must not favour a large step with equal damage.
  enough = best * (1 - 8 * np.finfo(honest.dtype.as_numpy_dtype).eps)
  place = tf.argmin(tf.where(found >= enough, steps, np.inf))
  is_step = tf.reduce_any(found >= enough)
  message = tf.where(
      is_step, message_at((numbers[place], steps[place])),
      tf.gather(others, tf.argmax(of_others)),
  )
  is_capped = tf.logical_and(is_step, steps[place] >= GRID[-1])
  return Found(message, best, is_capped)


def directions(honest: tf.Tensor) -> tf.Tensor:
  """Returns -std, -mu, s1 z1 and -s1 z1, floats [4, d].

  z1 is the direction of the largest variance s1^2 of the honest messages.
  """
  top = _top_deviation(honest)
  return tf.stack([-attacks.std(honest), -attacks.mean(honest), top, -top])


def _top_deviation(honest):
  """Returns s1 z1 from the Gram matrix [h, h], without a [d, d] one."""
  centered = honest - attacks.mean(honest)
  _, vectors = tf.linalg.eigh(tf.matmul(centered, centered, transpose_b=True))
  # X^T u has the norm sqrt(lambda_1), and s1^2 = lambda_1 / (h - 1).
  freedom = tf.cast(tf.maximum(tf.shape(honest)[0] - 1, 1), honest.dtype)
  return tf.linalg.matvec(
      centered, vectors[:, -1], transpose_a=True
  ) / tf.sqrt(freedom)


def _refined(found):
  """Returns float[4 * 13], steps around the best one of every direction.

  Args:
    found: float[4, 27], F on the grid.
  """
  grid = tf.constant(GRID, found.dtype)
  best = tf.argmax(found, axis=1, output_type=tf.int32)
  low = tf.gather(grid, tf.maximum(best - 1, 0))
  high = tf.gather(grid, tf.minimum(best + 1, len(GRID) - 1))
  return tf.reshape(tf.linspace(low, high, _REFINED, axis=1), [-1])
