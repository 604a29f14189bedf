"""The registry of tasks: one registration makes a task known everywhere.

    @registry.register('digits', DigitsOptions, summary='...')
    def build(request, options): ...

Programs, tests and `--help` walk this registry.
"""

import dataclasses
import functools
from typing import Any, Callable

from tff_pers.data import task as task_lib
from tff_pers.data import validation


@dataclasses.dataclass(frozen=True)
class TaskRequest:
  """What the shared flags ask of a task; 0 and '' mean the task's default.

  Attributes:
    num_clients: `--num_clients`.
    partition: `--partition`, with bracket options.
    seed: `--seed`: partition, split and generated examples follow from it.
    data_dir: `--data_dir`, the folder (or file) of the data.
    train_fraction: `--train_fraction`, in (0, 1]: of a client's examples; where
      test sets are dealt out, of its training examples.
    model: `--model`, a name of `models.zoo`.
    validation_fraction: `--validation_fraction`, in [0, 1): of the examples
      that a client would train on; 0: no validation part.
  """

  num_clients: int = 0
  partition: str = ''
  seed: int = 0
  data_dir: str = ''
  train_fraction: float = 0.0
  model: str = ''
  validation_fraction: float = 0.0

  def __post_init__(self):
    if self.num_clients < 0:
      raise ValueError(f'`num_clients` must be >= 0, found {self.num_clients}.')
    if not 0.0 <= self.train_fraction <= 1.0:
      raise ValueError(
          '`train_fraction` must be in (0, 1], or 0 for the task\'s default,'
          f' found {self.train_fraction}.'
      )
    validation.check_fraction(self.validation_fraction)


@dataclasses.dataclass(frozen=True)
class NoOptions:
  """Options of a task that has none."""


@dataclasses.dataclass(frozen=True)
class TaskFamily:
  """A registered task.

  Attributes:
    name: The value of `--task`.
    options: Its dataclass of `hyperparameters.field`s; flags are prefixed with
      the task's name.
    build: `(request, options) -> Task`.
    summary: One line for `--help`.
  """

  name: str
  options: type[Any]
  build: Callable[[TaskRequest, Any], task_lib.Task]
  summary: str = ''


_TASKS: dict[str, TaskFamily] = {}


def register(name: str, options, *, summary: str = ''):
  """Returns a decorator that registers `build` under `name`.

  The validation part is cut here, after `build`, so that every task has one
  and none can take it out of its test data.
  """
  def decorator(build):
    if name in _TASKS:
      raise ValueError(f'`name` must be new, found {name} registered already.')

    @functools.wraps(build)
    def build_and_hold_out(request: TaskRequest, options):
      return validation.hold_out(
          build(request, options), request.validation_fraction, request.seed
      )

    _TASKS[name] = TaskFamily(name, options, build_and_hold_out, summary)
    return build
  return decorator


def get(name: str) -> TaskFamily:
  """Returns the task of that name.

  Raises:
    ValueError: If there is none; lists the known ones.
  """
  if name not in _TASKS:
    raise ValueError(
        f'`task` must be one of {", ".join(names())}, found {name!r}.'
    )
  return _TASKS[name]


def names() -> list[str]:
  """Returns the names of all registered tasks, sorted."""
  return sorted(_TASKS)


def refuse(task: str, request: TaskRequest, *fields: str) -> None:
  """Raises a ValueError if `request` sets one of `fields`: `task` lacks it."""
  for name in fields:
    value = getattr(request, name)
    if value:
      raise ValueError(
          f'`{name}` must not be given for task {task}, found'
          f' {value!r}.'
      )
