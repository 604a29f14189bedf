"""The features of an example: the inputs of a model's last layer.

The last layer is z = phi(x) K + b. With the identity appended to K, and zeros
to b, the same model gives (z, phi(x)) at once, whatever comes before.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tff_pers.core import interception
from tff_pers.core import random
from tff_pers.models import functional
from tff_pers.models import partition

_PROBES = 3  # Examples on which a model is tried.


@dataclasses.dataclass(frozen=True)
class LastLayer:
  """The last layer of a model, see `of`.

  Attributes:
    parts: The model; its private weights are those of the layer.
    kernel: Position of K among these; the other one, if any, is b.
    num_features: Length of phi(x).
  """

  parts: partition.Partition
  kernel: int
  num_features: int

  @property
  def model(self) -> functional.FunctionalModel:
    """The whole model."""
    return self.parts.model

  def predict(
      self, weights: Any, x: Any, seed: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns (predictions [n, outputs], phi [n, d]) for x, dropout off."""
    body, own = self.parts.split(weights)
    size = self.num_features
    beside = [
        tf.eye(size, dtype=leaf.dtype) if i == self.kernel
        else tf.zeros([size], leaf.dtype) for i, leaf in enumerate(own)
    ]
    wide = [tf.concat(pair, axis=-1) for pair in zip(own, beside)]
    with interception.computing():  # The output of a stand-in is useless.
      both = self.model.predict(self.parts.merge(body, wide), x, False, seed)
    return tuple(tf.split(both, [both.shape[-1] - size, size], axis=-1))


def of(model: functional.FunctionalModel) -> LastLayer:
  """Returns the last layer of a model with one label, or numbers, per example.

  Raises:
    ValueError: If it does not end in a dense layer without activation, or its y
      are neither integer classes nor numbers to predict.
  """
  parts = partition.last_layers(model, 1)
  own = [w for w, last in zip(parts.weights, parts.is_private) if last]
  kinds = [weight.kind for weight in own]
  is_dense = sorted(kinds) in (['dense'], ['bias', 'dense'])
  kernel = kinds.index('dense') if is_dense else -1
  if not _is_plain(model) or not is_dense:
    raise ValueError(_sentence(model))
  layer = LastLayer(parts, kernel, own[kernel].shape[0])
  if not _is_linear(layer):
    raise ValueError(_sentence(model))
  return layer


def _sentence(model) -> str:
  return (
      '`model` must have one label per example, a whole number, or numbers to'
      ' predict, and end in a dense layer without activation, found'
      f' {model.name}. Tip: a softmax or sigmoid belongs in the loss'
      ' (from_logits=True).'
  )


def _is_plain(model) -> bool:
  """Whether y are integer classes, or numbers to predict."""
  if model.num_outputs > 1 or model.targets is not None:
    return False
  if model.y_spec.dtype.is_integer:
    return model.has_one_label
  # One-hot labels and multiple labels are floats, too.
  return model.y_spec.shape.rank <= 2 and not any(
      'accuracy' in name for name in model.metrics
  )


def _is_linear(layer: LastLayer) -> bool:
  """Whether -2 (K, b) gives -2 z, which no activation and no softmax does.

  A model in units of y (`target_units`) gives m + s z, and m + s phi(x) for the
  features, which have the same neighbours.
  """
  model, rng = layer.model, np.random.default_rng(0)
  x = tf.nest.map_structure(
      lambda spec: tf.cast(
          rng.random([_PROBES, *(n or 1 for n in spec.shape[1:])]), spec.dtype
      ), model.x_spec,
  )
  key = random.key(0)
  body, own = layer.parts.split(model.init(key))
  own = [tf.cast(rng.normal(size=leaf.shape), leaf.dtype) for leaf in own]

  def outputs(factor):
    scaled = [factor * leaf for leaf in own]
    with interception.computing():
      return model.predict(layer.parts.merge(body, scaled), x, False, key)

  zero, one, other = outputs(0), outputs(1), outputs(-2)
  return one.shape.rank == 2 and np.allclose(
      other - zero, -2 * (one - zero), rtol=1e-3
  )
