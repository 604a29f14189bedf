"""Reads methods.md: families of methods, and when to use each of them."""

import functools
import pathlib
from typing import Sequence

_FILE = pathlib.Path(__file__).parents[1] / 'methods.md'


def families(names: Sequence[str]) -> dict[str, list[str]]:
  """Returns the methods by family, in the order of the file.

  Raises:
    ValueError: If a method has no advice, or there is advice on another.
  """
  found = _read()
  own = {title: list(members) for title, members in found.items()}
  missing = set(names) ^ {name for members in own.values() for name in members}
  if missing:
    raise ValueError(
        f'{_FILE.name} must have a section for each method and no other, found'
        f' a difference in {", ".join(sorted(missing))}.'
    )
  return own


def of(name: str) -> tuple[str, str]:
  """Returns when to use a method, and when not."""
  return next(
      members[name] for members in _read().values() if name in members
  )


@functools.lru_cache(maxsize=None)
def _read() -> dict[str, dict[str, tuple[str, str]]]:
  found = {}
  for section in _FILE.read_text(encoding='utf-8').split('\n## ')[1:]:
    title, *entries = section.split('\n### ')
    members = {}
    for entry in entries:
      name, _, text = entry.partition('\n')
      members[name] = _item(text, 'For'), _item(text, 'Not')
    if members:
      found[title.partition('\n')[0]] = members
  return found


def _item(text: str, label: str) -> str:
  """Returns the list item of a label, in one line."""
  item = text.partition(f'* **{label}:** ')[2].partition('\n* ')[0]
  return ' '.join(item.split())
