"""Which examples make which batch, for clients that are worked on together."""

from typing import Optional

import tensorflow as tf

from tff_pers.data import client_data


def batch_table(
    num_examples: tf.Tensor, capacity: int, *, seed: tf.Tensor,
    batch_size: Optional[int], num_steps: Optional[int] = None,
    num_epochs: Optional[int] = None, shuffle: bool = True,
) -> tf.Tensor:
  """Returns `batch_rows` as a table whose shape depends on `capacity` alone.

  Clients that are stacked can then be worked on together: all of them go over
  the same number of batches, and those that a client does not have are filler.

  Args:
    num_examples: int32, number of rows that count.
    capacity: int32, number of rows including padding.
    seed: int64[2] key.
    batch_size: Rows per batch.
    num_steps: See `fold_batches`.
    num_epochs: See `fold_batches`.
    shuffle: See `fold_batches`.

  Returns:
    `rows` int32[T, batch_size], `mask` bool[T, batch_size], and the number of
    steps that count, int32: up to there both are those of `batch_rows`, and
    from there on no row of the mask is True. T is the number of steps of a
    client with `capacity` examples.
  """
  num_examples = tf.convert_to_tensor(num_examples, tf.int32)
  per_epoch = tf.maximum(
      client_data.batches_per_epoch(num_examples, batch_size), 1
  )
  if num_steps is None:
    taken = num_epochs * per_epoch
    size = num_epochs * client_data.batches_per_epoch(capacity, batch_size)
    assert num_epochs is not None  # One of both is given.
    epochs = most_epochs = num_epochs
  else:
    # Nobody takes a step where there is no row at all, not even of filler.
    size = num_steps * tf.cast(capacity > 0, tf.int32)
    taken = num_steps
    # A client whose examples fit into one batch passes over them in each step.
    epochs, most_epochs = -(-num_steps // per_epoch), num_steps
  taken = tf.where(num_examples > 0, taken, 0)
  if shuffle:
    # The draws of `batch_rows`: it has as many columns as there are epochs, and
    # an entry of a draw does not depend on how many there are.
    drawn = tf.random.stateless_uniform([capacity * most_epochs], seed)
    position = tf.range(capacity)[:, None] * epochs + tf.range(most_epochs)
    order_keys = tf.gather(drawn, position)
  else:
    order_keys = tf.zeros([capacity, most_epochs])
  order = client_data.orders(order_keys, num_examples, capacity)
  step = tf.range(size)
  position = (step % per_epoch)[:, None] * batch_size + tf.range(batch_size)
  cell = client_data.filler(position, num_examples) * most_epochs
  # Beyond the last step any column will do.
  cell += tf.minimum(step // per_epoch, most_epochs - 1)[:, None]
  rows = tf.gather(tf.reshape(order, [-1]), cell)
  mask = (position < num_examples) & (step < taken)[:, None]
  return rows, mask, taken
