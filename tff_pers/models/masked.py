"""Clients that have only some of the classes: their loss and their rows.

The masked cross-entropy of FedHM, after HeteroFL: see `factorized` and
`submodels` for the papers.
"""

import dataclasses
from typing import Any, Mapping, Sequence

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import layers


def head(
    model: functional.FunctionalModel, flag: str = '`masked_loss`'
) -> tuple[int, ...]:
  """Returns the positions of the leaves of the output layer.

  The last axis of each leaf is that of the classes.

  Raises:
    ValueError: If the model has no logit per class; names `flag`, the option
      that needs it.
  """
  weights = layers.describe(model)
  kernels = [w for w in layers.as_applied(weights) if w.kind == 'dense']
  # One label per example, because a text has one for every token.
  is_classifier = (
      model.has_one_label and model.y_spec.dtype.is_integer
      and 'accuracy' in model.metrics and not model.probabilities
  )
  if not is_classifier or not kernels or kernels[-1].shape[-1] < 2:
    raise ValueError(
        f'{flag} must be false for a model without a logit for each class,'
        f' found true for {model.name}.'
    )
  return tuple(
      position for position, weight in enumerate(weights)
      if weight.layer == kernels[-1].layer
  )


def owned(
    model: functional.FunctionalModel, positions: Sequence[int],
    data: Mapping[str, Any],
) -> tf.Tensor:
  """Returns 1 for the classes among a client's labels, else 0: float32[C].

  `positions` are those of the `head`; rows of padding do not count.
  """
  num_classes = layers.describe(model)[positions[0]].shape[-1]
  y = data['examples']['y']
  rows = tf.one_hot(y, num_classes)
  is_example = tf.range(tf.shape(y)[0]) < data['num_examples']
  counts = tf.reduce_sum(
      rows * tf.cast(is_example, rows.dtype)[:, None], axis=0
  )
  return tf.minimum(counts, 1.0)


def masked(
    model: functional.FunctionalModel, classes: tf.Tensor
) -> functional.FunctionalModel:
  """Returns the model with logits 0, not -infinity, for missing classes.

  `classes`, float[C], is 1 for the classes that a client has.
  """
  def predict(*arguments):
    logits = model.predict(*arguments)
    return tf.where(classes > 0, logits, tf.zeros_like(logits))

  return dataclasses.replace(model, predict=predict, frozen=None)


def keep_unowned(
    positions: Sequence[int], shares: tf.Tensor, new: Any, old: Any
) -> Any:
  """Returns weights `new`, with the old rows for the classes that nobody had.

  `positions` are those of the `head`, and `shares`, float[C], 0 for these
  classes.
  """
  leaves = tf.nest.flatten(new)
  for position in positions:
    leaves[position] = tf.where(
        shares > 0, leaves[position], tf.nest.flatten(old)[position]
    )
  return tf.nest.pack_sequence_as(new, leaves)
