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
  computation: tff.Computation


class Traces:
  """The outermost computations of a build, in the order of their definitions.

  Attributes:
    known: Those of an equal build, whose functions are not traced again; empty:
      all are traced.
    made: Those of this build.
  """

  def __init__(self, known: Sequence[Traced] = ()):
    self.known = known
    self.made: list[Traced] = []

  def take(
      self, signature: str, trace: Callable[[], tff.Computation]
  ) -> tff.Computation:
    """Returns the next known computation, or a new one by `trace`."""
    traced = next(iter(self.known[len(self.made):]), None)
    if traced is None or traced.signature != signature:
      self.known = ()  # The builds differ.
      with using(None):  # What is traced inside is a part of it.
        traced = Traced(signature, trace())
    self.made.append(traced)
    return traced.computation


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
