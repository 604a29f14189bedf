"""Batch normalization whose moving statistics are weights without a gradient.

In training a layer normalizes by mean and variance of the batch's valid rows,
and its moving statistics follow by

    moving <- momentum moving + (1 - momentum) statistic of the batch

as in Keras. They are leaves of the model's weights (kind 'statistics'), so they
are sent, averaged, kept by a client and exported like all others.
`FunctionalModel.loss_and_gradient` opens a `Recording`, in which each layer
records the new values of its statistics. Their change takes the gradient's
place, and `local_step` subtracts it unscaled: no learning rate, momentum,
penalty or clipping applies to it.

Batch Normalization: Accelerating Deep Network Training by Reducing Internal
Covariate Shift
    Ioffe, Szegedy. ICML 2015.
"""

import contextlib
import contextvars
from typing import Any, Iterator, Optional, Sequence

import tensorflow as tf

KIND = 'statistics'  # A `functional.LayerWeight.kind`.
_CURRENT: contextvars.ContextVar[Optional['Recording']] = (
    contextvars.ContextVar('recording', default=None)
)


class Recording:
  """Records moving statistics while a batch passes through a model.

  Attributes:
    mask: bool[batch], the valid rows; None: all.
    of_batch: Whether the statistics become those of the batch alone.
  """

  def __init__(self, mask: Optional[tf.Tensor], of_batch: bool = False):
    self.mask = mask
    self.of_batch = of_batch
    self._moved: dict[Any, tf.Tensor] = {}

  def put(self, statistic: tf.Tensor, value: tf.Tensor) -> None:
    """Records the next value of a leaf of the weights."""
    self._moved[statistic.ref()] = value

  def after(self, statistic: tf.Tensor) -> tf.Tensor:
    """Returns a leaf's next value; its current one if no layer moved it."""
    return self._moved.get(statistic.ref(), statistic)


@contextlib.contextmanager
def recording(
    mask: Optional[tf.Tensor], of_batch: bool = False
) -> Iterator[Recording]:
  """Opens a `Recording` for what is computed inside."""
  made = Recording(mask, of_batch)
  token = _CURRENT.set(made)
  try:
    yield made
  finally:
    _CURRENT.reset(token)


def current() -> Recording:
  """Returns the innermost recording; outside of one, all rows are valid."""
  return _CURRENT.get() or Recording(None)


def normalize(
    x: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, scale: Any, offset: Any,
    *, training: bool, momentum: float = 0.99, epsilon: float = 1e-3,
    axis: int = -1, unbiased: bool = False, mask: Optional[tf.Tensor] = None,
) -> tf.Tensor:
  """Returns scale (x - m) / sqrt(v + epsilon) + offset, shape and dtype of x.

  In training m and v are those of the batch, and the `Recording` gets the next
  moving statistics; else they are the moving ones. A batch without valid rows
  moves nothing; a single row has v = 0.

  Args:
    x: [batch, ...].
    mean: Moving mean of each channel, [channels].
    variance: Moving variance, [channels]; values below 0, which an attacker may
      have sent, count as 0.
    scale: [channels], or None: 1.
    offset: [channels], or None: 0.
    training: See above.
    momentum: See the module.
    epsilon: See above, > 0.
    axis: The axis of the channels.
    unbiased: Whether the moving variance follows the variance with Bessel's
      correction n / (n - 1), as in TensorFlow's fused kernels.
    mask: bool [batch, ...], the valid entries; axes up to the channels' may be
      left out; None: all entries of the recording's rows.
  """
  mean, variance = map(tf.convert_to_tensor, (mean, variance))
  values = tf.cast(x, mean.dtype)
  axis %= x.shape.rank
  others = [i for i in range(x.shape.rank) if i != axis]
  shape = [-1 if i == axis else 1 for i in range(x.shape.rank)]
  if training:
    batch_mean, batch_variance, count = _moments(values, others, shape, mask)
    _record(
        mean, variance, batch_mean, batch_variance, count, momentum, unbiased
    )
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

  Args:
    x: [batch, ...].
    axes: All axes except the channels'.
    shape: Shape that broadcasts a vector of the channels to x.
    mask: See `normalize`.
  """
  rows = current().mask
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


def _record(
    mean, variance, batch_mean, batch_variance, count, momentum, unbiased
) -> None:
  """Records the next moving statistics."""
  into = current()
  if unbiased:
    batch_variance *= tf.maximum(count, 1) / tf.maximum(count - 1, 1)
  for old, new in ((mean, batch_mean), (variance, batch_variance)):
    before = into.after(old)  # A layer may be called twice.
    keep = 0.0 if into.of_batch else momentum
    follow = tf.constant(1 - keep, old.dtype) * (new - before)
    into.put(old, before + tf.where(count > 0, follow, tf.zeros_like(follow)))
