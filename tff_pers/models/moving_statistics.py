"""Moving statistics of batch normalization: weights without a gradient.

They are leaves of the model's weights (kind 'statistics'), so they are sent,
averaged, kept by a client and exported like all others.
`FunctionalModel.loss_and_gradient` opens a `Recording`, in which each layer
(`batch_norm`) records the new values of its statistics. Their change takes the
gradient's place, and `local_step` subtracts it unscaled: no learning rate,
momentum, penalty or clipping applies to it.
"""

import contextlib
import contextvars
from typing import Any, Iterator, Optional

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
