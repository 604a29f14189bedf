"""Errors about a user's data, each in one sentence."""

import difflib
import re
from typing import Optional, Sequence

# Maximum number of names that a sentence lists.
_LISTED = 8


class DataError(ValueError):
  """Data cannot be used; the message names the file, the client, the rule."""


def first_line(error: Exception) -> str:
  """Returns the first line of a library's message, to quote in a sentence.

  What TensorFlow adds to say where in a graph it happened is left out.
  """
  text = re.sub(r'{{.*?}} ?|\[Op:.*', '', str(error)).strip()
  return (text or type(error).__name__).splitlines()[0].rstrip('. ')


def listed(texts: Sequence[str]) -> str:
  """Returns the first texts with commas, and the number of others."""
  return ', '.join(texts[:_LISTED]) + others(len(texts) - _LISTED)


def others(number: int) -> str:
  """Returns the end of a list that is cut, ` and 2 others`, or ''."""
  return f' and {number} other{"s"[:number != 1]}' if number > 0 else ''


def nearest(name: str, names: Sequence[str]) -> Optional[str]:
  """Returns the name most similar to another, ignoring case, or None."""
  keys = {_key(other): other for other in reversed(names)}
  found = difflib.get_close_matches(_key(name), keys, 1, 0.7)
  return keys[found[0]] if found else None


def _key(name: str) -> str:
  return ''.join(filter(str.isalnum, name.casefold()))
