"""Batch normalization whose moving statistics are weights without a gradient.

In training a layer normalizes by mean and variance of the batch's valid rows,
and its moving statistics follow by

    moving <- momentum moving + (1 - momentum) statistic of the batch

as in Keras; see `moving_statistics`.

Batch Normalization: Accelerating Deep Network Training by Reducing Internal
Covariate Shift
    Ioffe, Szegedy. ICML 2015.
"""

from typing import Any, Optional, Sequence

import tensorflow as tf

from tff_pers.models import moving_statistics


def normalize(
    x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, scale: Any, offset: Any,
    *, training: bool, momentum: float = 0.99, epsilon: float = 1e-3,
    axis: int = -1, unbiased: bool = False, mask: Optional[tf.Tensor] = None,
) -> tf.Tensor:
  """Returns scale (x - m) / sqrt(v + epsilon) + offset, shape and dtype of x.

  In training m and v are those of the batch, and the `Recording` gets the next
  moving statistics; else they are the moving ones. A batch without valid rows
  moves nothing; a single row has v = 0. x is [batch, ...], with the channels
  along `axis`; all vectors are [channels], scale and offset 1 and 0 if None. A
  moving variance below 0, which an attacker may have sent, counts as 0.

  With `unbiased` it follows the variance times n / (n - 1), Bessel's factor,
  as in TensorFlow's fused kernels. The mask, bool [batch, ...], marks valid
  entries; axes up to the channels' may be left out; None: all entries of the
  recording's rows.
  """
  mean, variance = map(tf.convert_to_tensor, (mean, variance))
  values = tf.cast(x, mean.dtype)
  axis %= x.shape.rank
  others = [i for i in range(x.shape.rank) if i != axis]
  shape = [-1 if i == axis else 1 for i in range(x.shape.rank)]
  if training:
    batch_mean, batch_variance, count = _moments(values, others, shape, mask)
    into = moving_statistics.current()
    target = batch_variance
    if unbiased:
      target *= tf.maximum(count, 1) / tf.maximum(count - 1, 1)
    for old, new in ((mean, batch_mean), (variance, target)):
      before = into.after(old)  # A layer may be called twice.
      keep = 0.0 if into.of_batch else momentum
      follow = tf.constant(1 - keep, old.dtype) * (new - before)
      into.put(old, before + tf.where(count > 0, follow, tf.zeros_like(follow)))
    mean, variance = batch_mean, batch_variance
  root = tf.math.rsqrt(
      tf.maximum(variance, 0) + tf.constant(epsilon, mean.dtype)
  )
  factor = root if scale is None else root * scale
  shift = -mean * factor if offset is None else offset - mean * factor
  return tf.cast(
      values * tf.reshape(factor, shape) + tf.reshape(shift, shape), x.dtype
  )


def _moments(x, axes: Sequence[int], shape: Sequence[int], mask):
  """Returns (mean, variance, number) of the values of each channel.

  The axes are all but the channels'; the shape broadcasts a vector of the
  channels to x, [batch, ...].
  """
  rows = moving_statistics.current().mask
  if rows is None:
    rows = tf.ones(tf.shape(x)[:1], tf.bool)
  # A wrapped layer may see the steps of a sequence as rows, with those of one
  # example adjacent.
  rows = tf.repeat(rows, tf.shape(x)[0] // tf.shape(rows)[0])
  counts = tf.reshape(rows, [-1] + [1] * (x.shape.rank - 1))
  if mask is not None:
    ones = [1] * (x.shape.rank - mask.shape.rank)
    counts &= tf.reshape(mask, tf.concat([tf.shape(mask), ones], 0))
  counts = tf.cast(counts, x.dtype)
  if mask is not None:
    # Per channel, because one channel may have more valid steps than another.
    number = tf.reduce_sum(tf.ones_like(x) * counts, axes)
  else:
    others = tf.constant(axes[1:], tf.int32)
    places = tf.reduce_prod(tf.gather(tf.shape(x), others))
    number = tf.reduce_sum(counts) * tf.cast(places, x.dtype)
  total = lambda values: (
      tf.reduce_sum(values * counts, axes) / tf.maximum(number, 1)
  )
  mean = total(x)
  variance = total(tf.math.squared_difference(x, tf.reshape(mean, shape)))
  return mean, variance, number
