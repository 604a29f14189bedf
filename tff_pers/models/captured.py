"""Eager tensors that functions of somebody else take from outside.

TFF traces graphs that are no functions: they take no tensor from outside, so
class weights as `tf.constant` in a loss, or the mean and variance in Keras'
`Normalization`, would be refused there. While such a function is called, its
tensors are constants of whatever graph asks for them.
"""

import contextlib
import functools
from typing import Any, Callable, Iterator

import tensorflow as tf

_HANDLES = (tf.resource, tf.variant)


class Captured:
  """What a function takes from outside.

  Attributes:
    handles: Those that are no values, e.g. of variables and tables.
  """

  def __init__(self, trace: Any):
    """Initializes it from a `tf.types.experimental.ConcreteFunction`."""
    tensors = list(trace.captured_inputs)
    self.handles = [t for t in tensors if t.dtype in _HANDLES]
    # The tensor is kept, because a new one could have its place in memory.
    self._values = [(t, t.numpy()) for t in tensors if t.dtype not in _HANDLES]

  @contextlib.contextmanager
  def as_constants(self) -> Iterator[None]:
    """Makes each of the tensors a constant where it is used."""
    with contextlib.ExitStack() as stack:
      for tensor, value in self._values:
        stack.enter_context(overriding(
            tensor, __tf_tensor__=_constant(value, tensor.dtype)
        ))
      yield

  def held(self, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `function`, whose tensors are constants in any graph."""
    if not self._values:
      return function

    @functools.wraps(function)
    def called(*arguments):
      with self.as_constants():
        return function(*arguments)

    return called


def _constant(value, own_dtype):

  def convert(dtype=None, name=None):
    constant = tf.constant(value, own_dtype, name=name)
    # Of another type: TensorFlow's own complaint.
    return constant if dtype is None else tf.convert_to_tensor(constant, dtype)

  return convert


@contextlib.contextmanager
def overriding(target: Any, **attributes: Any) -> Iterator[None]:
  """Sets attributes of the instance `target` for a while, untracked."""
  before = {k: vars(target)[k] for k in attributes if k in vars(target)}
  vars(target).update(attributes)
  try:
    yield
  finally:
    for name in attributes:
      del vars(target)[name]
    vars(target).update(before)
