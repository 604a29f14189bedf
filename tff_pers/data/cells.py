"""Parses the cells of a column: numbers, texts, dates, missing values."""

import datetime
import re
from typing import NamedTuple, Optional

import numpy as np
import pyarrow as pa
from pyarrow import compute

# Cells that mean "no value", in lower case. (`none` is not among them, because
# people use it for a category.)
MISSING = frozenset(('', '?', 'na', 'n/a', '#n/a', '<na>', 'nan', 'null'))

# An integer in its usual form, so that 01 stays a text; at most 15 digits.
INTEGER = re.compile('0|-?[1-9][0-9]{0,14}')

# An integer that pandas wrote as 1.0, because its column has gaps; the group is
# the integer. One zero, because 1,000 may be a thousand. For Python and
# TensorFlow.
WHOLE = r'^(0|-?[1-9][0-9]{0,14})[.,]0$'

# The four numbers that `dates` returns.
DATE_PARTS = ('year', 'month', 'weekday', 'days')
DAY_FIRST = r'^(\d{2})\.(\d{2})\.(\d{4})'

_BOOLEANS = {'false': 0.0, 'true': 1.0}

# With more distinct values, numbers are probably not classes.
MAX_NAMED = 20


class Texts(NamedTuple):
  """A column as texts.

  Attributes:
    codes: int32[n], positions in `distinct`.
    distinct: The texts, without surrounding spaces; '' for null values.
  """

  codes: np.ndarray
  distinct: list[str]


def is_usable(kind: pa.DataType) -> bool:
  """Returns whether cells of this type are numbers or texts."""
  if pa.types.is_dictionary(kind):
    kind = kind.value_type
  return (
      _is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind)
      or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
      or pa.types.is_null(kind)
  )


def are_whole(values: np.ndarray) -> bool:
  """Returns whether all numbers are integers that a float64 holds exactly."""
  return bool(np.all((values == np.round(values)) & (np.abs(values) < 2**53)))


def spelling(column: pa.Array, row: int) -> str:
  """Returns a cell as spelled in the file; a boolean is True or False."""
  cell = _decoded(column)[row].as_py()
  return cell.strip() if isinstance(cell, str) else str(cell)


def numbers(column: pa.Array) -> tuple[np.ndarray, Optional[int]]:
  """Returns a column as numbers; true and false are 1 and 0.

  Returns:
    float64[n], NaN where there is no value, and the first row that is neither a
    number nor missing, or None.
  """
  column = _decoded(column)
  if not _is_text(column.type):
    if pa.types.is_boolean(column.type):
      column = column.cast(pa.uint8())
    return _float64(column.cast(pa.float64(), safe=False)), None
  column = compute.utf8_trim_whitespace(column)
  try:
    return _float64(column.cast(pa.float64())), None
  except pa.ArrowInvalid:
    pass  # Some cell is not a number, so each distinct one is parsed.
  encoded = texts(column)
  known = [number(text) for text in encoded.distinct]
  is_text = np.array([value is None for value in known])[encoded.codes]
  values = np.array([value or 0.0 for value in known])[encoded.codes]
  return values, int(is_text.argmax()) if is_text.any() else None


def texts(column: pa.Array) -> Texts:
  """Returns a column as texts; numbers are formatted as Python does."""
  column = _decoded(column)
  if pa.types.is_boolean(column.type):
    column = column.cast(pa.uint8())
  column = compute.fill_null(column.cast(pa.string()), '')
  encoded = compute.utf8_trim_whitespace(column).dictionary_encode()
  return Texts(
      encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32),
      encoded.dictionary.to_pylist(),
  )


def names_of_date(name: str) -> list[str]:
  """Returns the names of the four numbers made from a column of dates."""
  return [f'{name} {part}' for part in DATE_PARTS]


def date(text: str) -> Optional[datetime.datetime]:
  """Returns the date and time of a text (2024-01-31, 31.01.2024), or None."""
  text = re.sub(DAY_FIRST, r'\3-\2-\1', text)
  try:
    return datetime.datetime.fromisoformat(text.removesuffix('Z'))
  except ValueError:
    return None


def dates(column: pa.Array) -> tuple[np.ndarray, Optional[int]]:
  """Returns year, month, weekday (Monday is 0) and days since 1970 of dates.

  Returns:
    float64[n, 4], NaN where there is no value, and the first row that is not a
    date, or None.
  """
  encoded = texts(column)
  values = np.full([len(encoded.distinct), 4], np.nan)
  bad = np.zeros([len(values)], bool)
  for row, text in enumerate(encoded.distinct):
    day = date(text)
    if day is not None:
      day = day.replace(tzinfo=None)
      values[row] = (
          day.year, day.month, day.weekday(),
          (day - datetime.datetime(1970, 1, 1)) / datetime.timedelta(days=1),
      )
    else:
      bad[row] = text.lower() not in MISSING
  bad = bad[encoded.codes]
  return values[encoded.codes], int(bad.argmax()) if bad.any() else None


def code(text: str) -> str:
  """Returns the usual spelling of a code: 1 for 1.0."""
  return re.sub(WHOLE, r'\1', text)


def nameless(num_rows: int) -> Texts:
  """Returns a column of empty texts."""
  return Texts(np.zeros([num_rows], np.int32), [''])


def number(text: str) -> Optional[float]:
  """Returns the number that a text means; NaN: missing; None: not a number."""
  lower = text.lower()
  if lower in MISSING:
    return np.nan
  if lower in _BOOLEANS:
    return _BOOLEANS[lower]
  try:
    # Python takes 20_29, which is a range of ages, for 2029.
    return None if '_' in text else float(text)
  except ValueError:
    return None


def _decoded(column: pa.Array) -> pa.Array:
  """Returns the cells themselves if the file encodes them by a dictionary."""
  if pa.types.is_dictionary(column.type):
    return column.dictionary_decode()
  return column


def _is_text(kind: pa.DataType) -> bool:
  return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _float64(column: pa.Array) -> np.ndarray:
  return column.to_numpy(zero_copy_only=False)
