"""Examples that a client temporarily holds out of its own training."""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.core import structures


def count(size: tf.Tensor, share: float) -> tf.Tensor:
  """Returns how many of `size` examples are held out, int32."""
  return tf.cast(tf.round(share * tf.cast(size, tf.float32)), tf.int32)


def split(
    data: Mapping[str, Any], share: float, key: tf.Tensor
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
  """Returns (training examples, held-out examples), split at random.

  Args:
    data: Dense client data.
    share: Share of examples to hold out.
    key: int64[2].
  """
  size, capacity = data['num_examples'], structures.num_rows(data['examples'])
  held = count(size, share)
  draws = tf.random.stateless_uniform([capacity], key)
  # Padding comes last and stays there.
  order = tf.argsort(tf.where(tf.range(capacity) < size, draws, 2.0))
  start = tf.concat([order[held:], order[:held]], axis=0)
  take = lambda rows, number: collections.OrderedDict(
      data, num_examples=number,
      examples=structures.take(data['examples'], rows),
  )
  return take(start, size - held), take(order, held)
