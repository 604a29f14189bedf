"""Computes LSTM layers of Keras by our steps, whose gradient is cheaper."""

from typing import Any, Iterable

import tensorflow as tf

from tff_pers.models import lstm_steps

# Required values of attributes, Keras' defaults, to replace a layer's `call`.
_PLAIN = dict(
    activation=tf.keras.activations.tanh,
    recurrent_activation=tf.keras.activations.sigmoid, use_bias=True,
    dropout=0, recurrent_dropout=0, stateful=False, go_backwards=False,
    time_major=False, return_state=False, return_runtime=False,
)


def calls(layers: Iterable[Any]) -> list:
  """Returns (layer, replacement of its `call`) for each plain LSTM.

  Layers other than LSTMs with default settings keep their own call.
  """
  return [(layer, _call(layer)) for layer in layers if _is_plain(layer)]


def _is_plain(layer) -> bool:
  # Not subclasses or layers with another `call`, which may compute anything.
  is_lstm = type(layer) is tf.keras.layers.LSTM and 'call' not in vars(layer)
  return is_lstm and all(
      getattr(layer, name, value) == value for name, value in _PLAIN.items()
  )


def _call(layer):
  """Returns a `call` that uses our steps where possible."""
  keras_call = layer.call

  # Keras inspects its parameters, which a decorator would hide.
  def call(inputs, mask=None, training=None, initial_state=None):
    length = inputs.shape[1]
    if mask is not None or initial_state is not None or length is None:
      return keras_call(
          inputs, mask=mask, training=training, initial_state=initial_state
      )
    return _outputs(layer, inputs)

  return call


@tf.autograph.experimental.do_not_convert
def _outputs(layer, inputs):
  """Returns the last state [batch, units], or all [batch, length, units]."""
  # Read now, while the variables stand for the tensors of one call.
  states = lstm_steps.outputs(inputs, *map(tf.convert_to_tensor, (
      layer.cell.kernel, layer.cell.recurrent_kernel, layer.cell.bias
  )))
  return states if layer.return_sequences else states[:, -1]
