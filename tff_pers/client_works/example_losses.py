"""Losses of several models on every example of a client."""

import collections
from typing import Any, Callable, Mapping, NamedTuple

import tensorflow as tf

from tff_pers.core import structures
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import mixtures

# Rows per pass: bounds memory.
_CHUNK = 256


def compute(
    model: functional.FunctionalModel, models: Any, num_models: int,
    data: Mapping[str, Any],
) -> tf.Tensor:
  """Returns losses of models c on rows s, [rows, C], without dropout, penalty.

  Args:
    model: The model.
    models: A table of C models, see `mixtures`.
    num_models: C.
    data: Dense client data; padding rows have finite but meaningless losses.
  """
  dtype = tf.nest.flatten(models)[0].dtype
  num_rows = structures.num_rows(data['examples'])

  def step(table, batch):
    losses = tf.stack([
        tf.cast(model.example_loss(
            model.targets_of(batch.x, batch.y),
            model.predict(mixtures.select(models, c), batch.x, False,
                          batch.seed),
        ), dtype)
        for c in range(num_models)
    ], axis=1)
    return tf.tensor_scatter_nd_update(table, batch.rows[:, None], losses)

  # No draw uses this seed: there is no shuffling and no dropout.
  return fold_rows(
      data, step, tf.zeros([num_rows, num_models], dtype),
      seed=tf.zeros([2], tf.int64), batch_size=_CHUNK, num_epochs=1,
      shuffle=False,
  )


class RowBatch(NamedTuple):
  """A `client_data.Batch` with the row numbers of its examples.

  Attributes:
    x: See `client_data.Batch`.
    y: See `client_data.Batch`.
    mask: See `client_data.Batch`.
    seed: See `client_data.Batch`.
    rows: int32[batch_size].
  """

  x: Any
  y: Any
  mask: tf.Tensor
  seed: tf.Tensor
  rows: tf.Tensor


def fold_rows(
    data: Mapping[str, Any], step: Callable[..., Any], init: Any, **options: Any
) -> Any:
  """Works as `client_data.fold_batches`, but with batches of type `RowBatch`.

  So `step` can look up values that belong to an example by its row.

  Args:
    data: Dense client data.
    step: `(state, RowBatch) -> state`.
    init: See `fold_batches`.
    **options: See `fold_batches`.
  """
  examples = data['examples']
  rows = tf.range(structures.num_rows(examples))
  # Batches of row numbers replace the examples, also as y, which must exist.
  numbers = collections.OrderedDict(
      data, examples=collections.OrderedDict(x=rows, y=rows)
  )

  def row_step(state, batch):
    rows = batch.x
    x, y = (structures.take(examples[name], rows) for name in ('x', 'y'))
    return step(state, RowBatch(x, y, batch.mask, batch.seed, rows))

  return client_data.fold_batches(numbers, row_step, init, **options)


def mean_rows(data: Mapping[str, Any], table: tf.Tensor) -> tf.Tensor:
  """Returns the mean over a client's examples of [rows, C]; 0 without any."""
  count = tf.cast(tf.maximum(data['num_examples'], 1), table.dtype)
  return _sum_rows(data, table) / count


def mean_loss(
    model: functional.FunctionalModel, data: Mapping[str, Any],
    losses: tf.Tensor,
) -> tf.Tensor:
  """Returns f_i of every model without penalty, float[C]; 0 without examples.

  A mean over tokens, or over whatever units an example's loss averages.

  Args:
    model: The model.
    data: Dense client data.
    losses: What `compute` returned, [rows, C].
  """
  if 'loss' not in model.weights_of:
    return mean_rows(data, losses)
  y = model.targets_of(data['examples']['x'], data['examples']['y'])
  units = model.row_weights(y, losses.dtype)[:, None]
  count = tf.maximum(_sum_rows(data, units), 1)
  return _sum_rows(data, units * losses) / count


def _sum_rows(data, table):
  """Returns the sum over a client's examples of [rows, C]."""
  is_example = tf.range(tf.shape(table)[0]) < data['num_examples']
  kept = tf.where(is_example[:, None], table, tf.zeros_like(table))
  return tf.reduce_sum(kept, axis=0)
