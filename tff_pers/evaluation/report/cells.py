"""Numbers and tables in the short JSON form of a page."""

import math
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

from tff_pers.evaluation import grids

# Digits for curves and clients; tables have two more.
_SERIES_DIGITS = 5
_TABLE_DIGITS = 7


class Column(NamedTuple):
  """A column of a table.

  Attributes:
    name: Key of the rows that it shows.
    title: Its heading.
    style: Format of numbers: `number`, `percent`, `bytes`, `seconds`,
      `integer`, `short`; or `text`.
    hint: Explanation in a sentence; empty if the title is clear.
  """

  name: str
  title: str
  style: str = 'number'
  hint: str = ''


def table(
    columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
  """Returns a table for a page, without empty columns.

  None, or a missing value, is an empty cell.
  """
  shown = [
      column for column in columns
      if any(row.get(column.name) is not None for row in rows)
  ]
  return dict(
      columns=[column._asdict() for column in shown],
      rows=[[cell(row.get(column.name)) for column in shown] for row in rows],
  )


def text_table(rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
  """Returns the table of a CSV file; columns of numbers are numbers."""
  columns, parsed = [], [dict[str, Any](row) for row in rows]
  for name in rows[0] if rows else ():
    numbers = [grids.number(row[name] or 'nan') for row in rows]
    is_text = None in numbers
    columns.append(Column(name, name, 'text' if is_text else 'short'))
    for row, number in zip(parsed, numbers):
      row[name] = (row[name] if is_text else number) if row[name] else None
  return table(columns, parsed)


def cell(value: Any) -> Any:
  """Returns a cell: None, a text, or a number; non-finite ones as texts."""
  if value is None or isinstance(value, str):
    return value
  number = float(value)
  if not math.isfinite(number):
    return f'{number}'
  return rounded(number, _TABLE_DIGITS)


def series(values: Iterable[float]) -> list[Optional[float]]:
  """Returns numbers with few digits, and None for NaN and infinity."""
  return [
      rounded(float(v), _SERIES_DIGITS) if math.isfinite(v) else None
      for v in values
  ]


def rounded(value: float, digits: int) -> float:
  """Returns a finite number rounded to significant digits."""
  short = float(f'{value:.{digits}g}')
  return int(short) if short.is_integer() else short
