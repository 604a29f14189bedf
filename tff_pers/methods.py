"""The registry of methods: one registration makes a method known everywhere.

    @methods.register('fedavg', FedAvgHyperparameters)
    def build(task, hyperparameters): ...

Programs, contract tests and `--help` walk this registry.
"""

import dataclasses
from typing import Any, Callable

# What a method may need of a task, and the sentence that says so.
NEEDS = {
    'groups': 'tasks that know the true group of every client',
    'full_participation': 'rounds with all clients (clients_per_round = 0)',
}


@dataclasses.dataclass(frozen=True)
class Method:
  """A registered method.

  Attributes:
    name: The value of `--algo`.
    hyperparameters: Its dataclass (see `tff_pers.hyperparameters`).
    build: `(task, hyperparameters) -> PersonalizedProcess`.
    needs: Names from `NEEDS`.
    summary: One line for `--help`.
  """

  name: str
  hyperparameters: type[Any]
  build: Callable[[Any, Any], Any]
  needs: tuple[str, ...] = ()
  summary: str = ''


_METHODS: dict[str, Method] = {}


def register(name: str, hyperparameters, *, needs=(), summary=''):
  """Returns a decorator that registers `build` under `name`."""
  unknown = set(needs) - set(NEEDS)
  if unknown:
    raise ValueError(f'`needs` must be among {sorted(NEEDS)}, found {unknown}.')
  def decorator(build):
    if name in _METHODS:
      raise ValueError(f'`name` must be new, found {name} registered already.')
    _METHODS[name] = Method(name, hyperparameters, build, tuple(needs), summary)
    return build
  return decorator


def get(name: str) -> Method:
  """Returns the method of that name.

  Raises:
    ValueError: If there is none; lists the known ones.
  """
  if name not in _METHODS:
    raise ValueError(
        f'`algo` must be one of {", ".join(names())}, found {name!r}.'
    )
  return _METHODS[name]


def names() -> list[str]:
  """Returns the names of all registered methods, sorted."""
  return sorted(_METHODS)


def missing_needs(method: Method, task) -> list[str]:
  """Returns the sentences for what `method` needs and `task` lacks."""
  lacks = []
  if 'groups' in method.needs and not task.has_groups:
    lacks.append(NEEDS['groups'])
  if 'full_participation' in method.needs and not task.full_participation:
    lacks.append(NEEDS['full_participation'])
  return lacks
