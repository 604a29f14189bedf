"""Detects damaged files in a run's folder."""

import contextlib
import csv
import math
from typing import Iterator, Mapping, Sequence

from tff_pers.core import files

# Errors that readers of JSON, CSV, .npy and Optuna's journal raise on malformed
# files.
_UNREADABLE = (
    OSError, EOFError, ValueError, KeyError, TypeError, MemoryError,
    RecursionError, AssertionError, csv.Error,
)
GO_ON = 'delete it to continue without it'
RUN_AGAIN = 'restore it, or delete its folder and run again'


class DamagedError(ValueError):
  """A file of results is damaged; the message says which, and what to do."""


@contextlib.contextmanager
def reading(path: str, tip: str = GO_ON) -> Iterator[None]:
  """Turns any error raised while reading a file into a `DamagedError`.

  The tip says what to do about it.
  """
  try:
    yield
  except DamagedError:
    raise
  except _UNREADABLE as error:
    reason = ' '.join(f'{error}'.split())[:200] or type(error).__name__
    raise DamagedError(
        f'{path} must be a file as the programs write it, found a damaged one'
        f' ({reason.rstrip(".")}). Tip: {tip}.'
    ) from error


def rows(
    path: str, required: Sequence[str] = ()
) -> tuple[list[str], list[dict[str, str]]]:
  """Returns the names of the columns of a CSV file, and its rows.

  Raises:
    DamagedError: If a required column is missing, or a row is too short or too
      long.
  """
  with reading(path), open(path, newline='', encoding='utf-8') as file:
    reader = csv.DictReader(file)
    names = [files.from_cell(name) for name in reader.fieldnames or ()]
    reader.fieldnames = names
    for name in required:
      if name not in names:
        raise ValueError(f'no column {name}')
    found = []
    for row in reader:
      # `csv` stores extra cells of a long row under None, and fills a short row
      # with None.
      if None in row or None in row.values():
        raise ValueError(f'wrong number of values in line {reader.line_num}')
      found.append({name: files.from_cell(row[name]) for name in names})
  return names, found


def number(row: Mapping[str, str], name: str) -> float:
  """Returns a cell as a number, NaN for an empty one.

  Raises:
    ValueError: If it is not a number.
  """
  try:
    return float(row[name] or 'nan')
  except ValueError as error:
    raise ValueError(f'{row[name]!r} in column {name}') from error


def check_rounds(rounds: Sequence[float]) -> None:
  """Raises a ValueError unless rounds are integers >= 1 that increase."""
  before = 0.0
  for this in rounds:
    if not (math.isfinite(this) and this == int(this) and this > before):
      raise ValueError(f'round {this:g} after round {before:g}')
    before = this
