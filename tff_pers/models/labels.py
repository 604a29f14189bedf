"""The labels for which a model has outputs."""

import functools
import itertools
from typing import Any, Callable, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import keras_losses

_BINARY = (*keras_losses.BINARY, functional.binary_crossentropy)


class Labels(NamedTuple):
  """The labels 0..C-1, and others that the loss skips.

  Attributes:
    num_classes: C.
    is_skipped: `(label) -> bool`, whether the loss accepts a label outside of
      0..C-1, e.g. one that marks padding.
  """

  num_classes: int
  is_skipped: Callable[[int], bool] = lambda label: False

  def first_wrong(self, y: np.ndarray) -> Optional[tuple[int, int]]:
    """Returns the first invalid label and its row, or None.

    Args:
      y: Integers or whole floats, [num_examples, ...].
    """
    if y.dtype.kind == 'f':
      outside = ~((y >= 0) & (y < self.num_classes) & (y == np.floor(y)))
    else:
      # As unsigned, negative numbers are large, so one pass over y suffices.
      unsigned = y.view(f'u{y.dtype.itemsize}')
      if not y.size or np.maximum.reduce(unsigned, None) < self.num_classes:
        return None
      outside = unsigned >= self.num_classes
    skipped = [
        label for label in np.unique(y[outside]).tolist()
        if float(label).is_integer() and self.is_skipped(label)
    ]
    places = np.argwhere(outside & ~np.isin(y, skipped))
    return (y[tuple(places[0])], places[0][0]) if len(places) else None


def num_directions(model: functional.FunctionalModel) -> int:
  """Returns d: gradients of a layer's kernel have at most about this rank.

  That is the dimension of the gradients of the predictions: with a softmax of m
  classes m - 1, because they sum to 0, otherwise the number of outputs. The
  largest, if a model predicts several things; 1 if nothing is known.

  Args:
    model: A model of any kind.
  """
  outputs = model.labels if isinstance(model.labels, list) else [model.labels]
  specs = tf.nest.flatten(model.y_spec)
  return max(1, *(
      spec.shape[-1] or 1 if own is None and spec.shape.rank > 1
      else 1 if own is None else own.num_classes - 1
      for own, spec in itertools.zip_longest(outputs, specs)
  ))


def of_loss(
    loss: Any, example_loss: Callable[[Any, Any], Any], y_spec: tf.TensorSpec,
    output_spec: tf.TensorSpec,
) -> Optional[Labels]:
  """Returns the labels of a user's model; None: y holds no labels.

  These are 0..C-1 if there are C outputs per label, or 0 and 1 for a binary
  cross-entropy. Other labels are skipped if their loss is finite.

  Args:
    loss: A loss of Keras, its name, or a function.
    example_loss: The same loss as `(y, predictions) -> [batch]`.
    y_spec: Spec of y.
    output_spec: Spec of the predictions.
  """
  loss = tf.keras.losses.get(loss)
  function = getattr(loss, 'fn', loss)  # An object of Keras has `fn`.
  if not y_spec.dtype.is_integer and function is not keras_losses.SPARSE:
    return None
  if function in _BINARY:
    return Labels(2)
  shape = [size or 1 for size in output_spec.shape]
  y_shape = shape[:-1]
  if y_spec.shape.rank == len(shape) and y_spec.shape[-1] == 1:
    y_shape.append(1)
  if y_spec.shape.rank != len(y_shape) or shape[-1] < 2:
    return None

  @functools.lru_cache(maxsize=None)
  def is_skipped(label):
    # On a GPU the loss would be NaN or 0 instead of an error.
    with tf.init_scope(), tf.device('CPU:0'):
      try:
        loss_of_one = example_loss(
            tf.fill(y_shape, tf.constant(label, y_spec.dtype)),
            tf.fill(shape, tf.constant(1 / shape[-1], output_spec.dtype)),
        )
      except tf.errors.InvalidArgumentError:
        return False
      return bool(tf.reduce_all(tf.math.is_finite(loss_of_one)))

  return Labels(shape[-1], is_skipped)
