"""The seam through which a program changes what methods build.

    with interception.changing(attack):
      process = method.build(task, hyperparameters)

Attacks, kernels held as factors and measured costs change a method, and no
method knows of them. Where one may be changed it asks `changed` for what stands
there now; outside of `changing` that is what it gave.
"""

import contextlib
import contextvars
from typing import Any, Iterator

_CHANGES: contextvars.ContextVar[tuple['Change', ...]] = contextvars.ContextVar(
    'changes', default=()
)


class Change:
  """What may be changed. Subclasses override what they change, and only that.

  All methods are called while a method is built, most of them with tensors.
  """

  def data(self, data: Any) -> Any:
    """Returns what a client trains on in the place of its dense data."""
    return data

  def update(self, update: Any, data: Any) -> Any:
    """Returns what a client with these data sends in the place of `update`."""
    del data  # Unused.
    return update

  def aggregator(self, factory: Any) -> Any:
    """Returns the factory that aggregates what `update` returns."""
    return factory

  def local_sgd(self, train: Any, model: Any, local: Any, budget: Any) -> Any:
    """Returns the training in place of local SGD, see `local_sgd.train`."""
    del model, local, budget  # Unused.
    return train

  def sgd_work(self, work: Any, sgd: Any) -> Any:
    """Returns the `ClientWork` in place of one of local SGD."""
    del sgd  # Unused.
    return work

  def is_reported(self, is_reported: Any, data: Any) -> Any:
    """Returns whether a client counts in the metrics of a round."""
    del data  # Unused.
    return is_reported

  def prediction(self, prediction: Any, predict: Any) -> Any:
    """Returns what a stand-in predicts, whose model would call `predict`."""
    del predict  # Unused.
    return prediction


@contextlib.contextmanager
def changing(change: Change) -> Iterator[None]:
  """What is built inside is changed; an inner change comes first."""
  token = _CHANGES.set((change, *_CHANGES.get()))
  try:
    yield
  finally:
    _CHANGES.reset(token)


def changed(part: str, value: Any, *known: Any) -> Any:
  """Returns what the changes around leave in the place of `value`.

  Args:
    part: Name of a method of `Change`.
    value: What is there without changes.
    *known: What that method is told beside it.
  """
  for change in _CHANGES.get():
    value = getattr(change, part)(value, *known)
  return value
