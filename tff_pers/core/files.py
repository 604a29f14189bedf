"""Files of results: written whole or not at all, and texts in CSV files."""

import contextlib
import os
import re
from typing import IO, Any, Iterator

# What a spreadsheet would take for a formula, or did not because of a mark.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(
    r'[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)', re.IGNORECASE
)


@contextlib.contextmanager
def whole(path: str, mode: str = 'w') -> Iterator[IO[Any]]:
  """Opens a file that takes the place of `path` when the block has ended.

  If the block or the system fails, `path` is what it was.

  Args:
    path: The file; its folder must exist.
    mode: `w`, in UTF-8 and without changed ends of lines, or `wb`.
  """
  temporary = path + '_temp'
  options: dict[str, Any] = {}
  if 'b' not in mode:
    options = dict(encoding='utf-8', newline='')
  try:
    with open(temporary, mode, **options) as file:
      yield file
    os.replace(temporary, path)
  except BaseException as error:
    with contextlib.suppress(OSError):
      os.remove(temporary)
    if isinstance(error, OSError):
      error.filename = path  # Writing does not say where a disk is full.
    raise


def write_text(path: str, text: str) -> None:
  """Writes a text, whole or not at all."""
  with whole(path) as file:
    file.write(text)


def to_cell(value: Any) -> Any:
  """Returns a cell of a CSV file, which no spreadsheet takes for a formula.

  A text that begins like one, as a client named `=1+1`, gets `'` in front, and
  so does one that looks as if it had been marked. Numbers stay as they are.

  Args:
    value: A text, a number or None.
  """
  if not isinstance(value, str) or not _FORMULA.match(value):
    return value
  return value if _NUMBER.fullmatch(value) else f"'{value}"


def from_cell(text: str) -> str:
  """Returns the text that `to_cell` was given."""
  return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
