"""Atomic writes of result files, and escaping of texts in CSV files."""

import contextlib
import os
import re
from typing import IO, Any, Iterator

# What a spreadsheet takes for a formula, or would if a `'` did not escape it.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(
    r'[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)', re.IGNORECASE
)


@contextlib.contextmanager
def whole(path: str, mode: str = 'w') -> Iterator[IO[Any]]:
  """Opens a temporary file that replaces `path` when the block ends.

  If the block or the system fails, `path` is unchanged.

  Args:
    path: The file; its folder must exist.
    mode: `w`, for UTF-8 without translation of line ends, or `wb`.
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
      error.filename = path  # A full disk's error does not name the file.
    raise


def write_text(path: str, text: str) -> None:
  """Writes a text file, completely or not at all."""
  with whole(path) as file:
    file.write(text)


def to_cell(value: Any) -> Any:
  """Returns a CSV cell that no spreadsheet takes for a formula.

  Text that begins like a formula, e.g. a client named `=1+1`, gets a leading
  `'`, and so does text that already looks escaped. Numbers are unchanged.

  Args:
    value: A text, a number or None.
  """
  if not isinstance(value, str) or not _FORMULA.match(value):
    return value
  return value if _NUMBER.fullmatch(value) else f"'{value}"


def from_cell(text: str) -> str:
  """Returns the text that `to_cell` was given."""
  return text[1:] if text[:1] == "'" and _FORMULA.match(text) else text
