"""The models of the papers, built by name.

Convolutional network for EMNIST: Adaptive Federated Optimization
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. ICLR 2021.
Two-layer CNN for CIFAR-10: Distributed Personalized Empirical Risk Minimization
    Deng, Kamani, Mahdavinia, Mahdavi. NeurIPS 2023 (sizes: papers/perm.md 4.2).
CNN for CIFAR-10 and VGG-8 for CIFAR-100: Collaborative and Efficient
Personalization with Mixtures of Adaptors
    Almansoori, Horvath, Takac. 2024 (sizes: papers/floral.md 5.2).
"""

import math
from typing import Any, Callable, NamedTuple, Sequence

import tensorflow as tf

from tff_pers import random
from tff_pers.models import functional
from tff_pers.numerics import low_rank


class Layer(NamedTuple):
  """One layer for inputs of a known shape.

  Attributes:
    weight_shapes: Shapes of its weights.
    output_shape: Shape of its output without the batch dimension.
    apply: `(weights, x, training, seed) -> x`.
  """

  weight_shapes: tuple[tuple[int, ...], ...]
  output_shape: tuple[int, ...]
  apply: Callable[[Any, Any, bool, Any], Any]


# A layer yet to be told the shape of its input.
MakeLayer = Callable[[tuple[int, ...]], Layer]


def build(
    name: str,
    x_spec: tf.TensorSpec,
    num_classes: int,
    dtype: tf.DType = tf.float32,
    l2: float = 0.0,
    num_targets: int = 1,
) -> functional.FunctionalModel:
  """Returns the model `name`; its weights are a flat tuple of tensors.

  Kernels start Glorot uniform (convolutions of VGG-8: Gaussian) and biases
  zero; logistic and linear regression start from zero. x is cast to `dtype`;
  labels are int32[batch], or for regression `dtype`[batch] (`dtype`[batch,
  num_targets] if it is not 1).

  Args:
    name: One of `names()`.
    x_spec: Spec of the features, leading dimension None. The CNNs take images
      [None, height, width] or [None, height, width, channels]; the others
      flatten whatever they get.
    num_classes: Number of labels, >= 2; 0: regression (squared error, mean over
      the targets). With 2, `logistic_regression` has one logit.
    dtype: Of the weights: tf.float32 or tf.float64.
    l2: Adds 0.5 * l2 * ||w||^2 over all weights, biases included, to the loss
      of every batch; >= 0.
    num_targets: Numbers to predict per example in regression, >= 1.

  Raises:
    ValueError: If there is no such model, or it does not fit `num_classes` or
      the shape of x; if `l2` < 0.
  """
  if name not in _MODELS:
    raise ValueError(
        f'`model` must be one of {", ".join(names())}, found {name!r}.'
    )
  if l2 < 0:
    raise ValueError(f'`l2` must be >= 0, found {l2}.')
  _check_num_classes(name, num_classes)
  make_layers, initial_weight = _MODELS[name]
  one_logit = name == 'logistic_regression' and num_classes == 2
  num_outputs = 1 if one_logit else num_classes or num_targets
  layers = _stack(
      [*make_layers(x_spec), _flatten(), _dense(num_outputs)],
      tuple(x_spec.shape[1:]),
  )
  shapes = [shape for layer in layers for shape in layer.weight_shapes]

  def init(seed):
    return tuple(
        initial_weight(shape, random.fold_in(seed, position), dtype)
        for position, shape in enumerate(shapes)
    )

  def predict(weights, x, training, seed):
    return _apply(layers, weights, tf.cast(x, dtype), training, seed)

  def penalty(weights):
    return l2 * tf.add_n([tf.nn.l2_loss(w) for w in weights])  # 0.5 ||w||^2

  optional = {'penalty': penalty} if l2 else {}
  return functional.FunctionalModel(
      init, predict, x_spec=x_spec, name=name, takes_factors=True, **optional,
      **_loss_and_metrics(num_classes, one_logit, num_targets, dtype),
  )


def names() -> list[str]:
  """Returns the names of all models, sorted."""
  return sorted(_MODELS)


def dropout(x, rate: float, seed):
  """Returns x with entries zeroed with probability `rate`, else / (1 - rate).

  Args:
    x: Floats of any shape.
    rate: In [0, 1).
    seed: int64[2]; the same seed and shape give the same mask.
  """
  keep = tf.random.stateless_uniform(tf.shape(x), seed) >= rate
  scale = tf.constant(1 / (1 - rate), x.dtype)
  return tf.where(keep, x * scale, tf.zeros_like(x))


def _loss_and_metrics(
    num_classes: int, one_logit: bool, num_targets: int, dtype
):
  """Returns the arguments of a model that its labels decide."""
  if num_classes == 0:
    targets = [] if num_targets == 1 else [num_targets]
    return dict(
        example_loss=functional.squared_error,
        y_spec=tf.TensorSpec([None, *targets], dtype),
    )
  loss, accuracy = (
      (functional.binary_crossentropy, functional.binary_accuracy)
      if one_logit
      else (
          functional.sparse_categorical_crossentropy,
          functional.categorical_accuracy,
      )
  )
  return dict(
      example_loss=loss,
      y_spec=tf.TensorSpec([None], tf.int32),
      metrics={'accuracy': accuracy},
  )


def _check_num_classes(name: str, num_classes: int) -> None:
  if num_classes < 0 or num_classes == 1:
    raise ValueError(
        f'`num_classes` must be >= 2, or 0 for regression, found {num_classes}.'
    )
  if name == 'logistic_regression' and num_classes == 0:
    raise ValueError(
        '`num_classes` must be >= 2 for logistic_regression, found 0'
        ' (regression). Tip: use linear_regression or mlp.'
    )
  if name == 'linear_regression' and num_classes > 0:
    raise ValueError(
        '`num_classes` must be 0 for linear_regression, found'
        f' {num_classes}. Tip: use logistic_regression or mlp.'
    )


def _check_images(name: str, x_spec: tf.TensorSpec, minimum: int) -> None:
  shape = x_spec.shape[1:]
  is_image = shape.rank in (2, 3) and shape.is_fully_defined()
  if not is_image or min(shape[:2]) < minimum:
    raise ValueError(
        '`x` must be images of shape [height, width] or [height, width,'
        f' channels] with at least {minimum} x {minimum} pixels for {name},'
        f' found shape {shape}. Tip: mlp takes any shape.'
    )


def _stack(makers: Sequence[MakeLayer], shape) -> list[Layer]:
  """Returns the layers, each made for the output shape of the one before."""
  layers = []
  for make in makers:
    layers.append(make(shape))
    shape = layers[-1].output_shape
  return layers


def _apply(layers: Sequence[Layer], weights, x, training: bool, seed):
  """Applies the layers in turn; each takes its own weights and key."""
  taken = 0
  for position, layer in enumerate(layers):
    count = len(layer.weight_shapes)
    own = weights[taken:taken + count]
    taken += count
    x = layer.apply(own, x, training, random.fold_in(seed, position))
  return x


def _zeros(shape, seed, dtype):
  del seed  # Unused.
  return tf.zeros(shape, dtype)


def _glorot(shape, seed, dtype):
  """Glorot uniform kernels (Glorot and Bengio 2010, Eq. 16), zero biases."""
  if len(shape) == 1:
    return tf.zeros(shape, dtype)
  receptive_field = math.prod(shape[:-2])
  limit = math.sqrt(6 / (receptive_field * (shape[-2] + shape[-1])))
  return tf.random.stateless_uniform(
      shape, seed, tf.constant(-limit, dtype), tf.constant(limit, dtype), dtype
  )


def _vgg(shape, seed, dtype):
  """Gaussian convolutions of variance 2 / (height width out); else Glorot."""
  if len(shape) != 4:
    return _glorot(shape, seed, dtype)
  height, width, _, filters = shape
  std = tf.constant(math.sqrt(2 / (height * width * filters)), dtype)
  return std * tf.random.stateless_normal(shape, seed, dtype=dtype)


def _relu(x):
  return tf.nn.relu(x)


def _identity(x):
  return x


def _dense(units: int, activation=_identity) -> MakeLayer:
  """[batch, n] -> [batch, units]."""

  def apply(weights, x, training, seed):
    del training, seed  # Unused.
    kernel, bias = weights
    return activation(low_rank.matmul(x, kernel) + bias)

  return lambda shape: Layer(((shape[0], units), (units,)), (units,), apply)


def _conv(size: int, filters: int, padding: str = 'VALID') -> MakeLayer:
  """Convolution, ReLU; without padding each side shrinks by size - 1."""
  lost = size - 1 if padding == 'VALID' else 0

  def apply(weights, x, training, seed):
    del training, seed  # Unused.
    kernel, bias = weights
    return tf.nn.relu(tf.nn.conv2d(x, kernel, 1, padding) + bias)

  def make(shape):
    height, width, channels = shape
    return Layer(
        ((size, size, channels, filters), (filters,)),
        (height - lost, width - lost, filters),
        apply,
    )

  return make


def _max_pool(size: int = 2) -> MakeLayer:
  """Maxima over size x size windows; what is left of a side is left out."""

  def apply(weights, x, training, seed):
    del weights, training, seed  # Unused.
    return tf.nn.max_pool2d(x, size, size, 'VALID')

  return lambda shape: Layer(
      (), (shape[0] // size, shape[1] // size, shape[2]), apply
  )


def _dropout(rate: float) -> MakeLayer:

  def apply(weights, x, training, seed):
    del weights  # Unused.
    return dropout(x, rate, seed) if training else x

  return lambda shape: Layer((), shape, apply)


def _flatten() -> MakeLayer:
  return lambda shape: _reshape(math.prod(shape))(shape)


def _reshape(*output_shape: int) -> MakeLayer:

  def apply(weights, x, training, seed):
    del weights, training, seed  # Unused.
    return tf.reshape(x, [-1, *output_shape])

  return lambda shape: Layer((), output_shape, apply)


def _with_channels(x_spec: tf.TensorSpec) -> MakeLayer:
  height, width, *channels = x_spec.shape[1:]
  return _reshape(height, width, *(channels or [1]))


def _linear(x_spec):
  del x_spec  # Any shape.
  return []


def _mlp(*hidden: int):
  return lambda x_spec: [
      _flatten(), *(_dense(units, _relu) for units in hidden)
  ]


def _emnist_cnn(x_spec):
  _check_images('emnist_cnn', x_spec, minimum=6)
  return [
      _with_channels(x_spec), _conv(3, 32), _conv(3, 64), _max_pool(),
      _dropout(0.25), _flatten(), _dense(128, _relu), _dropout(0.5),
  ]


def _cifar_cnn(x_spec):
  _check_images('cifar_cnn', x_spec, minimum=16)
  return [
      _with_channels(x_spec), _conv(5, 20), _max_pool(), _conv(5, 50),
      _max_pool(), _flatten(), _dense(512, _relu),
  ]


def _floral_cnn(x_spec):
  _check_images('floral_cnn', x_spec, minimum=14)
  return [
      _with_channels(x_spec), _conv(5, 32), _max_pool(2), _conv(3, 64),
      _max_pool(3), _flatten(), _dense(64, _relu),
  ]


def _vgg8(x_spec):
  _check_images('vgg8', x_spec, minimum=32)
  blocks = [
      layer for filters in (16, 32, 64, 128, 512)
      for layer in (_conv(3, filters, 'SAME'), _max_pool())
  ]
  return [
      _with_channels(x_spec), *blocks, _flatten(), _dropout(0.5),
      _dense(512, _relu), _dropout(0.5), _dense(512, _relu),
  ]


# Name: (layers before the last dense one, how a weight starts).
_MODELS = {
    'cifar_cnn': (_cifar_cnn, _glorot),
    'emnist_cnn': (_emnist_cnn, _glorot),
    'floral_cnn': (_floral_cnn, _glorot),
    'linear_regression': (_linear, _zeros),
    'logistic_regression': (_linear, _zeros),
    'mlp': (_mlp(200, 200), _glorot),
    'mlp_20': (_mlp(20), _glorot),
    'mlp_200': (_mlp(200), _glorot),
    'mlp_50': (_mlp(50), _glorot),
    'mlp_small': (_mlp(64), _glorot),
    'vgg8': (_vgg8, _vgg),
}
