"""Batches of examples as tables, for clients that are vectorized."""

from typing import Optional

import tensorflow as tf

from tff_pers.data import client_data


def batch_table(
    num_examples: tf.Tensor, capacity: int, *, seed: tf.Tensor,
    batch_size: Optional[int], num_steps: Optional[int] = None,
    num_epochs: Optional[int] = None, shuffle: bool = True,
) -> tf.Tensor:
  """Returns `batch_rows` as a table whose shape depends only on `capacity`.

  Stacked clients can then be vectorized: all of them iterate over the same
  number of batches, and batches that a client does not have are filler.

  Returns:
    `rows` int32[T, batch_size], `mask` bool[T, batch_size], and the number of
    steps that count, int32: both are those of `batch_rows` up to that step, and
    after it the mask is False everywhere. T is the number of steps of a client
    with `capacity` examples.
  """
  num_examples = tf.convert_to_tensor(num_examples, tf.int32)
  per_epoch = tf.maximum(
      client_data.batches_per_epoch(num_examples, batch_size), 1
  )
  if num_steps is None:
    taken = num_epochs * per_epoch
    size = num_epochs * client_data.batches_per_epoch(capacity, batch_size)
    assert num_epochs is not None  # One of the two is given.
    epochs = most_epochs = num_epochs
  else:
    # Without any row, even of padding, there is no step.
    size = num_steps * tf.cast(capacity > 0, tf.int32)
    taken = num_steps
    # A client whose examples fit into one batch has one epoch per step.
    epochs, most_epochs = -(-num_steps // per_epoch), num_steps
  taken = tf.where(num_examples > 0, taken, 0)
  if shuffle:
    # The same draws as in `batch_rows`: it has a column per epoch, and an entry
    # of a draw does not depend on the number of entries.
    drawn = tf.random.stateless_uniform([capacity * most_epochs], seed)
    position = tf.range(capacity)[:, None] * epochs + tf.range(most_epochs)
    order_keys = tf.gather(drawn, position)
  else:
    order_keys = tf.zeros([capacity, most_epochs])
  order = client_data.orders(order_keys, num_examples, capacity)
  step = tf.range(size)
  position = (step % per_epoch)[:, None] * batch_size + tf.range(batch_size)
  cell = client_data.filler(position, num_examples) * most_epochs
  # After the last step, any column will do.
  cell += tf.minimum(step // per_epoch, most_epochs - 1)[:, None]
  rows = tf.gather(tf.reshape(order, [-1]), cell)
  mask = (position < num_examples) & (step < taken)[:, None]
  return rows, mask, taken
