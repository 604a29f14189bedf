"""Converts models from and to `tff.learning.models.FunctionalModel`."""

import collections
from typing import Mapping, Optional

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import example_values
from tff_pers.models import functional
from tff_pers.models import keras_losses
from tff_pers.models import loss_functions
from tff_pers.models import probabilities as probabilities_lib
from tff_pers import tff


def from_tff_functional_model(
    model: tff.learning.models.FunctionalModel,
    *,
    metrics: keras_losses.Metrics = None,
    probabilities: Optional[bool] = None,
    name: str = 'tff_model',
) -> functional.FunctionalModel:
  """Returns TFF's functional model as a model of this package.

  Every run starts from its initial weights. Weights that are not trainable keep
  their values: TFF's functional models cannot change them. They take no seed
  either: a model with dropout should come from `keras.from_keras`. A model that
  TFF made from Keras can only be called inside TFF computations.

  Args:
    model: TFF's model with one input and one output tensor. Its loss must be a
      mean over the batch, or one loss per example.
    metrics: As in `from_keras`; TFF's metrics are running states and are
      ignored. None: the accuracy, if labels are integers and there are at least
      two outputs.
    probabilities: Whether the outputs are probabilities, not logits. None:
      whether they are in [0, 1] (and those of several classes add up to 1) for
      random weights.
    name: Name for tables and messages.

  Raises:
    ValueError: If x or y is not a single tensor, nothing is trainable, or a
      metric does not give each example a value of its own.
  """
  x_spec, y_spec = _specs(model.input_spec)
  trainable, frozen = (_as_tuple(part) for part in model.initial_weights)
  if not tf.nest.flatten(trainable):
    raise ValueError('`model` must have trainable weights, found none.')

  def init(seed):
    del seed  # The model has its initial weights.
    return tf.nest.map_structure(tf.constant, trainable)

  def predict(weights, x, training, seed):
    del seed  # TFF's models take no seed.
    constants = tf.nest.map_structure(tf.constant, frozen)
    return model.predict_on_batch((weights, constants), x, bool(training))

  def example_loss(y, predictions):
    # TFF's loss is a mean over the batch; for batches of one row, it is the
    # loss of each example.
    return tf.vectorized_map(
        lambda row: tf.reduce_mean(model.loss(row[1][None], row[0][None])),
        (y, predictions),
    )

  # In a TFF computation, because a model that TFF made from Keras cannot be
  # called elsewhere.
  outputs = tff.tensorflow.computation(
      lambda x: predict(init(None), x, False, None),
      tff.TensorType(x_spec.dtype.as_numpy_dtype, x_spec.shape),
  ).type_signature.result
  output_spec = tf.TensorSpec(outputs.shape, outputs.dtype)
  if metrics is None:
    metrics = loss_functions.default_metrics(y_spec, output_spec)
  if probabilities is None:
    probabilities = probabilities_lib.tried(
        predict, tf.nest.map_structure(
            lambda w: tf.TensorSpec(w.shape, w.dtype), trainable
        ), x_spec,
    )
  functions, states = keras_losses.example_metrics(
      metrics, example_values.trial(y_spec, output_spec), probabilities
  )
  return functional.FunctionalModel(
      init, predict, example_loss, x_spec, y_spec, metrics=functions,
      states=states, name=name, probabilities=probabilities,
      labels=keras_losses.labels_of(
          model.loss, example_loss, y_spec, output_spec
      ),
  )


def to_tff_functional_model(
    model: functional.FunctionalModel, seed: int = 0
) -> tff.learning.models.FunctionalModel:
  """Returns a model of this package as TFF's, for `tff.learning.algorithms`.

  Metrics with a state are dropped. TFF's models take no seed: dropout draws a
  new one for every batch, so that runs of a model with dropout do not repeat.

  Args:
    model: A model without penalty.
    seed: Seed of the initial weights.

  Raises:
    ValueError: If the model has a penalty, because TFF's loss does not see the
      weights; or if it has trained batch normalization or masked steps.
  """
  if model.statistics:
    raise ValueError(
        '`model` must have no batch normalization that is trained, because'
        f' TFF\'s training does not move its statistics, found {model.name}.'
        ' Tip: group or layer normalization.'
    )
  if model.penalty is not functional.no_penalty:
    raise ValueError(
        '`model` must have no penalty on its weights, because TFF\'s loss does'
        f' not see them, found one in {model.name}. Tip: build it with l2=0.'
    )
  if model.targets is not None:
    raise ValueError(
        '`model` must mask no steps of its outputs, because TFF\'s loss does'
        f' not see x, found {model.name}. Tip: mask_zero=False, and a loss that'
        ' is 0 where the label is padding.'
    )
  initial = tf.nest.map_structure(
      lambda w: w.numpy(), model.init(random.key(seed))
  )

  @tf.function
  def predict_on_batch(weights, x, training):
    fresh_key = tf.random.uniform([2], maxval=tf.int64.max, dtype=tf.int64)
    return model.predict(weights[0], x, training, fresh_key)

  def loss(output, label, sample_weight=None):
    del sample_weight  # TFF never passes one.
    return _mean(model, 'loss', label, model.example_loss(label, output))

  return tff.learning.models.FunctionalModel(
      initial_weights=(initial, ()),
      predict_on_batch_fn=predict_on_batch,
      loss_fn=loss,
      metrics_fns=_metrics_functions(model),
      input_spec=collections.OrderedDict(x=model.x_spec, y=model.y_spec),
  )


def _mean(model: functional.FunctionalModel, name: str, y, rows):
  """Returns the mean of rows, weighted by their units."""
  if name not in model.weights_of:
    return tf.reduce_mean(rows)
  units = model.row_weights(y, rows.dtype, name)
  return tf.math.divide_no_nan(
      tf.reduce_sum(units * rows), tf.reduce_sum(units)
  )


def _metrics_functions(model: functional.FunctionalModel):
  """Returns TFF's (initialize, update, finalize): sums and counts by name."""
  values = collections.OrderedDict(loss=model.example_loss, **model.metrics)

  @tf.function
  def initialize():
    return collections.OrderedDict((name, tf.zeros([2])) for name in values)

  @tf.function
  def update(state, labels, batch_output, sample_weight=None):
    del sample_weight  # TFF never passes one.
    new = collections.OrderedDict()
    for name, value in values.items():
      rows = tf.cast(value(labels, batch_output.predictions), tf.float32)
      units = model.row_weights(labels, rows.dtype, name)
      new[name] = state[name] + tf.stack(
          [tf.reduce_sum(units * rows), tf.reduce_sum(units)]
      )
    return new

  @tf.function
  def finalize(state):
    return collections.OrderedDict(
        (name, tf.math.divide_no_nan(sums[0], sums[1]))
        for name, sums in state.items()
    )

  return initialize, update, finalize


def _specs(input_spec):
  """Returns the specs of x and y."""
  if isinstance(input_spec, Mapping):
    specs = input_spec['x'], input_spec['y']
  else:
    specs = tuple(input_spec)
  for name, spec in zip('xy', specs):
    if not isinstance(spec, tf.TensorSpec):
      raise ValueError(f'`{name}` must be a single tensor, found {spec}.')
  return specs


def _as_tuple(weights):
  """Returns TFF's weights, a list or mapping or tuple, as arrays."""
  weights = tuple(weights) if isinstance(weights, list) else weights
  return tf.nest.map_structure(np.asarray, weights)
