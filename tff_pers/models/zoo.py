"""Models from the papers, built by name.

Convolutional network for EMNIST: Adaptive Federated Optimization
    Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan. ICLR 2021.
Two-layer CNN for CIFAR-10: Distributed Personalized Empirical Risk Minimization
    Deng, Kamani, Mahdavinia, Mahdavi. NeurIPS 2023 (sizes: ours).
CNN for CIFAR-10 and VGG-8 for CIFAR-100: Collaborative and Efficient
Personalization with Mixtures of Adaptors
    Almansoori, Horvath, Takac. CPAL 2025 (sizes: papers/floral.md 5.2).
ResNet-18 and ResNet-34: see `resnet`. Models of tokens: see `sequences`.
Logistic regression of many labels, for tags: Adaptive Federated Optimization.
Its `accuracy` is the recall at 5.
"""

import functools
from typing import Optional
import weakref

import tensorflow as tf

from tff_pers.models import functional
from tff_pers.models import initial_weights
from tff_pers.models import labels
from tff_pers.models import loss_functions
from tff_pers.models import resnet
from tff_pers.models import sequences
from tff_pers.models import submodels
from tff_pers.models import tags
from tff_pers.models import zoo_layers as zl


# By the arguments of `build`.
_made: 'weakref.WeakValueDictionary[str, functional.FunctionalModel]' = (
    weakref.WeakValueDictionary()
)


def recipe(model: functional.FunctionalModel) -> Optional[str]:
  """Returns the arguments of `build` that made a model, None if it did not."""
  return next((text for text, made in _made.items() if made is model), None)


def _noted(build):
  """Returns the decorated `build`, whose models `recipe` knows."""

  @functools.wraps(build)
  def noting(*args, **kwargs):
    model = build(*args, **kwargs)
    _made[repr((args, kwargs))] = model
    return model

  return noting


# Cached, because tasks with several seeds share the same model, and what was
# built from it. A method with models of many widths builds some 25 of them.
@functools.lru_cache(maxsize=64)
@_noted
def build(
    name: str,
    x_spec: tf.TensorSpec,
    num_classes: int,
    dtype: tf.DType = tf.float32,
    l2: float = 0.0,
    num_targets: int = 1,
    width: float = 1.0,
    rounding: str = 'round',
) -> functional.FunctionalModel:
  """Returns the model `name`; its weights are a flat tuple of tensors.

  Kernels start Glorot uniform (convolutions of VGG-8 and of ResNets: Gaussian)
  and biases zero; logistic and linear regression start from zero. Models named
  *_bn have batch normalization (`batch_norm`) and Gaussian kernels. x is cast
  to `dtype`; labels are int32[batch], or for regression `dtype`[batch]
  (`dtype`[batch, num_targets] if it is not 1), or for `logistic_tags` zeros and
  ones, float32[batch, num_classes]. Models of tokens: see `sequences.build`.

  Args:
    name: One of `names()`.
    x_spec: Spec of the features, leading dimension None. The CNNs take images
      [None, height, width] or [None, height, width, channels]; all others
      flatten x.
    num_classes: Number of labels, >= 2; 0: regression (squared error, mean over
      the targets). With 2, `logistic_regression` has one logit.
    dtype: Dtype of the weights, tf.float32 or tf.float64.
    l2: Adds 0.5 * l2 * ||w||^2 over all weights, biases included, to the loss
      of every batch; >= 0.
    num_targets: Numbers to predict per example in regression, >= 1.
    width: Factor of the numbers of units and channels of hidden layers, > 0.
      Inputs and outputs are unchanged.
    rounding: Rounding of these numbers, see `submodels.num_kept`.

  Raises:
    ValueError: If the model is unknown, or does not fit `num_classes` or the
      shape of x; if `l2` < 0 or `width` <= 0.
  """
  if name not in names():
    raise ValueError(
        f'`model` must be one of {", ".join(names())}, found {name!r}.'
    )
  if l2 < 0:
    raise ValueError(f'`l2` must be >= 0, found {l2}.')
  if width <= 0:
    raise ValueError(f'`width` must be > 0, found {width}.')
  _check_num_classes(name, num_classes)
  if name in sequences.MODELS:
    if width != 1:
      raise ValueError(
          f'`width` must be 1 for {name}, which has only one size, found'
          f' {width}.'
      )
    return sequences.build(name, x_spec, num_classes, dtype, l2)
  if x_spec.dtype.is_integer:
    raise ValueError(
        f'`x` must be numbers, not tokens, for {name}, found'
        f' {x_spec.dtype.name} of shape {x_spec.shape}. Tip: models of tokens'
        f' are {", ".join(sequences.MODELS)}.'
    )
  make_layers, initial_weight = _MODELS[name]
  one_logit = name == 'logistic_regression' and num_classes == 2
  num_outputs = 1 if one_logit else num_classes or num_targets
  layers = zl.stack(
      [
          *make_layers(
              x_spec, lambda units: submodels.num_kept(units, width, rounding)
          ),
          zl.flatten(), zl.dense(num_outputs),
      ],
      tuple(x_spec.shape[1:]),
  )
  axes, outputs = zl.units(layers)

  def slim(factor, rounding='round'):
    return build(
        name, x_spec, num_classes, dtype, l2, num_targets, factor * width,
        rounding,
    )

  functions = zl.functions(layers, initial_weight, dtype, l2)
  is_resnet = name in resnet.BLOCKS
  return functional.FunctionalModel(
      **functions, x_spec=x_spec, name=name, takes_factors=True,
      full_rank=(
          resnet.full_rank(name, functions['layers']) if is_resnet else ()
      ),
      slim=slim,
      units=zl.renamed(axes, outputs, None),
      **_loss_and_metrics(name, num_classes, one_logit, num_targets, dtype),
  )


def names() -> list[str]:
  """Returns the names of all models, sorted."""
  return sorted([*_MODELS, *sequences.MODELS])


def _loss_and_metrics(
    name: str, num_classes: int, one_logit: bool, num_targets: int, dtype
):
  """Returns the arguments of a model that depend on its labels."""
  if num_classes == 0:
    targets = [] if num_targets == 1 else [num_targets]
    return dict(
        example_loss=loss_functions.squared_error,
        y_spec=tf.TensorSpec([None, *targets], dtype),
    )
  if name == 'logistic_tags':
    return dict(
        example_loss=tags.multilabel_crossentropy,
        y_spec=tf.TensorSpec([None, num_classes], tf.float32),
        metrics={'accuracy': tags.recall_at_5},
        weights_of={'accuracy': tags.num_labels},
    )
  loss, accuracy = (
      (loss_functions.binary_crossentropy, loss_functions.binary_accuracy)
      if one_logit
      else (
          loss_functions.sparse_categorical_crossentropy,
          loss_functions.categorical_accuracy,
      )
  )
  return dict(
      example_loss=loss,
      y_spec=tf.TensorSpec([None], tf.int32),
      labels=labels.Labels(num_classes),
      metrics={'accuracy': accuracy},
  )


def _check_num_classes(name: str, num_classes: int) -> None:
  if num_classes < 0 or num_classes == 1:
    raise ValueError(
        f'`num_classes` must be >= 2, or 0 for regression, found {num_classes}.'
    )
  if name in _CLASSIFIERS and num_classes == 0:
    raise ValueError(
        f'`num_classes` must be >= 2 for {name}, found 0 (regression). Tip: use'
        ' linear_regression or mlp.'
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


# Functions that build layers from the spec of x and from `scaled`, which gives
# the width of a layer from its number of units or channels.


def _linear(x_spec, scaled):
  del x_spec, scaled  # Any shape; no hidden layers.
  return []


def _resnet(name: str, norm=resnet.group_norm):

  def make_layers(x_spec, scaled):
    _check_images(name, x_spec, minimum=8)
    return [zl.with_channels(x_spec), *resnet.layers(name, scaled, norm)]

  return make_layers


def _mlp(*hidden: int):
  return lambda x_spec, scaled: [
      zl.flatten(), *(zl.dense(scaled(units), tf.nn.relu) for units in hidden),
  ]


def _mlp_bn(x_spec, scaled):
  del x_spec  # Any shape.
  hidden = [
      layer for number in (1, 2) for layer in (
          zl.dense(scaled(200)), zl.batch_normalization(f'norm_{number}'),
          zl.relu(),
      )
  ]
  return [zl.flatten(), *hidden]


def _cnn_bn(x_spec, scaled):
  _check_images('cnn_bn', x_spec, minimum=4)
  blocks = [
      layer for name, filters in (('conv_1', 32), ('conv_2', 64)) for layer in (
          resnet.convolution(name, 3, scaled(filters)),
          zl.batch_normalization(f'{name}/norm'), zl.relu(), zl.max_pool(),
      )
  ]
  return [
      zl.with_channels(x_spec), *blocks, zl.flatten(), zl.dense(scaled(128)),
      zl.batch_normalization('dense/norm'), zl.relu(),
  ]


def _emnist_cnn(x_spec, scaled):
  _check_images('emnist_cnn', x_spec, minimum=6)
  return [
      zl.with_channels(x_spec), zl.conv(3, scaled(32)),
      zl.conv(3, scaled(64)), zl.max_pool(), zl.dropout_layer(0.25),
      zl.flatten(), zl.dense(scaled(128), tf.nn.relu), zl.dropout_layer(0.5),
  ]


def _cifar_cnn(x_spec, scaled):
  _check_images('cifar_cnn', x_spec, minimum=16)
  return [
      zl.with_channels(x_spec), zl.conv(5, scaled(20)), zl.max_pool(),
      zl.conv(5, scaled(50)), zl.max_pool(), zl.flatten(),
      zl.dense(scaled(512), tf.nn.relu),
  ]


def _floral_cnn(x_spec, scaled):
  _check_images('floral_cnn', x_spec, minimum=14)
  return [
      zl.with_channels(x_spec), zl.conv(5, scaled(32)), zl.max_pool(2),
      zl.conv(3, scaled(64)), zl.max_pool(3), zl.flatten(),
      zl.dense(scaled(64), tf.nn.relu),
  ]


def _vgg8(x_spec, scaled):
  _check_images('vgg8', x_spec, minimum=32)
  blocks = [
      layer for filters in (16, 32, 64, 128, 512)
      for layer in (zl.conv(3, scaled(filters), 'SAME'), zl.max_pool())
  ]
  return [
      zl.with_channels(x_spec), *blocks, zl.flatten(), zl.dropout_layer(0.5),
      zl.dense(scaled(512), tf.nn.relu), zl.dropout_layer(0.5),
      zl.dense(scaled(512), tf.nn.relu),
  ]


_CLASSIFIERS = ('logistic_regression', 'logistic_tags', *sequences.MODELS)

# Name: (layers before the last dense one, initializer of a weight).
_MODELS = {
    'cifar_cnn': (_cifar_cnn, initial_weights.glorot),
    'cnn_bn': (_cnn_bn, initial_weights.he),
    'emnist_cnn': (_emnist_cnn, initial_weights.glorot),
    'floral_cnn': (_floral_cnn, initial_weights.glorot),
    'linear_regression': (_linear, initial_weights.zeros),
    'logistic_regression': (_linear, initial_weights.zeros),
    'logistic_tags': (_linear, initial_weights.zeros),
    'mlp': (_mlp(200, 200), initial_weights.glorot),
    'mlp_128': (_mlp(128, 128, 128), initial_weights.he),
    'mlp_20': (_mlp(20), initial_weights.glorot),
    'mlp_200': (_mlp(200), initial_weights.glorot),
    'mlp_50': (_mlp(50), initial_weights.glorot),
    'mlp_bn': (_mlp_bn, initial_weights.he),
    'mlp_small': (_mlp(64), initial_weights.glorot),
    'resnet18': (_resnet('resnet18'), initial_weights.he),
    'resnet18_bn': (
        _resnet('resnet18', zl.batch_normalization), initial_weights.he
    ),
    'resnet34': (_resnet('resnet34'), initial_weights.he),
    'resnet34_bn': (
        _resnet('resnet34', zl.batch_normalization), initial_weights.he
    ),
    'vgg8': (_vgg8, initial_weights.vgg),
}
