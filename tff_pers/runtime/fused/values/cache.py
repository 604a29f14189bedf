"""Objects derived from the caller's values, kept within a memory limit."""

import collections
from typing import Any, Hashable, Optional, Sequence
import weakref


class Cache:
  """Caches things made from the caller's values while the caller holds these.

  When memory is full, the least recently used entry is dropped first.
  """

  def __init__(self, max_bytes: int):
    self._max_bytes = max_bytes
    self._bytes = 0
    self._entries: collections.OrderedDict[tuple, tuple] = (
        collections.OrderedDict()
    )

  def get(self, use: Hashable, values: Sequence[Any]) -> Optional[Any]:
    """Returns what was made from these very objects, or None."""
    key = identity(use, values)
    if key not in self._entries:
      return None
    self._entries.move_to_end(key)
    return self._entries[key][0]

  def put(
      self, use: Hashable, values: Sequence[Any], made: Any, size: int
  ) -> None:
    """Stores `made`, of `size` bytes, until one of `values` is deleted."""
    if size > self._max_bytes:
      return
    key = identity(use, values)
    forget = lambda _: self._forget(key)
    # The key holds their ids, which new objects may reuse afterwards.
    references = [weakref.ref(value, forget) for value in values]
    self._forget(key)
    self._entries[key] = (made, size, references)
    self._bytes += size
    while self._bytes > self._max_bytes:
      self._forget(next(iter(self._entries)))

  def clear(self) -> None:
    """Drops all entries."""
    self._entries.clear()
    self._bytes = 0

  def _forget(self, key) -> None:
    if key in self._entries:
      self._bytes -= self._entries.pop(key)[1]


def identity(use: Hashable, values: Sequence[Any]) -> tuple:
  """Returns a key of these very objects, valid as long as all of them live."""
  return (use, *map(id, values))
