"""What the variables of a Keras model are: kernels, biases, norms."""

# pylint: disable=protected-access  Keras has no public list of own weights.

import collections

import tensorflow as tf

from tff_pers.models import functional

_L = tf.keras.layers
_NORMS = (_L.LayerNormalization, _L.GroupNormalization)
_CELLS = (_L.SimpleRNNCell, _L.GRUCell, _L.LSTMCell)


def describe(layers, variables):
  """Returns a tuple of `functional.LayerWeight`, one per variable.

  Kernels of layers that are no product with a matrix and no plain convolution
  (depthwise, transposed, grouped or of other dimensions, attention) keep their
  class as their kind, as does all that is not known.

  Args:
    layers: The model and all its layers and cells, nested ones too.
    variables: Trainable variables, in order.
  """
  owners = {
      variable.ref(): layer
      for layer in layers for variable in layer._trainable_weights
  }
  names, taken = {}, collections.Counter()

  def unique_name(layer):
    if id(layer) not in names:
      taken[layer.name] += 1
      count = taken[layer.name]
      # Layers of nested models may have the same name; ours must be unique.
      names[id(layer)] = layer.name + (f':{count}' if count > 1 else '')
    return names[id(layer)]

  def describe_one(variable):
    role = variable.name.split('/')[-1].split(':')[0]
    layer = owners.get(variable.ref(), layers[0])
    return functional.LayerWeight(
        f'{unique_name(layer)}/{role}', unique_name(layer), _kind(layer, role),
        tuple(variable.shape),
    )

  return tuple(describe_one(variable) for variable in variables)


def _kind(layer, role: str) -> str:
  """Returns the kind of a layer's weight, see `functional.LayerWeight`."""
  if role == 'bias':
    return 'bias'
  if isinstance(layer, (_L.Dense, *_CELLS)) and role.endswith('kernel'):
    return 'dense'
  if isinstance(layer, _L.Embedding):
    return 'embedding'
  if isinstance(layer, _NORMS):
    return 'norm'
  if _is_convolution(layer) and role == 'kernel':
    return 'conv'
  return type(layer).__name__


def _is_convolution(layer) -> bool:
  # Transposed and depthwise convolutions are subclasses.
  special = (_L.Conv2DTranspose, _L.DepthwiseConv2D)
  is_plain = isinstance(layer, _L.Conv2D) and not isinstance(layer, special)
  return is_plain and layer.groups == 1
