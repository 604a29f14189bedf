"""Columns of a table that is read batch by batch."""

from typing import Optional, Union

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tff_pers.data import cells


def labels_or_targets(
    first: pa.Array, num_rows: Optional[int]
) -> Union['Names', 'Targets']:
  """Returns an empty column y: class names if no first cell is a number."""
  values = [cells.number(text) for text in cells.texts(first).distinct]
  is_name = [value is None for value in values]
  is_number = [value is not None and not np.isnan(value) for value in values]
  if any(is_name) and not any(is_number):
    return Names(num_rows)
  return Targets(num_rows)


class Targets:
  """y as numbers; NaN where a cell is empty.

  Attributes:
    rule: What every cell must be.
  """

  rule = 'a number'

  def __init__(self, num_rows: Optional[int]):
    self._values = GrowableArray(np.float64, num_rows)
    # Spelling in the file, by number; None: there are too many numbers.
    self._spelling: Optional[dict[float, str]] = {}

  def add(self, column: pa.Array) -> Optional[int]:
    """Adds cells; returns the position of the first text, if any."""
    values, text = cells.numbers(column)
    self._values.extend(len(values))[:] = values
    if text is None:
      self._spell(values, column)
    return text

  def _spell(self, values: np.ndarray, column: pa.Array) -> None:
    distinct, rows = np.unique(values, return_index=True)
    # NaN, which means no value, is the last one.
    distinct = distinct[~np.isnan(distinct)]
    if self._spelling is None or len(distinct) > cells.MAX_NAMED:
      self._spelling = None
      return
    for value, row in zip(distinct.tolist(), rows.tolist()):
      self._spelling.setdefault(value, cells.spelling(column, row))
    if len(self._spelling) > cells.MAX_NAMED:
      self._spelling = None

  @property
  def is_missing(self) -> np.ndarray:
    """bool[n], whether cells are empty."""
    return np.isnan(self._values.array)

  def result(self) -> tuple[np.ndarray, Optional[tuple[str, ...]]]:
    """Returns numbers [n], and the spelling of each distinct one in the file.

    The numbers are int64 if all are whole, else float64; for empty cells they
    are 0. The texts are in the order of the numbers; None: there are more than
    `cells.MAX_NAMED`.
    """
    values = np.where(self.is_missing, 0, self._values.array)
    if cells.are_whole(values):
      values = values.astype(np.int64)
    if self._spelling is None:
      return values, None
    return values, tuple(text for _, text in sorted(self._spelling.items()))


class Names:
  """y as class names; see `Targets`."""

  rule = 'the name of a class, as it is in the first rows,'

  def __init__(self, num_rows: Optional[int]):
    self._codes = Codes(num_rows)

  def add(self, column: pa.Array) -> Optional[int]:
    """Adds cells; returns the position of the first number, if any."""
    encoded = cells.texts(column)
    self._codes.add(encoded)
    bad = np.array([
        cells.number(text) is not None and not _is_missing(text)
        for text in encoded.distinct
    ], bool)[encoded.codes]
    return int(bad.argmax()) if bad.any() else None

  @property
  def is_missing(self) -> np.ndarray:
    """bool[n], whether cells are empty."""
    missing = list(map(_is_missing, self._codes.distinct))
    return np.array(missing, bool)[self._codes.codes]

  def result(self) -> tuple[np.ndarray, Optional[tuple[str, ...]]]:
    """Returns labels, int64[n], and the class names, sorted.

    The labels of empty cells are 0.
    """
    names = sorted(t for t in self._codes.distinct if not _is_missing(t))
    place = {name: label for label, name in enumerate(names)}
    labels = [place.get(text, 0) for text in self._codes.distinct]
    return np.array(labels, np.int64)[self._codes.codes], tuple(names)


def _is_missing(text: str) -> bool:
  return text.lower() in cells.MISSING


class Codes:
  """A column of texts, as positions in a list of distinct texts."""

  def __init__(self, num_rows: Optional[int]):
    self._rows = GrowableArray(np.int32, num_rows)
    self._known: dict[str, int] = {}

  @property
  def codes(self) -> np.ndarray:
    """int32[n], the position of each cell in `distinct`."""
    return self._rows.array

  @property
  def distinct(self) -> list[str]:
    """The distinct texts, in order of first appearance."""
    return list(self._known)

  def find(self, text: str) -> Optional[int]:
    """Returns the first row that holds `text`, or None."""
    if text not in self._known:
      return None
    return int(np.argmax(self.codes == self._known[text]))

  def add(self, encoded: cells.Texts) -> None:
    """Adds cells."""
    codes = [code_in(self._known, text) for text in encoded.distinct]
    self._rows.extend(len(encoded.codes))[:] = np.array(codes, np.int32)[
        encoded.codes
    ]


def code_in(known: dict[str, int], text: str) -> int:
  """Returns the position of a text among `known`; adds it if it is new."""
  return known.setdefault(text, len(known))


class GrowableArray:
  """An array that grows by batches of rows.

  Attributes:
    size: Number of rows so far.
  """

  def __init__(
      self, dtype: npt.DTypeLike, num_rows: Optional[int], *width: int
  ):
    """Initializes without rows; `num_rows` is their expected number."""
    self._array = np.empty([num_rows or 0, *width], dtype)
    self.size = 0

  @property
  def array(self) -> np.ndarray:
    """A view of the rows so far, [size, ...], valid until `extend`."""
    return self._array[:self.size]

  def extend(self, number: int) -> np.ndarray:
    """Returns a view of `number` new rows, to be filled."""
    first, self.size = self.size, self.size + number
    if self.size > len(self._array):
      # In place, because a copy would take twice the memory. No view is in use.
      length = max(self.size, len(self._array) * 9 // 8)
      self._array.resize([length, *self._array.shape[1:]], refcheck=False)
    return self._array[first:self.size]
