"""Losses and metrics of single examples."""

from typing import Any, Callable

import tensorflow as tf


def sparse_categorical_crossentropy(
    y: tf.Tensor, logits: tf.Tensor
) -> tf.Tensor:
  """Cross-entropy per example: y int[batch], logits [batch, num_classes]."""
  return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)


def binary_crossentropy(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Cross-entropy per example: y in {0, 1} int[batch], logits [batch, 1]."""
  return tf.nn.sigmoid_cross_entropy_with_logits(
      tf.cast(y, logits.dtype), logits[:, 0]
  )


def squared_error(y: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
  """Squared error per example, averaged over outputs: both [batch, ...]."""
  y = tf.cast(y, predictions.dtype)
  # [batch] minus [batch, 1] would broadcast to [batch, batch].
  difference = tf.reshape(predictions, tf.shape(y)) - y
  squared = tf.square(tf.reshape(difference, [tf.shape(y)[0], -1]))
  return tf.reduce_mean(squared, axis=1)


def categorical_accuracy(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Share of steps whose largest logit is the label: float32[batch].

  y is int[batch, ...], without an axis of steps 1.0 or 0.0 for the one label;
  logits are [batch, ..., num_classes].
  """
  guess = tf.argmax(logits, axis=-1, output_type=tf.int32)
  if tf.TensorShape(y.shape).rank == logits.shape.rank:
    y = y[..., 0]
  # `tf.equal`, because in the legacy graphs that TFF traces, `==` on tensors
  # compares identities.
  hits = tf.cast(tf.equal(guess, tf.cast(y, tf.int32)), tf.float32)
  steps = list(range(1, hits.shape.rank))
  return tf.reduce_mean(hits, axis=steps) if steps else hits


def binary_accuracy(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """1.0 if the logit's sign matches the label: float32[batch]."""
  hit = tf.equal(logits[:, 0] > 0, tf.cast(y, tf.int32) > 0)
  return tf.cast(hit, tf.float32)


def default_metrics(
    y_spec: tf.TensorSpec, output_spec: tf.TensorSpec
) -> dict[str, Callable[[Any, Any], Any]]:
  """Returns the accuracy if each label is one of several classes, else {}.

  Integers are classes, unless there is one for each output; a single prediction
  is no choice.
  """
  y_shape, shape = y_spec.shape, output_spec.shape
  is_choice = y_spec.dtype.is_integer and (shape[-1] or 0) > 1
  is_class = y_shape.is_compatible_with(shape[:-1]) or (
      y_shape.is_compatible_with([*shape[:-1], 1])
  )
  return {'accuracy': categorical_accuracy} if is_choice and is_class else {}
