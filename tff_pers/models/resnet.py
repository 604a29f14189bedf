"""ResNet-18 and ResNet-34 for small images.

Deep Residual Learning for Image Recognition
    He, Zhang, Ren, Sun. CVPR 2016. https://arxiv.org/abs/1512.03385
Group Normalization
    Wu, He. ECCV 2018. https://arxiv.org/abs/1803.08494
FedHM, Tables 5 and 6 (sizes, and which layers keep their full rank)
    See `factorized`.

The papers use batch normalization, as `resnet18_bn` and `resnet34_bn` do.
`resnet18` and `resnet34` use group normalization, which needs no statistics in
addition to the weights, so that every method can train them.
"""

from typing import Callable, Sequence

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import zoo_layers as zl
from tff_pers.numerics import low_rank

# Basic blocks of each stage.
BLOCKS = {'resnet18': (2, 2, 2, 2), 'resnet34': (3, 4, 6, 3)}
CHANNELS = (64, 128, 256, 512)
_STEM = 'stem'
# Kept at full rank when the model is factorised, in addition to the stem, the
# shortcuts and the classifier: the first stages or blocks.
_WHOLE = {'resnet18': ('stage1/block0/',), 'resnet34': ('stage1/', 'stage2/')}
_MAX_GROUPS = 32
_EPSILON = 1e-5


def layers(
    name: str, scaled: Callable[[int], int], norm: Callable[[str], zl.MakeLayer]
) -> list[zl.MakeLayer]:
  """Returns the layers before the classifier.

  For x of shape [height, width, channels]: a 3 x 3 convolution of stride 1
  (no pooling follows), four stages of basic blocks with strides 1, 2, 2, 2, and
  the mean over all pixels. Convolutions have no biases. `scaled` gives the
  number of channels of a layer from that in the whole model.
  """
  channels = [scaled(count) for count in CHANNELS]
  made = [
      convolution(f'{_STEM}/conv', 3, channels[0]), norm(f'{_STEM}/norm'),
      zl.relu(),
  ]
  for stage, num_blocks in enumerate(BLOCKS[name]):
    for block in range(num_blocks):
      stride = 2 if stage and not block else 1
      block_name = f'stage{stage + 1}/block{block}'
      made.append(_block(block_name, channels[stage], stride, norm))
  return [*made, _mean_over_pixels]


def full_rank(
    name: str, described: Sequence[functional.LayerWeight]
) -> tuple[str, ...]:
  """Returns the names of the layers that FedHM keeps at full rank.

  The stem; for ResNet-18 the first block of stage 1, for ResNet-34 stages 1 and
  2; all shortcuts; the classifier.
  """
  kernels = [w.layer for w in described if w.kind in ('conv', 'dense')]
  return tuple(
      layer for layer in kernels
      if layer.startswith((_STEM, *_WHOLE[name])) or '/shortcut/' in layer
      or layer == kernels[-1]
  )


def _block(name: str, filters: int, stride: int, norm) -> zl.MakeLayer:
  """Basic block: two 3 x 3 convolutions, plus a shortcut, then ReLU."""

  def make(shape):
    path = zl.stack([
        convolution(f'{name}/conv1', 3, filters, stride),
        norm(f'{name}/norm1'), zl.relu(),
        convolution(f'{name}/conv2', 3, filters), norm(f'{name}/norm2'),
    ], shape)
    output_shape = path[-1].output_shape
    projection = [] if output_shape == shape else zl.stack([
        convolution(f'{name}/shortcut/conv', 1, filters, stride),
        norm(f'{name}/shortcut/norm'),
    ], shape)
    shapes = [s for layer in path for s in layer.weight_shapes]
    more = [s for layer in projection for s in layer.weight_shapes]

    def units(incoming):
      axes, outgoing = zl.units(path, incoming)
      shortcut, added = zl.units(projection, incoming)
      # The sum has the units of both; without a projection, those of x.
      axes = zl.renamed(axes, outgoing, added)
      return (*axes, *shortcut), added

    def apply(weights, x, training, seed):
      own, rest = weights[:len(shapes)], weights[len(shapes):]
      return tf.nn.relu(
          zl.apply_all(path, own, x, training, seed)
          + zl.apply_all(projection, rest, x, training, seed)
      )

    return zl.Layer(
        (*shapes, *more), output_shape, apply,
        described=zl.describe([*path, *projection]), units=units,
    )

  return make


def convolution(
    name: str, size: int, filters: int, stride: int = 1
) -> zl.MakeLayer:
  """Convolution without bias, with size // 2 padding on all sides."""
  # Not 'SAME', which for stride 2 pads even sizes on one side only.
  sides = [size // 2, size // 2]
  padding = [[0, 0], sides, sides, [0, 0]]

  def apply(weights, x, *_):
    return low_rank.conv2d(x, weights[0], stride, padding)

  def make(shape):
    height, width, channels = shape
    kernel = (size, size, channels, filters)
    own = functional.Units(name, filters)
    return zl.Layer(
        (kernel,), (-(-height // stride), -(-width // stride), filters), apply,
        described=zl.layer_weights(name, dict(kernel='conv'), [kernel]),
        units=lambda incoming: (((None, None, incoming, own),), own),
    )

  return make


def group_norm(name: str) -> zl.MakeLayer:
  """Group normalization over pixels and channels, then scale and offset.

  There are 32 groups, or the largest smaller number that divides the channels.
  A group has at least two values, because a single one would become 0: with
  images of one pixel, two channels.
  """

  def make(shape):
    height, width, channels = shape
    groups = max(
        g for g in range(1, _MAX_GROUPS + 1)
        if g == 1 or channels % g == 0 and height * width * channels > g
    )

    def apply(weights, x, *_):
      scale, offset = weights
      grouped = tf.reshape(
          x, [-1, height * width, groups, channels // groups]
      )
      mean, variance = tf.nn.moments(grouped, [1, 3], keepdims=True)
      root = tf.math.rsqrt(variance + tf.constant(_EPSILON, x.dtype))
      normalized = tf.reshape((grouped - mean) * root, [-1, *shape])
      return normalized * scale + offset

    shapes = ((channels,), (channels,))
    return zl.Layer(
        shapes, shape, apply,
        described=zl.layer_weights(
            name, dict(scale='norm', offset='norm'), shapes
        ),
        units=lambda incoming: (((incoming,), (incoming,)), incoming),
    )

  return make


def _mean_over_pixels(shape) -> zl.Layer:
  return zl.fixed(lambda x: tf.reduce_mean(x, axis=[1, 2]), shape[-1:])
