"""What is wrong with somebody's data, in one sentence."""

import difflib
from typing import Optional, Sequence


class DataError(ValueError):
  """Data cannot be used; the message names the file, the client, the rule."""


def first_line(error: Exception) -> str:
  """Returns what a library says, as a part of a sentence."""
  text = str(error).strip() or type(error).__name__
  return text.splitlines()[0].rstrip('.')


def nearest(name: str, names: Sequence[str]) -> Optional[str]:
  """Returns the name most like another, whatever its case; None: none is."""
  keys = {_key(other): other for other in reversed(names)}
  found = difflib.get_close_matches(_key(name), keys, 1, 0.7)
  return keys[found[0]] if found else None


def _key(name: str) -> str:
  return ''.join(filter(str.isalnum, name.casefold()))
