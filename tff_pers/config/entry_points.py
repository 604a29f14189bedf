"""What installed packages say that they register, read without importing it."""

import functools
from importlib import metadata

GROUPS = ('tff_pers.methods', 'tff_pers.tasks')


@functools.lru_cache(maxsize=None)
def of_plugins() -> tuple[metadata.EntryPoint, ...]:
  """Returns those of our groups, by group and name."""
  found = metadata.entry_points()
  # Python 3.9 has a dictionary in the place of `select`.
  points = [
      point for group in GROUPS for point in (
          found.select(group=group) if hasattr(found, 'select')
          else found.get(group, ())
      )
  ]
  # A package that is on the path twice has all of them twice.
  return tuple(sorted(set(points), key=lambda p: (p.group, p.name, p.value)))
