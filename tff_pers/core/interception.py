"""Lets a program change what methods build.

    with interception.changing(attack):
      process = method.build(task, hyperparameters)

Attacks, kernels held as factors and cost estimates change how a method
computes, and no method imports them. At each place that may be changed, the
code that builds a method calls `changed`: it returns the replacement, or,
outside of `changing`, the value itself.
"""

import contextlib
import contextvars
from typing import Any, Iterator

_CHANGES: contextvars.ContextVar[tuple['Change', ...]] = contextvars.ContextVar(
    'changes', default=()
)


class Change:
  """The places that may be changed; a subclass overrides those it changes.

  Each method is called while a method of learning is built, mostly with the
  tensors of a graph that is being traced.
  """

  def data(self, data: Any) -> Any:
    """Returns what a client trains on, in place of its data (an attack)."""
    return data

  def update(self, update: Any, data: Any) -> Any:
    """Returns what the client sends, in place of `update` (an attack)."""
    del data  # Unused.
    return update

  def aggregator(self, factory: Any) -> Any:
    """Returns what aggregates updates, in place of `factory` (an attack)."""
    return factory

  def local_sgd(self, train: Any, model: Any, local: Any, budget: Any) -> Any:
    """Returns what trains in `local_sgd.train` (`factored_sgd`)."""
    del model, local, budget  # Unused.
    return train

  def sgd_work(self, work: Any, sgd: Any) -> Any:
    """Returns the `ClientWork` of the parts `sgd` (`factored_sgd`)."""
    del sgd  # Unused.
    return work

  def is_reported(self, is_reported: Any, data: Any) -> Any:
    """Returns whether a client counts in metrics (`left_out`)."""
    del data  # Unused.
    return is_reported

  def prediction(self, prediction: Any, predict: Any) -> Any:
    """Returns the predictions of a stand-in for `predict()` (`computing`)."""
    del predict  # Unused.
    return prediction


@contextlib.contextmanager
def changing(change: Change) -> Iterator[None]:
  """Applies `change` to what is built inside; inner changes apply first."""
  token = _CHANGES.set((change, *_CHANGES.get()))
  try:
    yield
  finally:
    _CHANGES.reset(token)


def is_open() -> bool:
  """Whether there is any change to what is built now."""
  return bool(_CHANGES.get())


class _Computing(Change):
  """See `computing`."""

  def prediction(self, prediction, predict):
    return predict()


def computing() -> contextlib.AbstractContextManager[None]:
  """Returns a context in which stand-ins compute what their models compute."""
  return changing(_Computing())


def changed(part: str, value: Any, *known: Any) -> Any:
  """Returns `value` as the surrounding changes leave it.

  Args:
    part: The name of a method of `Change`.
    value: Its first argument: the value without any change.
    *known: Its other arguments.
  """
  for change in _CHANGES.get():
    value = getattr(change, part)(value, *known)
  return value
