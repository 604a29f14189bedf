"""The local gradient at one point, and its noise."""

from typing import Any, Mapping, NamedTuple

import tensorflow as tf

from tff_pers.core import structures
from tff_pers.data import client_data
from tff_pers.models import functional

# Rows per pass: bounds memory, does not change the full gradient.
_CHUNK = 256


class LocalGradient(NamedTuple):
  """A client's gradient of its mean loss.

  Attributes:
    gradient: Structure like the weights.
    loss: Scalar, the mean loss over the rows used.
    num_rows: int32, rows used: min(M, n_i).
    variance: Estimate of the per-sample gradient variance trace v_i, from the
      difference of two random halves: ||g_A - g_B||^2 / (1/n_A + 1/n_B); 0 if
      there is only one row.
  """

  gradient: Any
  loss: Any
  num_rows: Any
  variance: Any


def compute(
    model: functional.FunctionalModel, weights: Any, data: Mapping[str, Any], *,
    seed: tf.Tensor, num_rows: int = 0,
) -> LocalGradient:
  """Returns the gradient of f_i at `weights`, without dropout.

  Args:
    model: The model.
    weights: The point, the same for all clients of a round.
    data: Dense client data.
    seed: int64[2], draws the rows and the halves.
    num_rows: M random rows; 0 takes all.
  """
  capacity = structures.num_rows(data['examples'])
  size = num_rows or tf.minimum(tf.maximum(capacity, 1), _CHUNK)
  zeros = tf.nest.map_structure(tf.zeros_like, weights)
  dtype = tf.nest.flatten(weights)[0].dtype
  none = tf.zeros([], dtype)
  nothing = (zeros, none, none, none)

  def add(half, batch):
    """Adds the sums over a batch to one half's (gradient, loss, count, rows).

    The count is the number of rows, or of tokens if the loss averages over
    those.
    """
    count = model.batch_weight(batch, dtype)
    # This is the mean loss plus the penalty. Multiplied by the batch's rows and
    # finally divided by all rows, the penalty counts once.
    loss, gradient = model.loss_and_gradient(weights, batch, training=False)
    total, total_loss, total_count, rows = half
    total = tf.nest.map_structure(lambda t, g: t + count * g, total, gradient)
    return (
        total, total_loss + count * loss, total_count + count,
        rows + tf.reduce_sum(tf.cast(batch.mask, dtype)),
    )

  def step(halves, batch):
    # The rows of a batch are in random order, so every second one is a random
    # half. Of a single row, the other half is that row, masked: TensorFlow's
    # convolutions have no gradient of an empty batch.
    first, second = halves
    number = tf.shape(batch.mask)[0]
    start = tf.clip_by_value(number - 1, 0, 1)
    rest = _rows(batch, tf.range(start, number, 2))
    rest = rest._replace(mask=tf.logical_and(rest.mask, number > 1))
    return add(first, _rows(batch, tf.range(0, number, 2))), add(second, rest)

  a, b = client_data.fold_batches(
      data, step, (nothing, nothing), seed=seed, batch_size=size,
      num_steps=1 if num_rows else None, num_epochs=None if num_rows else 1,
  )
  count = a[2] + b[2]
  gradient, loss = tf.nest.map_structure(
      lambda x, y: (x + y) / tf.maximum(count, 1), a[:2], b[:2]
  )
  return LocalGradient(
      gradient, loss, tf.cast(a[3] + b[3], tf.int32), _variance(a, b)
  )


def _rows(batch, rows):
  # Gathered, because a strided slice takes several times as long.
  x, y, mask = structures.take((batch.x, batch.y, batch.mask), rows)
  return batch._replace(x=x, y=y, mask=mask)


def _variance(a, b):
  """Returns ||g_A - g_B||^2 / (1/n_A + 1/n_B); 0 if a half is empty."""
  count_a, count_b = tf.maximum(a[2], 1), tf.maximum(b[2], 1)
  halves = zip(tf.nest.flatten(a[0]), tf.nest.flatten(b[0]))
  distance = tf.add_n([
      tf.reduce_sum(tf.square(x / count_a - y / count_b)) for x, y in halves
  ])
  # In expectation over the halves, ||g_A - g_B||^2 is v_i (1/n_A + 1/n_B).
  rows_a, rows_b = tf.maximum(a[3], 1), tf.maximum(b[3], 1)
  variance = distance / (1 / rows_a + 1 / rows_b)
  both = tf.logical_and(a[3] > 0, b[3] > 0)
  return tf.where(both, variance, tf.zeros_like(variance))
