"""Makes `==` and `!=` of tensors elementwise in users' functions.

In the legacy graphs that TFF traces, TensorFlow compares identities, and the
result is silently False. Within `elementwise` it is a tensor, as everywhere
else.
"""

import contextlib
import contextvars
from typing import Any, Callable, Iterator, Optional

import tensorflow as tf

_IS_ON: contextvars.ContextVar[bool] = contextvars.ContextVar(
    'elementwise', default=False
)


def _switched(usual, compare):

  def switched(tensor, other):
    # A comparison with None is always about identity.
    is_on = _IS_ON.get() and other is not None
    return compare(tensor, other) if is_on else usual(tensor, other)

  return switched


# Changed in the class, because Python ignores such methods of instances.
tf.Tensor.__eq__ = _switched(tf.Tensor.__eq__, tf.equal)
tf.Tensor.__ne__ = _switched(tf.Tensor.__ne__, tf.not_equal)


@contextlib.contextmanager
def elementwise() -> Iterator[None]:
  """Makes comparisons elementwise, whatever graph is being traced."""
  token = _IS_ON.set(True)
  try:
    yield
  finally:
    _IS_ON.reset(token)


def function_of(layer: Any) -> Optional[Callable[..., Any]]:
  """Returns the function of a layer that Keras made from `==` or `!=`.

  For other layers it is None.
  """
  return {
      '__operators__.eq': tf.equal, '__operators__.ne': tf.not_equal,
  }.get(getattr(layer, 'symbol', ''))
