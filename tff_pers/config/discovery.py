"""Finds the modules of a package, so that nobody has to list them.

Only this module imports modules by a string. What those import is visible in
their files, where a test reads it.
"""

import importlib
import pkgutil
import re
import types
from typing import Any, Iterable, Sequence

from tff_pers.config import registry


def import_modules(package: str, path: Iterable[str]) -> list[types.ModuleType]:
  """Imports all modules of a package, and of the packages in it.

  The arguments are `__name__` and `__path__` in its `__init__.py`. Returns the
  modules, sorted by name.

  Raises:
    ImportError: If a module cannot be imported for any reason; it is named.
      A method must not silently be missing from the programs.
  """
  # `walk_packages` is lazy: a subpackage is imported here before it is walked
  # into, so that the walk never meets (and hides) a package that fails.
  return [
      _import(info.name, 'all modules of its package are found and used')
      for info in pkgutil.walk_packages(path, prefix=f'{package}.')
  ]


def import_named(name: str) -> types.ModuleType:
  """Imports a module of another package; see `plugins`.

  Raises:
    ImportError: If it cannot be imported for any reason; it is named.
  """
  registry.modules.add(name)  # Whatever it registers, or replaces.
  return _import(name, 'it registers methods or tasks')


def _import(name: str, reason: str) -> types.ModuleType:
  try:
    return importlib.import_module(name)
  except Exception as error:
    raise ImportError(
        f'Module {name} must be importable because {reason}, found'
        f' {type(error).__name__}: {error}'
    ) from error


def builders(modules: Sequence[types.ModuleType]) -> dict[str, Any]:
  """Returns the builders and hyperparameters of methods, by name.

  These are functions `build_*` and classes `*Hyperparameters`, each from the
  module of a package that defines it.

  Raises:
    ValueError: If two modules define the same name.
  """
  found: dict[str, Any] = {}
  for module in modules:
    for name, value in vars(module).items():
      is_own = getattr(value, '__module__', None) == module.__name__
      is_named = re.match('build_|[A-Z].*Hyperparameters$', name)
      if not is_named or not is_own:
        continue
      if name in found:
        raise ValueError(
            f'`{name}` must be defined once in a package that exports it, found'
            f' it in {found[name].__module__} and {module.__name__}.'
        )
      found[name] = value
  return found
