"""`==` and `!=` of tensors where functions of somebody else are called.

In the legacy graphs that TFF traces, TensorFlow compares objects by them, and
the answer is False without a word. Within `elementwise` it is as everywhere
else, a tensor.
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
    # With None, too, it is a question about objects.
    is_on = _IS_ON.get() and other is not None
    return compare(tensor, other) if is_on else usual(tensor, other)

  return switched


# A method that belongs to the class: instances cannot have their own.
tf.Tensor.__eq__ = _switched(tf.Tensor.__eq__, tf.equal)
tf.Tensor.__ne__ = _switched(tf.Tensor.__ne__, tf.not_equal)


@contextlib.contextmanager
def elementwise() -> Iterator[None]:
  """Makes comparisons tensors, whatever graph is being traced."""
  token = _IS_ON.set(True)
  try:
    yield
  finally:
    _IS_ON.reset(token)


def function_of(layer: Any) -> Optional[Callable[..., Any]]:
  """Returns what a layer that Keras made of `==` or `!=` computes.

  Args:
    layer: Any layer; None is returned of others.
  """
  return {
      '__operators__.eq': tf.equal, '__operators__.ne': tf.not_equal,
  }.get(getattr(layer, 'symbol', ''))
