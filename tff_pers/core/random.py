"""Stateless random keys: a run depends on nothing but its flags.

A key is an int64[2] tensor for `tf.random.stateless_*`. Folding integers into
it gives independent keys, so that what is drawn for (round, client, use) does
not depend on the order of execution, on the cohort, or on an interruption.
"""

from typing import Any

import tensorflow as tf


def key(seed: Any, *data: Any) -> tf.Tensor:
  """Returns the key of `data` (e.g. round, client, use) under `seed`.

  Args:
    seed: An integer scalar, the run's seed.
    *data: Integer scalars, folded in one after another.

  Returns:
    An int64 tensor of shape [2].
  """
  folded = tf.stack([tf.cast(seed, tf.int64), tf.constant(0, tf.int64)])
  return fold_in(folded, *data)


def seed(base: Any, *data: Any) -> tf.Tensor:
  """Returns an int64 scalar, the seed of `data` under the seed `base`."""
  return tf.random.stateless_uniform(
      [], key(base, *data), minval=None, maxval=None, dtype=tf.int64
  )


def fold_in(base: Any, *data: Any) -> tf.Tensor:
  """Returns the key of `data` under the key `base`, int64 of shape [2]."""
  # Folding, not adding: seed 1 in round 0 must differ from seed 0 in round 1.
  for value in data:
    base = tf.random.experimental.stateless_fold_in(
        base, tf.cast(value, tf.int64)
    )
  return base
