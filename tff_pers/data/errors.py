"""Errors about a user's data, each in one sentence."""

import difflib
from typing import Optional, Sequence


class DataError(ValueError):
  """Data cannot be used; the message names the file, the client, the rule."""


def first_line(error: Exception) -> str:
  """Returns the first line of a library's message, to quote in a sentence."""
  text = str(error).strip() or type(error).__name__
  return text.splitlines()[0].rstrip('.')


def nearest(name: str, names: Sequence[str]) -> Optional[str]:
  """Returns the name most similar to another, ignoring case, or None."""
  keys = {_key(other): other for other in reversed(names)}
  found = difflib.get_close_matches(_key(name), keys, 1, 0.7)
  return keys[found[0]] if found else None


def _key(name: str) -> str:
  return ''.join(filter(str.isalnum, name.casefold()))
