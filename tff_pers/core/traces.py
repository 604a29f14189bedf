"""What is traced while a method is built, which another process may spare.

Most of the time of a build is spent here: TensorFlow's graphs of what clients
and server do, and TFF's computations of them. See `experiments.kept_builds`.
"""

import contextlib
import contextvars
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

from tff_pers import tff


class Traced(NamedTuple):
  """A computation that was traced.

  Attributes:
    signature: The name of the function, and the types of its arguments.
    computation: The result.
  """

  signature: str
  computation: Any


class MismatchError(Exception):
  """The computations that are known are not those of this build."""


class Traces:
  """The outermost computations of a build, in the order of their definitions.

  Attributes:
    traced: The computations.
  """

  def __init__(self, known: Optional[Sequence[Traced]] = None):
    """`known` are those of an equal build; None: all functions are traced."""
    self.traced: list[Traced] = []
    self._known = known

  def take(
      self, signature: str, trace: Callable[[], tff.Computation]
  ) -> tff.Computation:
    """Returns the next computation: the known one, or else `trace()`.

    Raises:
      MismatchError: If the known one has another signature.
    """
    if self._known is None:
      with using(None):  # What is traced inside is a part of it.
        traced = Traced(signature, trace())
    else:
      traced = next(iter(self._known[len(self.traced):]), Traced('none', None))
      if traced.signature != signature:
        raise MismatchError(f'{signature} was {traced.signature}.')
    self.traced.append(traced)
    return traced.computation

  def check_end(self) -> None:
    """Raises a MismatchError if more computations are known than were taken."""
    if self._known is not None and len(self.traced) != len(self._known):
      raise MismatchError(f'{len(self._known) - len(self.traced)} are left.')


_current: contextvars.ContextVar[Optional[Traces]] = contextvars.ContextVar(
    'traces', default=None
)


@contextlib.contextmanager
def using(traces: Optional[Traces]) -> Iterator[None]:
  """Lets computations that are defined inside take part in `traces`."""
  token = _current.set(traces)
  try:
    yield
  finally:
    _current.reset(token)


def federated_computation(*types: tff.Type) -> Callable[..., tff.Computation]:
  """Returns `tff.federated_computation` of these types, a decorator."""
  return _decorator(tff.federated_computation, types)


def tensorflow_computation(*types: Any) -> Callable[..., tff.Computation]:
  """Returns `tff.tensorflow.computation` of these types, a decorator."""
  return _decorator(tff.tensorflow.computation, types)


def _decorator(kind, types):

  def decorator(function):
    trace = lambda: kind(function, *types)
    traces = _current.get()
    if traces is None:
      return trace()
    name = f'{function.__module__}.{function.__qualname__}'
    return traces.take(f'{name} of {tff.to_type(types)!r}', trace)

  return decorator
