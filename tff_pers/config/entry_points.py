"""Reads what installed packages register, without importing them."""

import functools
from importlib import metadata

GROUPS = ('tff_pers.methods', 'tff_pers.tasks')


@functools.lru_cache(maxsize=None)
def of_plugins() -> tuple[metadata.EntryPoint, ...]:
  """Returns the entry points of our groups, sorted by group and name."""
  found = metadata.entry_points()
  # Python 3.9 returns a dictionary, which has no `select`.
  points = [
      point for group in GROUPS for point in (
          found.select(group=group) if hasattr(found, 'select')
          else found.get(group, ())
      )
  ]
  # A package that is on the path twice yields its entry points twice.
  return tuple(sorted(set(points), key=lambda p: (p.group, p.name, p.value)))
