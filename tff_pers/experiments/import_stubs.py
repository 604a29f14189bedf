"""Replaces large libraries by stubs, to read declarations quickly.

`--help` needs the declarations of methods and tasks: names, fields, defaults,
ranges. They are in files that also build TensorFlow graphs, so importing those
files costs four CPU seconds, of which the declarations take a tenth. With stubs
in place of the libraries the same files can be imported: whatever a module does
with the libraries during import (annotations, decorators, base classes) yields
another stub. Sphinx's `autodoc_mock_imports` works the same way.
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys
from typing import Iterator, Sequence


class _StandIn:
  """Stands for any object, also a module's; any use of it yields a stub."""

  def __getattr__(self, name: str):
    if name.startswith('__'):
      raise AttributeError(name)
    return self

  def __call__(self, *args, **kwargs):
    return self

  def __getitem__(self, key):
    return self

  def __mro_entries__(self, bases):
    return ()  # As a base class it disappears.


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  """Finds the libraries and all their submodules."""

  def __init__(self, libraries: Sequence[str]):
    self._libraries = frozenset(libraries)

  def find_spec(self, fullname, path=None, target=None):
    if fullname.partition('.')[0] in self._libraries:
      return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
    return None

  def exec_module(self, module):
    setattr(module, '__getattr__', _StandIn().__getattr__)


def are_in_place() -> bool:
  """Whether libraries are currently replaced by stubs."""
  return any(isinstance(finder, _Finder) for finder in sys.meta_path)


@contextlib.contextmanager
def in_place_of(
    libraries: Sequence[str], readers: Sequence[str]
) -> Iterator[None]:
  """Replaces libraries by stubs within a `with` block.

  Afterwards the stubs and the modules imported with them are forgotten, so that
  both can be imported normally. Libraries are top-level packages that are not
  imported yet, readers those whose modules import them.
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
  """Forgets that a module was imported."""
  module = sys.modules.pop(name)
  parent, _, own_name = name.rpartition('.')
  # `from parent import own_name` would still find it there.
  if getattr(sys.modules.get(parent), own_name, None) is module:
    delattr(sys.modules[parent], own_name)
