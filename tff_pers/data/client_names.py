"""Checks names of clients, and writes them in flags and file names."""

import collections
import csv
import io
from typing import Any, Sequence
import unicodedata
import urllib.parse

from tff_pers.data import errors

# Characters of a file name; file systems allow 255 bytes, with affixes.
_LONGEST = 60


def check(names: Sequence[Any], where: str) -> None:
  """Raises on names, numbers or texts, that no message or flag could show.

  Raises:
    errors.DataError: If a name is empty, begins or ends with a space, or
      contains a character that cannot be printed, e.g. a line end.
  """
  for name in map(str, names):
    if not name or name != name.strip() or not name.isprintable():
      raise errors.DataError(
          f'{where}: names of clients must be printable texts without spaces'
          f' around them, found {name!r}.'
      )


def parse(text: str) -> list[str]:
  """Returns the names in a list such as `alice,17,"Smith, Ann"`.

  Quotes are as in a CSV file: around a name with commas, and doubled within.
  """
  line = ' '.join(text.splitlines())
  [names] = csv.reader([line], skipinitialspace=True)
  return [name.strip() for name in names if name.strip()]


def listed(names: Sequence[str]) -> str:
  """Returns the list from which `parse` returns these names."""
  line = io.StringIO()
  csv.writer(line, lineterminator='').writerow(names)
  return line.getvalue()


def file_names(names: Sequence[Any]) -> list[str]:
  """Returns a part of a file name for each client, all distinct.

  Letters of any language, digits, `_`, `.` and `-` are kept; other characters
  are encoded as in web addresses (`/` is `%2F`). If two results would be equal
  except for case, or one is too long, `~` and the position of the client
  follow.
  """
  safe = [_encoded(str(name)) for name in names]
  short = [name[:_LONGEST] for name in safe]
  keys = [unicodedata.normalize('NFKC', name).casefold() for name in short]
  times = collections.Counter(keys)
  return [
      name if times[key] == 1 and name == whole else f'{name}~{position}'
      for position, (whole, name, key) in enumerate(zip(safe, short, keys))
  ]


def _encoded(name: str) -> str:
  # `quote` keeps `~`, which marks positions, and encodes non-ASCII letters.
  return ''.join(
      c if c.isalnum() or c in '_.-' else
      '%7E' if c == '~' else urllib.parse.quote(c, safe='')
      for c in name
  )
