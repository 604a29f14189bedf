"""A registry of named things, for programs, tests and `--help`."""

import difflib
from typing import Any, Callable, Generic, TypeVar

Entry = TypeVar('Entry')
_Decorated = TypeVar('_Decorated')

# The modules of everything that is registered anywhere, and all plug-ins.
modules: set[str] = set()


class Registry(Generic[Entry]):
  """Entries by name; no name can be registered twice."""

  def __init__(self, kind: str):
    """`kind` is what names stand for in flags and messages, e.g. 'task'."""
    self._kind = kind
    self._entries: dict[str, Entry] = {}

  def register(
      self, name: str, make_entry: Callable[[Any], Entry]
  ) -> Callable[[_Decorated], _Decorated]:
    """Returns a decorator that registers `make_entry(decorated)`."""

    def decorator(decorated: _Decorated) -> _Decorated:
      if name in self._entries:
        raise ValueError(
            f'`name` must be new, found {name} registered already.'
        )
      self._entries[name] = make_entry(decorated)
      modules.add(getattr(decorated, '__module__', ''))
      return decorated

    return decorator

  def get(self, name: str) -> Entry:
    """Returns the entry of that name.

    Raises:
      ValueError: If there is none; lists the known names, and suggests those
        that are similar.
    """
    if name not in self._entries:
      close = difflib.get_close_matches(name, self.names(), n=3)
      tip = f' Tip: {" or ".join(close)}?' if close else ''
      raise ValueError(
          f'`{self._kind}` must be one of {", ".join(self.names())}, found'
          f' {name!r}.{tip}'
      )
    return self._entries[name]

  def names(self) -> list[str]:
    """Returns all names, sorted."""
    return sorted(self._entries)
