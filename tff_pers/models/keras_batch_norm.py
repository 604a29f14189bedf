"""Replaces batch normalization layers of Keras by `batch_norm`."""

from typing import Any, Iterable

import tensorflow as tf

from tff_pers.models import batch_norm

# Required values of attributes, Keras' defaults, to replace a layer's `call`.
_PLAIN = dict(renorm=False, virtual_batch_size=None, adjustment=None)
_STATISTICS = ('moving_mean', 'moving_variance')
# TensorFlow's fused kernels use at least this epsilon.
_FUSED_EPSILON = 1.001e-5


def has_statistics(layer: Any) -> bool:
  """Returns whether a layer has moving statistics like batch normalization."""
  return all(hasattr(layer, name) for name in _STATISTICS)


def is_trained(layer: Any) -> bool:
  """Returns whether we move the layer's statistics as Keras does."""
  # Not subclasses or layers with another `call`, which may compute anything.
  kinds = (
      tf.keras.layers.BatchNormalization,
      tf.keras.layers.experimental.SyncBatchNormalization,
  )
  return (
      type(layer) in kinds and layer.trainable and 'call' not in vars(layer)
      and len(layer.axis) == 1
      and all(getattr(layer, name) == value for name, value in _PLAIN.items())
  )


def statistics(layers: Iterable[Any]) -> list[tf.Variable]:
  """Returns the moving statistics of the layers that are trained."""
  return [
      getattr(layer, name)
      for layer in layers if is_trained(layer) for name in _STATISTICS
  ]


def calls(layers: Iterable[Any]) -> list[tuple[Any, Any]]:
  """Returns (layer, replacement of its `call`) for trained layers."""
  return [(layer, _call(layer)) for layer in layers if is_trained(layer)]


def _call(layer):
  """Returns a replacement of `layer.call` that records its statistics."""

  # Keras inspects its parameters, which a decorator would hide.
  def call(inputs, training=None, mask=None):
    is_fused = bool(layer.fused)
    return batch_norm.normalize(
        tf.cast(inputs, layer.compute_dtype),
        # Read now, while the variables stand for the tensors of one call.
        *map(_read, (
            layer.moving_mean, layer.moving_variance, layer.gamma, layer.beta
        )),
        training=bool(training), momentum=layer.momentum,
        epsilon=max(layer.epsilon, _FUSED_EPSILON * is_fused),
        axis=layer.axis[0], unbiased=is_fused,
        mask=None if is_fused else mask,  # Keras also ignores it, and warns.
    )

  return call


def _read(variable):
  return None if variable is None else tf.convert_to_tensor(variable)
