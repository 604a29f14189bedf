"""Reads CSV and Parquet files into a table of float32, batch by batch.

Columns: `client`, `y`, and `split`, `tier` if there (see `tables.py`); all
others are features. The memory that this takes is that of the table and of a
few batches.
"""

from typing import NamedTuple, Optional, Sequence, Union

import numpy as np
import pyarrow as pa

from tff_pers.data import arrow_files
from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import growing
from tff_pers.data import tables

File = Union[arrow_files.CsvFile, arrow_files.ParquetFile]

# More different texts are hardly categories, but names, dates or notes.
MAX_CATEGORIES = 1000


class Reading(NamedTuple):
  """How features are read.

  Attributes:
    task: The task, for the flags that messages name.
    missing: Whether a cell may have no value; it is NaN in the table.
    texts: Whether a column may hold texts.
    text_columns: Columns to read as texts even if all are numbers.
    needs: The columns that must be there. Without `y`, all y are 0; without
      `client`, all rows are of one client whose name is ''.
  """

  task: str
  missing: bool = False
  texts: bool = False
  text_columns: frozenset[str] = frozenset()
  needs: tuple[str, ...] = tables.REQUIRED


def read(file: File, reading: Reading) -> tables.Table:
  """Returns the table of a file.

  y is of an integer dtype if all of it are whole numbers, and becomes the
  positions of names of classes if all of it are texts.

  Raises:
    errors.DataError: If the file cannot be read, or a cell does not fit; names
      the line (or row) and the client.
  """
  names = _check_header(file, reading)
  texts = set(reading.text_columns)
  while True:
    rows = _Rows(file, names, reading, texts)
    found = set()
    for batch in file.batches():
      found = rows.add(batch)
      if found:
        break
    if not found:
      return rows.table()
    # What looked like numbers so far is read again: as a text, 1.0 is not 1.
    texts |= found


def _check_header(file: File, reading: Reading) -> list[str]:
  """Returns the names of the feature columns."""
  path, names = file.path, file.names
  for required in reading.needs:
    if required not in names:
      raise errors.DataError(
          f'{path} must have the columns client, y and features, found no'
          f' {required} among {", ".join(names[:8]) or "none"}.'
      )
  for number, name in enumerate(names, start=1):
    if _is_unnamed(name):
      raise errors.DataError(
          f'{path} must name every column, found column {number} without a'
          f' name{f" ({name})" if name else ""}. Tip: if it counts the rows'
          ' (an index), leave it out, as pandas does with'
          f' to_{reading.task}(..., index=False); else name it.'
      )
  if len(set(names)) < len(names):
    raise errors.DataError(f'{path} must name every column once.')
  found = [
      name for name in names if name not in (*tables.REQUIRED, *tables.OPTIONAL)
  ]
  if not found:
    raise errors.DataError(
        f'{path} must have at least one column of features beside client, y,'
        f' {" and ".join(tables.OPTIONAL)}, found none.'
    )
  return found


def _is_unnamed(name: str) -> bool:
  """Returns whether a name is none, or what pandas makes of none."""
  return not name or name.startswith(('Unnamed: ', '__index_level_'))


class _Rows:
  """The rows of a file so far."""

  def __init__(self, file: File, names, reading: Reading, texts):
    """Starts without rows.

    Args:
      file: The file.
      names: The columns of features.
      reading: How to read them.
      texts: Which of them hold texts.
    """
    self._file, self._names, self._reading = file, names, reading
    self._at = {name: place for place, name in enumerate(file.names)}
    self._x = growing.Growing(np.float32, file.num_rows, len(names))
    self._y: Union[growing.Names, growing.Targets, None] = None
    self._codes = {
        name: growing.Codes(file.num_rows)
        for name in tables.OPTIONAL if name in self._at
    }
    self._codes['client'] = growing.Codes(file.num_rows)
    self._categories = {
        name: growing.Known() for name in names if name in texts
    }

  def add(self, batch: Sequence[pa.Array]) -> set[str]:
    """Adds rows; returns columns of features that unexpectedly hold texts."""
    if not len(batch[0]):
      return set()
    start = self._x.size
    if 'client' not in self._at:
      self._codes['client'].add(cells.nameless(len(batch[0])))
    for name, codes in self._codes.items():
      if name in self._at:
        codes.add(self._texts(batch, name))
    self._check_clients()
    if 'y' in self._at:
      self._add_y(batch[self._at['y']], start)
    x = self._x.extend(len(batch[0]))
    found = set()
    for number, name in enumerate(self._names):
      column = batch[self._at[name]]
      self._check_type(name, column)
      if name in self._categories:
        x[:, number] = self._category(name, column, start)
        continue
      values, text = cells.numbers(column)
      if text is not None and self._reading.texts:
        found.add(name)
      elif text is not None:
        self._refuse(
            name, 'must be a number', column, start, text,
            'categories=one_hot makes numbers of texts',
        )
      self._check_missing(name, column, np.isnan(values), start)
      # What is too large for float32 becomes inf here.
      with np.errstate(over='ignore'):
        x[:, number] = values
      infinite = np.isinf(x[:, number])
      if infinite.any():
        self._refuse(
            name, 'must be finite (float32)', column, start,
            int(infinite.argmax()),
        )
    return found

  def table(self) -> tables.Table:
    """Returns the table of all rows."""
    path = self._file.path
    if not self._x.size:
      raise errors.DataError(
          f'{path} must hold at least one example, found none.'
      )
    client = self._codes.pop('client')
    if 'client' in self._at:
      client_names.check(client.distinct, path)
    codes, names = tables.sorted_names(client.codes, client.distinct)
    y: np.ndarray = np.zeros(len(codes), np.int64)
    classes = spelling = None
    if isinstance(self._y, growing.Names):
      y, classes = self._y.result()
    elif self._y is not None:
      y, spelling = self._y.result()
    table = tables.Table(
        path, self._x.array, y, codes, names, None,
        columns=tuple(
            features.Column(name, self._categories_of(name))
            for name in self._names
        ),
        classes=classes, spelling=spelling, position=self._file.position,
    )
    return tables.with_optional(table, {
        name: (codes.codes, codes.distinct)
        for name, codes in self._codes.items()
    })

  def _categories_of(self, name: str) -> Optional[tuple[str, ...]]:
    known = self._categories.get(name)
    return None if known is None else tuple(known.texts)

  def _texts(self, batch, name: str) -> cells.Texts:
    """Returns a column that holds names, which fractions are not."""
    column = batch[self._at[name]]
    self._check_type(name, column)
    if pa.types.is_floating(column.type):
      raise errors.DataError(
          f'{self._file.path}: {name} must be integers or texts, found numbers'
          f' of type {column.type}. Tip: write integers.'
      )
    return cells.texts(column)

  def _check_clients(self) -> None:
    """Refuses rows of nobody, where others are of somebody."""
    if 'client' not in self._at:
      return
    row = self._codes['client'].find('')
    if row is not None:
      raise errors.DataError(
          f'{self._file.path} must name the client in every'
          f' {self._file.unit}, found none in {self._file.position(row)}.'
      )

  def _add_y(self, column: pa.Array, start: int) -> None:
    """Adds y, numbers or else names of classes, as the first rows decide."""
    self._check_type('y', column)
    y = self._y or growing.labels_or_targets(column, self._file.num_rows)
    self._y = y
    bad = y.add(column)
    if bad is not None:
      self._refuse('y', f'must be {y.rule}', column, start, bad)

  def _check_type(self, name: str, column: pa.Array) -> None:
    if not cells.is_usable(column.type):
      raise errors.DataError(
          f'{self._file.path}: {name} must be numbers or texts, found'
          f' {column.type}. Tip: make numbers of it, or leave it out.'
      )

  def _category(self, name: str, column: pa.Array, start: int) -> np.ndarray:
    """Returns positions of texts, float64[n]; NaN: there is no text."""
    encoded = cells.texts(column)
    missing = [text.lower() in cells.MISSING for text in encoded.distinct]
    is_missing = np.array(missing, bool)[encoded.codes]
    self._check_missing(name, column, is_missing, start)
    known = self._categories[name]
    codes = [
        np.nan if is_none else known.code(text)
        for text, is_none in zip(encoded.distinct, missing)
    ]
    if len(known.texts) > MAX_CATEGORIES:
      raise errors.DataError(
          f'{self._file.path}: {name} must have at most {MAX_CATEGORIES}'
          ' different texts, found more. Tip: leave out names, dates and notes.'
      )
    return np.array(codes, np.float64)[encoded.codes]

  def _check_missing(self, name: str, column, missing, start: int) -> None:
    if missing.any() and not self._reading.missing:
      rule = 'a text' if name in self._categories else 'a number'
      self._refuse(
          name, f'must be {rule}', column, start, int(missing.argmax()),
          'missing=mean fills in what is missing',
      )

  def _refuse(
      self, name: str, rule: str, column, start: int, row: int, tip: str = ''
  ) -> None:
    """Raises what is wrong with a cell of the batch that begins at `start`."""
    client = self._codes['client']
    text = cells.texts(column.slice(row, 1)).distinct[0]
    if tip:
      tip = f' Tip: --{self._reading.task}_{tip}.'
    raise errors.DataError(
        f'{self._file.path}: {name} {rule} in every {self._file.unit}, found'
        f' {text!r} at client {client.distinct[client.codes[start + row]]} in'
        f' {self._file.position(start + row)}.{tip}'
    )
