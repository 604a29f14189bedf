"""Stand-ins for large libraries, to read declarations without them.

`--help` needs what methods and tasks declare: names, fields, defaults, ranges.
They stand in the files that also build TensorFlow graphs, so importing those
costs four CPU seconds, of which the declarations take a tenth. With stand-ins
in the place of the libraries the same files are imported: whatever a module
does with them while it is imported (annotations, decorators, base classes)
gives another stand-in. Sphinx does so with `autodoc_mock_imports`.
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
from typing import Iterator, MutableSequence, Sequence


class _StandIn:
  """Stands for any object: all that is done with it gives a stand-in."""

  def __getattr__(self, name: str):
    if name.startswith('__'):
      raise AttributeError(name)
    return self

  def __call__(self, *args, **kwargs):
    return self

  def __getitem__(self, key):
    return self

  def __mro_entries__(self, bases):
    return ()  # A class whose base it is has none.


class _Module(types.ModuleType):
  """Any module; what it lacks is a stand-in."""

  __path__: MutableSequence[str] = []

  def __getattr__(self, name: str):
    if name.startswith('__'):
      raise AttributeError(name)
    return _StandIn()


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """Finds the libraries, and whatever may be in them."""

  def __init__(self, libraries: Sequence[str]):
    self._libraries = frozenset(libraries)

  def find_spec(self, fullname, path=None, target=None):
    if fullname.partition('.')[0] in self._libraries:
      return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
    return None

  def create_module(self, spec):
    return _Module(spec.name)

  def exec_module(self, module):
    del module  # There is nothing to execute.


def are_in_place() -> bool:
  """Whether libraries have stand-ins at the moment."""
  return any(isinstance(finder, _Finder) for finder in sys.meta_path)


@contextlib.contextmanager
def in_place_of(
    libraries: Sequence[str], readers: Sequence[str]
) -> Iterator[None]:
  """Puts stand-ins into the place of libraries.

  Afterwards neither they nor the modules that were imported with them are left,
  so that both can be imported as they are.

  Args:
    libraries: Top-level packages, none of them imported yet.
    readers: Top-level packages whose modules import them.
  """
  before = set(sys.modules)
  finder = _Finder(libraries)
  sys.meta_path.insert(0, finder)
  try:
    yield
  finally:
    sys.meta_path.remove(finder)
    for name in set(sys.modules) - before:
      if name.partition('.')[0] in {*libraries, *readers}:
        _forget(name)


def _forget(name: str) -> None:
  """Makes a module one that was never imported."""
  module = sys.modules.pop(name)
  parent, _, own_name = name.rpartition('.')
  # `from parent import own_name` would find it there all the same.
  if getattr(sys.modules.get(parent), own_name, None) is module:
    delattr(sys.modules[parent], own_name)
