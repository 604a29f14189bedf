"""Which cases of a table every run takes."""

import pytest


def cases(names, fast) -> list:
  """Returns parameters for pytest; all but those in `fast` are slow."""
  unknown = set(fast) - set(names)
  if unknown:
    raise ValueError(f'`fast` must be among {list(names)}, found {unknown}.')
  return [
      name if name in fast else pytest.param(name, marks=pytest.mark.slow)
      for name in names
  ]
