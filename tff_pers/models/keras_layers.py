"""Describes the variables of a Keras model: kernels, biases, norms."""

# pylint: disable=protected-access  Keras has no public list of own weights.

import collections
from typing import Any, Collection, Sequence

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import moving_statistics

_L = tf.keras.layers
_NORMS = (
    _L.LayerNormalization, _L.GroupNormalization, _L.BatchNormalization
)
_DEPTHWISE = (_L.DepthwiseConv2D, _L.SeparableConv2D)
_CELLS = (_L.SimpleRNNCell, _L.GRUCell, _L.LSTMCell)


def flatten(model: tf.keras.Model) -> list[tf.keras.layers.Layer]:
  """Returns the model and all its layers and cells, including nested ones."""
  # `submodules` is public, but fails once an RNN has been called.
  return list(model._flatten_layers())


def owners(
    layers: Sequence[tf.keras.layers.Layer]
) -> dict[Any, tf.keras.layers.Layer]:
  """Returns the layer of each variable, by the variable's reference."""
  return {
      variable.ref(): layer
      for layer in layers
      for variable in (*layer._trainable_weights, *layer._non_trainable_weights)
  }


def describe(
    layers: Sequence[tf.keras.layers.Layer], variables: Sequence[tf.Variable],
    dtype: tf.DType, statistics: Collection[Any] = (),
) -> tuple[functional.LayerWeight, ...]:
  """Returns a tuple of `functional.LayerWeight`, one per variable.

  Kernels that are neither matrices nor plain convolutions (transposed, grouped
  or of other dimensions) have the class of their layer as kind, like all that
  is unknown. A variable of another dtype than that of the trainable ones has
  its name as its kind. `layers` are the model and all its layers and cells,
  including nested ones, and `statistics` references of moving statistics that
  are trained.
  """
  owner_of = owners(layers)
  names: dict[int, str] = {}
  taken: collections.Counter[str] = collections.Counter()

  def unique_name(layer):
    if id(layer) not in names:
      taken[layer.name] += 1
      count = taken[layer.name]
      # Layers of nested models may share a name; ours must be unique.
      names[id(layer)] = layer.name + (f':{count}' if count > 1 else '')
    return names[id(layer)]

  def describe_one(variable):
    role = variable.name.split('/')[-1].split(':')[0]
    layer = owner_of.get(variable.ref(), layers[0])
    kind = _kind(layer, role)
    if variable.ref() in statistics:
      kind = moving_statistics.KIND
    if variable.dtype != dtype:
      kind = variable.dtype.name
    return functional.LayerWeight(
        f'{unique_name(layer)}/{role}', unique_name(layer), kind,
        tuple(variable.shape),
        _summed_axes(layer.equation) if kind == 'einsum' else (),
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
  if isinstance(layer, _NORMS) and role in ('gamma', 'beta'):
    return 'norm'
  if _is_convolution(layer) and role == 'kernel':
    return 'conv'
  # In a separable convolution this is the second convolution, which is 1 x 1.
  if isinstance(layer, _L.SeparableConv2D) and role == 'pointwise_kernel':
    return 'conv'
  if isinstance(layer, _DEPTHWISE) and role == 'depthwise_kernel':
    return 'depthwise'
  # The projections of MultiHeadAttention are such layers as well.
  if isinstance(layer, _L.EinsumDense) and role == 'kernel':
    return 'einsum'
  return type(layer).__name__


def _summed_axes(equation: str) -> tuple[int, ...]:
  """Returns `LayerWeight.summed_axes`: (0, 1) for 'abcd,cde->abe'."""
  operands, outputs = equation.split('->')
  kernel = operands.split(',')[1]
  return tuple(i for i, axis in enumerate(kernel) if axis not in outputs)


def _is_convolution(layer) -> bool:
  # Transposed and depthwise convolutions are subclasses.
  special = (_L.Conv2DTranspose, _L.DepthwiseConv2D)
  is_plain = isinstance(layer, _L.Conv2D) and not isinstance(layer, special)
  return is_plain and layer.groups == 1
