"""The seam through which a program changes what methods build.

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
  """The places that may be changed. A subclass overrides those that it changes.

  Each is called while a method is built, mostly with the tensors of a graph
  that is being traced.
  """

  def data(self, data: Any) -> Any:
    """Returns the data that a client trains on, in place of its dense data."""
    return data

  def update(self, update: Any, data: Any) -> Any:
    """Returns what the client with these data sends, in place of `update`."""
    del data  # Unused.
    return update

  def aggregator(self, factory: Any) -> Any:
    """Returns the factory that aggregates updates, in place of `factory`."""
    return factory

  def local_sgd(self, train: Any, model: Any, local: Any, budget: Any) -> Any:
    """Returns what trains, in place of the loop of `local_sgd.train`."""
    del model, local, budget  # Unused.
    return train

  def sgd_work(self, work: Any, sgd: Any) -> Any:
    """Returns the `ClientWork` in place of `work`, whose parts are `sgd`."""
    del sgd  # Unused.
    return work

  def is_reported(self, is_reported: Any, data: Any) -> Any:
    """Returns whether the client counts in the metrics of a round."""
    del data  # Unused.
    return is_reported

  def prediction(self, prediction: Any, predict: Any) -> Any:
    """Returns the predictions of a stand-in; its model makes `predict()`."""
    del predict  # Unused.
    return prediction


@contextlib.contextmanager
def changing(change: Change) -> Iterator[None]:
  """Applies `change` to what is built inside; inner changes come first."""
  token = _CHANGES.set((change, *_CHANGES.get()))
  try:
    yield
  finally:
    _CHANGES.reset(token)


def changed(part: str, value: Any, *known: Any) -> Any:
  """Returns `value` as the surrounding changes leave it.

  Args:
    part: The name of a method of `Change`.
    value: Its first argument: what is there without any change.
    *known: Its other arguments.
  """
  for change in _CHANGES.get():
    value = getattr(change, part)(value, *known)
  return value
