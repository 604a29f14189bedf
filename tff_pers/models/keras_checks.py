"""Which Keras models are pure functions of their weights, and which not."""

# pylint: disable=protected-access  Keras has no public list of all layers.

import itertools
from typing import Any

import tensorflow as tf

from tff_pers.models import keras_layers

# What must not be in a trace: writes of variables, draws from hidden states.
_STATEFUL_OPS = (
    'Assign', 'Multinomial', 'ParameterizedTruncatedNormal', 'Random', 'Rng',
    'Stateful', 'TruncatedNormal',
)
# Its name begins like the draws above, but it is only a function call.
_FUNCTION_CALL = 'StatefulPartitionedCall'


def check_layers(model: tf.keras.Model) -> None:
  """Refuses layers whose state changes in training.

  Raises:
    ValueError: If a layer is batch normalization, is stateful, or has an
      activity regularizer.
  """
  # The model comes first and is stateful if a layer is. The message should name
  # the layer, so the order is reversed.
  for layer in reversed(keras_layers.flatten(model)):
    name = layer.name
    if isinstance(layer, tf.keras.layers.BatchNormalization):
      raise ValueError(
          '`keras_model` must have no batch normalization, because its moving'
          ' averages are state outside the weights, found layer'
          f' {name!r}. Tip: use tf.keras.layers.GroupNormalization or'
          ' LayerNormalization.'
      )
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
  """Refuses weights of several dtypes, and models without any.

  Raises:
    ValueError: If there are none, or of several dtypes.
  """
  variables = [v for v in model.weights if v.dtype.is_floating]
  # Without a trainable weight there are still adaptors to be trained.
  variables = model.trainable_variables or variables
  dtypes = sorted({v.dtype.name for v in variables})
  if len(dtypes) != 1:
    raise ValueError(
        '`keras_model` must have weights, the trainable ones all of one dtype,'
        f' found {len(variables)} weights of dtypes {dtypes}.'
    )


def check_trace(network: Any, x_spec: tf.TensorSpec) -> tf.TensorSpec:
  """Refuses models that are no pure functions; returns the output's spec.

  Raises:
    ValueError: If it draws or keeps anything by itself, or has several outputs.
  """
  weights = tuple(tf.TensorSpec(v.shape, v.dtype) for v in network.trained)
  key = tf.TensorSpec([2], tf.int64)
  train = tf.function(lambda w, x, seed: network.predict(w, x, True, seed))
  init = tf.function(network.init)
  traces = [
      train.get_concrete_function(weights, x_spec, key),
      init.get_concrete_function(key),
  ]
  for trace in traces:
    graph_def = trace.graph.as_graph_def()
    functions = (f.node_def for f in graph_def.library.function)
    nodes = itertools.chain(graph_def.node, *functions)
    found = sorted({n.op for n in nodes if _is_stateful(n.op)})
    if found or trace.captured_inputs:
      raise ValueError(
          '`keras_model` must be a pure function of its weights and input,'
          ' because clients share nothing else, found'
          f' {found or "values captured from outside"}. Tip: draw random'
          ' numbers with Keras\'s own layers; keep no state in layers.'
      )
  output = traces[0].structured_outputs
  if not isinstance(output, (tf.Tensor, tf.TensorSpec)):
    raise ValueError(
        f'`keras_model` must have one output tensor, found {output}.'
    )
  return tf.TensorSpec(output.shape, output.dtype)


def _is_stateful(op: str) -> bool:
  return op.startswith(_STATEFUL_OPS) and op != _FUNCTION_CALL
