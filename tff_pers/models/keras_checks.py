"""Checks that a Keras model is a pure function of its weights."""

# pylint: disable=protected-access  Keras has no public list of all layers.

import itertools
import re
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from tff_pers.models import captured
from tff_pers.models import keras_batch_norm
from tff_pers.models import keras_layers
from tff_pers.models import moving_statistics

# Operations that a trace must not contain: writes of variables, draws from
# hidden states, calls of Python.
_STATEFUL_OPS = (
    'Assign', 'EagerPyFunc', 'Multinomial', 'ParameterizedTruncatedNormal',
    'PyFunc', 'Random', 'Rng', 'Stateful', 'TruncatedNormal',
)
# Its name begins like those above, but it is only a function call.
_FUNCTION_CALL = 'StatefulPartitionedCall'
_LOOKUPS = (
    tf.keras.layers.IntegerLookup, tf.keras.layers.StringLookup,
    tf.keras.layers.TextVectorization,
)
_ROWS = 3
# Size of axes that the input leaves open: steps of a text, pixels of an image.
_UNKNOWN_SIZE = 32


def check_layers(model: tf.keras.Model) -> None:
  """Raises on what the conversion would ignore: states, losses, own steps.

  Raises:
    ValueError: If a layer looks words up, is stateful, or has an activity
      regularizer, or the model has its own training step.
  """
  for name in ('train_step', 'compute_loss'):
    if getattr(type(model), name) is not getattr(tf.keras.Model, name):
      raise ValueError(
          f'`keras_model` must have no `{name}` of its own, because methods'
          f' train by theirs on `loss`, found one in {type(model).__name__}.'
          ' Tip: put it into `loss`, or write a client work.'
      )
  layers = keras_layers.flatten(model)
  for layer in layers:
    if isinstance(layer, _LOOKUPS):
      raise ValueError(
          '`keras_model` must have no layer that looks up words in a table,'
          ' because tables cannot be part of a pure function, found layer'
          f' {layer.name!r} ({type(layer).__name__}). Tip: apply that layer to'
          ' the data, and let the model begin after it.'
      )
  # The model comes first and counts as stateful if a layer is. The message
  # should name the layer, so the order is reversed.
  for layer in reversed(layers):
    name = layer.name
    if getattr(layer, 'stateful', False):
      raise ValueError(
          '`keras_model` must have no stateful layers, found layer'
          f' {name!r}. Tip: build it with stateful=False.'
      )
    if getattr(layer, 'activity_regularizer', None) is not None:
      raise ValueError(
          '`keras_model` must have no activity regularizers, found one in layer'
          f' {name!r}. Tip: regularize weights, or add it to the loss.'
      )


def check_weights(model: tf.keras.Model) -> None:
  """Raises on weights of several dtypes, constrained weights, or no weights.

  Raises:
    ValueError: If there are none, or several dtypes, or one is constrained.
  """
  for variable in model.trainable_variables:
    if variable.constraint is not None:
      raise ValueError(
          '`keras_model` must have no weight constraints, because averages'
          ' would violate them, found'
          f' {type(variable.constraint).__name__} on {variable.name!r}. Tip:'
          ' constrain within the layer, e.g. by computing with the softplus of'
          ' a weight.'
      )
  variables = [v for v in model.weights if v.dtype.is_floating]
  moving = keras_batch_norm.statistics(keras_layers.flatten(model))
  # Without a trainable weight, adaptors can still be trained.
  variables = [*model.trainable_variables, *moving] or variables
  dtypes = sorted({v.dtype.name for v in variables})
  if len(dtypes) != 1:
    raise ValueError(
        '`keras_model` must have weights, the trainable ones all of one dtype,'
        f' found {len(variables)} weights of dtypes {dtypes}.'
    )


def check_trace(
    model: tf.keras.Model, network: Any, x_spec: Any
) -> list[tf.Tensor]:
  """Raises if a model is not a pure function; returns outputs in a graph.

  The network, a `keras_network.Network`, then knows what layers capture.

  Raises:
    ValueError: If it takes texts, draws or stores anything itself, or its
      outputs are not as the network expects.
  """
  if tf.string in {spec.dtype for spec in tf.nest.flatten(x_spec)}:
    raise ValueError(
        '`keras_model` must take numbers, because clients hold no texts, found'
        f' `x_spec` {x_spec}. Tip: apply layers that read texts to the data,'
        ' and let the model begin after them.'
    )
  key = tf.TensorSpec([2], tf.int64)

  @tf.function
  def train(w, x, seed):
    with moving_statistics.recording(None) as into:
      outputs = network.predict(w, x, True, seed)
    network.find_still(w, into)
    return outputs

  init = tf.function(network.init)
  try:
    traces = [
        train.get_concrete_function(network.weights_spec, x_spec, key),
        init.get_concrete_function(key),
    ]
  except (ValueError, TypeError, NotImplementedError) as error:
    if network.written is not None:
      raise ValueError(_about_write(model, network.written)) from None
    if isinstance(error, ValueError):
      raise
    where = re.search(r"layer '.*?' \(type \w+\)", str(error))
    raise ValueError(
        '`keras_model` must run as a graph, because rounds are compiled, found'
        f' {where[0] if where else model.name}, which does not'
        f' ({type(error).__name__}). Tip: test it in a tf.function.'
    ) from error
  network.captured = captured.Captured(traces[0])
  outside = [network.captured.handles, traces[1].captured_inputs]
  for trace, values in zip(traces, outside):
    graph_def = trace.graph.as_graph_def()
    functions = (f.node_def for f in graph_def.library.function)
    nodes = itertools.chain(graph_def.node, *functions)
    found = sorted({
        n.op for n in nodes
        if n.op.startswith(_STATEFUL_OPS) and n.op != _FUNCTION_CALL
    })
    if found or values:
      raise ValueError(
          '`keras_model` must be a pure function of its weights and input,'
          ' because clients share nothing else, found'
          f' {found or "values captured from outside"}. Tip: draw random'
          ' numbers with Keras\'s own layers; keep no state in layers, no'
          ' metrics (`add_metric`) and no NumPy; load a SavedModel with its'
          ' classes (`custom_objects`).'
      )
  return list(traces[0].outputs)


def _about_write(model, variable) -> str:
  """Returns a message on why the layer of a variable must not write it."""
  layer = keras_layers.owners(keras_layers.flatten(model)).get(
      variable.ref(), model
  )
  tip = 'keep no state in layers'
  if keras_batch_norm.has_statistics(layer):
    tip = (
        'use tf.keras.layers.BatchNormalization itself, without renorm, or'
        ' freeze the layer (layer.trainable = False): then its moving'
        ' statistics are constants'
    )
  return (
      '`keras_model` must not write its variables when it is trained, because'
      ' clients share nothing but trainable weights, found layer'
      f' {layer.name!r} ({type(layer).__name__}), which writes'
      f' {variable.name!r}. Tip: {tip}.'
  )


def check_added_losses(model: tf.keras.Model) -> None:
  """Raises on losses that layers add (`add_loss`) when the model is called.

  Raises:
    ValueError: If a layer has added one.
  """
  for layer in reversed(keras_layers.flatten(model)):
    if layer._losses or layer._eager_losses:
      raise ValueError(
          '`keras_model` must add no losses in its layers, because methods'
          ' train only on `loss` and regularizers of weights, found one in'
          f' layer {layer.name!r}. Tip: return what it needs among the outputs,'
          ' and add it in `loss`.'
      )


def check_rows(model: tf.keras.Model, x_spec: Any) -> None:
  """Raises if predictions depend on the other rows of a batch.

  Raises:
    ValueError: If they differ for three rows together and one by one.
  """
  rng = np.random.default_rng(0)
  x = tf.nest.map_structure(lambda spec: some_rows(spec, rng), x_spec)
  one = lambda i: tf.nest.map_structure(lambda leaf: leaf[i:i + 1], x)
  try:
    together = model(x, training=False)
    rows = [model(one(i), training=False) for i in range(_ROWS)]
  except (ValueError, tf.errors.InvalidArgumentError):
    if any(None in spec.shape[1:] for spec in tf.nest.flatten(x_spec)):
      return  # It may need other sizes than ours.
    raise
  for output, *own in zip(*map(tf.nest.flatten, (together, *rows))):
    _check_rows_of(output, tf.concat(own, axis=0))


def some_rows(
    spec: tf.TensorSpec, rng: Optional[np.random.Generator] = None
) -> tf.Tensor:
  """Returns rows that a model may accept, drawn by `rng` or else by seed 0."""
  rng = rng or np.random.default_rng(0)
  shape = [_ROWS, *(size or _UNKNOWN_SIZE for size in spec.shape[1:])]
  # As integers these are words of any vocabulary, even if they are floats.
  is_float = spec.dtype.is_floating
  x = rng.uniform(size=shape) if is_float else rng.integers(2, size=shape)
  return tf.as_string(x) if spec.dtype == tf.string else tf.cast(x, spec.dtype)


def _check_rows_of(together, alone):
  """Raises if the rows of an output differ when predicted one by one."""
  rtol, atol = 1e-3, 1e-5
  if together.dtype in (tf.float16, tf.bfloat16):
    rtol, atol = 0.05, 0.05  # Mixed precision, which NumPy cannot compare.
    together, alone = (tf.cast(t, tf.float32) for t in (together, alone))
  if together.shape != alone.shape or not np.allclose(
      together, alone, rtol, atol, equal_nan=True
  ):
    raise ValueError(
        '`keras_model` must predict every row independently, because batches'
        ' are padded with rows that do not count, found predictions that'
        ' change with the other rows of a batch. Tip: per_example=False, if'
        ' this is intended.'
    )
