"""Makes eager tensors that users' functions capture usable in any graph.

TFF traces graphs that are not functions and cannot capture tensors, so that
class weights as `tf.constant` in a loss, or the mean and variance in Keras'
`Normalization`, would be refused. While a user's function is called, the
tensors it captured become constants of the current graph.
"""

import contextlib
import functools
from typing import Any, Callable, Iterator

import tensorflow as tf

_HANDLES = (tf.resource, tf.variant)


class Captured:
  """The tensors that a function captures.

  Attributes:
    handles: Those without a value, e.g. of variables and tables.
  """

  def __init__(self, trace: Any):
    """Initializes it from a `tf.types.experimental.ConcreteFunction`."""
    tensors = list(trace.captured_inputs)
    self.handles = [t for t in tensors if t.dtype in _HANDLES]
    # Keeps the tensor, because a new one could reuse its place in memory.
    self._values = [(t, t.numpy()) for t in tensors if t.dtype not in _HANDLES]

  @contextlib.contextmanager
  def as_constants(self) -> Iterator[None]:
    """Makes each of the tensors a constant wherever it is used."""
    with contextlib.ExitStack() as stack:
      for tensor, value in self._values:
        stack.enter_context(overriding(
            tensor, __tf_tensor__=_constant(value, tensor.dtype)
        ))
      yield

  def held(self, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns `function` with its captured tensors as constants."""
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
    # For another dtype, TensorFlow raises its own error.
    return constant if dtype is None else tf.convert_to_tensor(constant, dtype)

  return convert


@contextlib.contextmanager
def overriding(target: Any, **attributes: Any) -> Iterator[None]:
  """Sets attributes of the instance `target` temporarily, untracked."""
  before = {k: vars(target)[k] for k in attributes if k in vars(target)}
  vars(target).update(attributes)
  try:
    yield
  finally:
    for name in attributes:
      del vars(target)[name]
    vars(target).update(before)
