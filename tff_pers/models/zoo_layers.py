"""The layers of the zoo: pure functions of their weights, built for a shape."""

import math
from typing import (
    Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence,
)

import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import batch_norm
from tff_pers.models import functional
from tff_pers.models import moving_statistics
from tff_pers.numerics import low_rank


# The units along each axis of a weight, None where they are never cut.
Axes = tuple[Optional[functional.Units], ...]


class Layer(NamedTuple):
  """One layer, for inputs of a known shape.

  Attributes:
    weight_shapes: Shapes of its weights.
    output_shape: Shape of its output without the batch dimension.
    apply: `(weights, x, training, seed) -> x`.
    kind: The kind of its kernel, see `functional.LayerWeight`; empty if the
      layer has no weights, or describes them itself.
    described: Descriptions of its weights; None: a kernel of `kind` and a bias.
    units: `(units of the last axis of x, or None) -> (units of each axis of
      each weight, units of the last axis of the output)`; None: those of its
      kernel and bias, or without weights those of x.
  """

  weight_shapes: tuple[tuple[int, ...], ...]
  output_shape: tuple[int, ...]
  apply: Callable[[Any, Any, bool, Any], Any]
  kind: str = ''
  described: Optional[tuple[functional.LayerWeight, ...]] = None
  units: Optional[Callable[[Any], tuple[tuple[Axes, ...], Any]]] = None


# Builds a layer for the shape of its input.
MakeLayer = Callable[[tuple[int, ...]], Layer]


def stack(
    makers: Sequence[MakeLayer], shape: tuple[int, ...]
) -> list[Layer]:
  """Returns the layers, each built for the output shape of the previous one."""
  layers = []
  for make in makers:
    layers.append(make(shape))
    shape = layers[-1].output_shape
  return layers


def apply_all(
    layers: Sequence[Layer], weights: Any, x: tf.Tensor, training: bool,
    seed: tf.Tensor,
) -> tf.Tensor:
  """Applies the layers in turn, each with its own weights and key."""
  taken = 0
  for position, layer in enumerate(layers):
    count = len(layer.weight_shapes)
    own = weights[taken:taken + count]
    taken += count
    x = layer.apply(own, x, training, random.fold_in(seed, position))
  return x


def functions(
    layers: Sequence[Layer],
    initial_weight: Callable[[functional.LayerWeight, Any, tf.DType], Any],
    dtype: tf.DType,
    l2: float,
    of_tokens: bool = False,
) -> dict[str, Any]:
  """Returns `init`, `predict`, `penalty` and `layers` of a model of layers.

  Its weights are a flat tuple of tensors; `initial_weight` is `(weight, seed:
  int64[2], dtype) -> tensor`. 0.5 * l2 * ||w||^2 is added to the loss of every
  batch. x is cast to `dtype` unless it is `of_tokens`.
  """
  described = describe(layers)

  def init(seed):
    return tuple(
        initial_weight(weight, random.fold_in(seed, position), dtype)
        for position, weight in enumerate(described)
    )

  def predict(weights, x, training, seed):
    x = x if of_tokens else tf.cast(x, dtype)
    return apply_all(layers, weights, x, training, seed)

  def penalty(weights):
    trained = (
        w for w, weight in zip(weights, described)
        if weight.kind != moving_statistics.KIND
    )
    return l2 * tf.add_n([tf.nn.l2_loss(w) for w in trained])  # 0.5 ||w||^2

  optional = {'penalty': penalty} if l2 else {}
  return dict(init=init, predict=predict, layers=described, **optional)


def describe(layers: Sequence[Layer]) -> tuple[functional.LayerWeight, ...]:
  """Returns descriptions of the weights of layers: a kernel and a bias each.

  Only layers with weights are numbered, e.g. 'conv_0', 'conv_1', 'dense_2', so
  that pooling or dropout in between does not change names; layers that describe
  their weights themselves have names of their own.
  """
  described: list[functional.LayerWeight] = []
  weighted = [layer for layer in layers if layer.weight_shapes]
  for number, layer in enumerate(weighted):
    if layer.described is not None:
      described += layer.described
      continue
    described += layer_weights(
        f'{layer.kind}_{number}', dict(kernel=layer.kind, bias='bias'),
        layer.weight_shapes,
    )
  return tuple(described)


def layer_weights(
    name: str, kinds: Mapping[str, str], shapes: Iterable[tuple[int, ...]]
) -> tuple[functional.LayerWeight, ...]:
  """Returns descriptions of the weights of a layer by their names in it."""
  return tuple(
      functional.LayerWeight(f'{name}/{part}', name, kind, shape)
      for (part, kind), shape in zip(kinds.items(), shapes)
  )


def units(
    layers: Sequence[Layer], incoming: Optional[functional.Units] = None
) -> tuple[tuple[Axes, ...], Optional[functional.Units]]:
  """Returns (units of the axes of all weights, units of the output).

  `incoming` are the units of the last axis of x; None: features, never cut.
  """
  found: list[tuple] = []
  number = 0
  for layer in layers:
    if layer.units is not None:
      axes, incoming = layer.units(incoming)
    elif layer.weight_shapes:
      kernel, _ = layer.weight_shapes
      own = functional.Units(f'{layer.kind}_{number}', kernel[-1])
      windows = (None,) * (len(kernel) - 2)
      axes, incoming = ((*windows, incoming, own), (own,)), own
    else:
      axes = ()
    found += axes
    number += bool(layer.weight_shapes)
  return tuple(found), incoming


def renamed(axes: Sequence[Axes], old: Any, new: Any) -> tuple[Axes, ...]:
  """Returns the axes with the units `new` instead of `old`."""
  return tuple(
      tuple(new if units == old else units for units in own) for own in axes
  )


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor:
  """Returns x with entries set to 0 at `rate`, others times 1 / (1 - rate).

  The same seed, int64[2], and shape give the same mask.
  """
  keep = tf.random.stateless_uniform(tf.shape(x), seed) >= rate
  scale = tf.constant(1 / (1 - rate), x.dtype)
  return tf.where(keep, x * scale, tf.zeros_like(x))


def fixed(
    function: Callable[[tf.Tensor], tf.Tensor], output_shape: tuple[int, ...],
    **fields: Any,
) -> Layer:
  """Returns a layer without weights, the same in training, of `function(x)`."""
  return Layer(
      (), output_shape, lambda weights, x, *_: function(x), **fields
  )


def dense(
    units: int, activation: Callable[[tf.Tensor], tf.Tensor] = lambda x: x
) -> MakeLayer:
  """[batch, n] -> [batch, units]."""

  def apply(weights, x, *_):
    kernel, bias = weights
    return activation(low_rank.matmul(x, kernel) + bias)

  return lambda shape: Layer(
      ((shape[0], units), (units,)), (units,), apply, 'dense'
  )


def conv(size: int, filters: int, padding: str = 'VALID') -> MakeLayer:
  """Convolution and ReLU; without padding each side shrinks by size - 1."""
  lost = size - 1 if padding == 'VALID' else 0

  def apply(weights, x, *_):
    kernel, bias = weights
    return tf.nn.relu(low_rank.conv2d(x, kernel, 1, padding) + bias)

  def make(shape):
    height, width, channels = shape
    return Layer(
        ((size, size, channels, filters), (filters,)),
        (height - lost, width - lost, filters),
        apply,
        'conv',
    )

  return make


def batch_normalization(name: str) -> MakeLayer:
  """Batch normalization along the last axis, then scale and offset.

  Momentum 0.9 and epsilon 1e-5, as usual outside of Keras: with 0.99 the
  statistics would lag behind in the few steps of a round.
  """

  def apply(weights, x, training, _):
    scale, offset, mean, variance = weights
    return batch_norm.normalize(
        x, mean, variance, scale, offset, training=training, momentum=0.9,
        epsilon=1e-5, unbiased=True,
    )

  def make(shape):
    shapes = (shape[-1:],) * 4
    kinds = dict(
        scale='norm', offset='norm', moving_mean=moving_statistics.KIND,
        moving_variance=moving_statistics.KIND,
    )
    return Layer(
        shapes, shape, apply, described=layer_weights(name, kinds, shapes),
        units=lambda incoming: (((incoming,),) * 4, incoming),
    )

  return make


def relu() -> MakeLayer:
  """max(x, 0)."""
  return lambda shape: fixed(tf.nn.relu, shape)


def max_pool(size: int = 2) -> MakeLayer:
  """Maxima over size x size windows; incomplete windows are dropped."""
  return lambda shape: fixed(
      lambda x: tf.nn.max_pool2d(x, size, size, 'VALID'),
      (shape[0] // size, shape[1] // size, shape[2]),
  )


def dropout_layer(rate: float) -> MakeLayer:
  """Sets a share `rate` of the entries to 0 in training; see `dropout`."""

  def apply(_, x, training, seed):
    return dropout(x, rate, seed) if training else x

  return lambda shape: Layer((), shape, apply)


def flatten() -> MakeLayer:
  """Flattens every example to a vector."""
  return lambda shape: reshape(math.prod(shape))(shape)


def reshape(*output_shape: int) -> MakeLayer:
  """Reshapes every example to this shape."""

  def make(shape):
    def flat_units(incoming):
      if incoming is None:
        return (), None
      # Channels come last, so that those of one pixel are adjacent.
      return (), incoming._replace(
          positions=incoming.positions * math.prod(shape[:-1])
      )

    return fixed(
        lambda x: tf.reshape(x, [-1, *output_shape]), output_shape,
        units=flat_units,
    )

  return make


def with_channels(x_spec: tf.TensorSpec) -> MakeLayer:
  """Adds a single channel to images without channels, [height, width]."""
  height, width, *channels = x_spec.shape[1:]
  return reshape(height, width, *(channels or [1]))
