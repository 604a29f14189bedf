"""Initializers of weights: `(LayerWeight, seed: int64[2], dtype) -> tensor`."""

import math

import tensorflow as tf

from tff_pers.models import functional


def zeros(
    weight: functional.LayerWeight, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Returns zeros."""
  del seed  # Unused.
  return tf.zeros(weight.shape, dtype)


def glorot(
    weight: functional.LayerWeight, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Glorot uniform kernels (Glorot and Bengio 2010, Eq. 16), zero biases."""
  shape = weight.shape
  if len(shape) == 1:
    return tf.zeros(shape, dtype)
  receptive_field = math.prod(shape[:-2])
  limit = math.sqrt(6 / (receptive_field * (shape[-2] + shape[-1])))
  return tf.random.stateless_uniform(
      shape, seed, tf.constant(-limit, dtype), tf.constant(limit, dtype), dtype
  )


def vgg(
    weight: functional.LayerWeight, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Gaussian convolutions of variance 2 / (height width out); else Glorot."""
  if weight.kind != 'conv':
    return glorot(weight, seed, dtype)
  # The variance is 2 / (9 c_out) for windows of 3 x 3 (papers/floral.md 5.2).
  height, width, _, filters = weight.shape
  return _gaussian(weight.shape, 2 / (height * width * filters), seed, dtype)


def he(
    weight: functional.LayerWeight, seed: tf.Tensor, dtype: tf.DType
) -> tf.Tensor:
  """Gaussian kernels of variance 2 / inputs (He et al. 2015).

  Scales and moving variances are 1, all else is 0.
  """
  if len(weight.shape) > 1:
    inputs = math.prod(weight.shape[:-1])
    return _gaussian(weight.shape, 2 / inputs, seed, dtype)
  is_one = weight.name.endswith(('/scale', '/moving_variance'))
  return (tf.ones if is_one else tf.zeros)(weight.shape, dtype)


def _gaussian(shape, variance: float, seed, dtype):
  std = tf.constant(math.sqrt(variance), dtype)
  return std * tf.random.stateless_normal(shape, seed, dtype=dtype)
