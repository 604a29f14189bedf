"""Models of images that are randomly flipped and cropped in training.

Every example of a batch has its own draws, derived from the batch's seed.
Predictions outside of training are not random.
"""

import dataclasses
from typing import Any, Callable, Sequence

import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import functional

# Different uses of a batch's seed, which feeds dropout, too.
_FLIP, _ROWS, _COLUMNS = -1, -2, -3
_SMALLEST_DEVIATION = 1e-6


def flip_and_crop(
    model: functional.FunctionalModel, fill: Sequence[float], padding: int = 4
) -> functional.FunctionalModel:
  """Returns the model with images randomly flipped and shifted in training.

  As in FedHM and FLoRAL: the image [height, width, channels] is flipped left to
  right with probability 1/2, framed with `padding` pixels of the color `fill`,
  black, and cropped to a random window of its own size.
  """
  height, width = model.x_spec.shape[1:3]

  def train(x, seed):
    black = tf.constant(fill, x.dtype)
    frame = [[0, 0], [padding, padding], [padding, padding], [0, 0]]
    # `tf.pad` fills with 0, so black is subtracted before.
    framed = tf.pad(_flip(x, seed) - black, frame) + black
    return _random_window(framed, height, width, seed)

  return _wrap(model, model.x_spec, train, lambda x: x)


def crop(
    build: Callable[[tf.TensorSpec], functional.FunctionalModel],
    x_spec: tf.TensorSpec,
    size: int = 24,
) -> functional.FunctionalModel:
  """Returns a model of windows of images, each standardized.

  Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
  (papers/local_update_methods.md 4.2): a random window of a flipped image in
  training, else the window in the middle; minus its mean, over its deviation.
  `build` makes the model of windows, `size` x `size`, from their spec.
  """
  height, width, channels = x_spec.shape[1:]
  top, left = (height - size) // 2, (width - size) // 2

  def train(x, seed):
    window = _random_window(_flip(x, seed), size, size, seed)
    return _standardized(window)

  def test(x):
    return _standardized(x[:, top:top + size, left:left + size])

  inner = build(tf.TensorSpec([None, size, size, channels], x_spec.dtype))
  return _wrap(inner, x_spec, train, test)


def _wrap(model, x_spec, train, test) -> functional.FunctionalModel:
  """Returns the model on `train(x, seed)` in training, else on `test(x)`."""

  def predict(weights, x, training: bool, seed) -> Any:
    x = tf.cast(x, model.dtype)
    seen = train(x, seed) if training else test(x)
    return model.predict(weights, seen, training, seed)

  slim = model.slim and (
      lambda width, rounding='round': _wrap(
          model.slim(width, rounding), x_spec, train, test
      )
  )
  return dataclasses.replace(model, predict=predict, x_spec=x_spec, slim=slim)


def _flip(x, seed):
  """Returns x with each image flipped left to right with probability 1/2."""
  draws = tf.random.stateless_uniform(
      [tf.shape(x)[0], 1, 1, 1], random.fold_in(seed, _FLIP)
  )
  return tf.where(draws < 0.5, x[:, :, ::-1], x)


def _random_window(x, height: int, width: int, seed):
  """Returns a window of each image, at separately drawn places."""
  size = tf.shape(x)[0]

  def places(use: int, extent: int, room: int):
    first = tf.random.stateless_uniform(
        [size, 1], random.fold_in(seed, use), 0, room - extent + 1, tf.int32
    )
    return first + tf.range(extent)

  x = tf.gather(x, places(_ROWS, height, x.shape[1]), axis=1, batch_dims=1)
  return tf.gather(x, places(_COLUMNS, width, x.shape[2]), axis=2, batch_dims=1)


def _standardized(x):
  """Returns each image minus its mean, over its standard deviation."""
  mean, variance = tf.nn.moments(x, axes=[1, 2, 3], keepdims=True)
  return (x - mean) / (tf.sqrt(variance) + _SMALLEST_DEVIATION)
