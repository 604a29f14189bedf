"""Reads CSV, Parquet and TFRecord files into a table, batch by batch.

Columns: `client`, `y`, and optionally `split` and `tier` (see `tables.py`), the
first three also under other names; all others are features. Memory is needed
only for the table, in float32, and for a few batches.
"""

import shlex
from typing import Optional, Sequence, Union

import numpy as np
import pyarrow as pa

from tff_pers.data import arrow_files
from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import column_builders
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import readings
from tff_pers.data import rounding
from tff_pers.data import tables

# More distinct texts are probably names, dates or notes, not categories.
MAX_CATEGORIES = 1000
# A column with a larger share of numbers is numeric, with typing errors.
_MOSTLY = 0.9
# With fewer rows, texts that all differ may still be categories.
_FEWEST = 20
_PARTS_OF_DATES = 'makes year, month, weekday and days of dates'
_FILLS_IN = 'missing=mean fills in'
_MEND = ' Tip: correct these cells, or empty them for --{}_missing=mean.'


def read(file: arrow_files.File, reading: readings.Reading) -> tables.Table:
  """Returns the table of a file.

  y has an integer dtype if all its values are whole numbers; if all are texts,
  they are class names and y is their positions. Rows with an empty y are
  dropped; `remarks` counts them.

  Raises:
    errors.DataError: If the file cannot be read, or a cell is invalid; names
      the line (or row) and the client.
  """
  names = reading.names(file)
  columns = readings.features(file, reading, names)
  texts = set(reading.text_columns)
  while True:
    rows = _Rows(file, names, columns, reading, texts)
    numbers = {'y', *columns} - texts - reading.date_columns
    found = set()
    for batch in file.batches({
        column for column, name in zip(file.names, names) if name in numbers
    }):
      found = rows.add(batch)
      if found:
        break
    offsets = {} if found else rows.other_offsets()
    if not found and not offsets:
      return rows.table()
    # Columns assumed to be numeric are read again, because as a text 1.0 is
    # not 1; and so are numbers that float32 has rounded.
    texts |= found
    reading = reading._replace(offsets={**reading.offsets, **offsets})


class _Rows:
  """The rows of a file that have been read so far."""

  def __init__(
      self, file: arrow_files.File, names, columns: Sequence[str],
      reading: readings.Reading, texts,
  ):
    """Initializes without rows.

    `names` are the meanings of the file's columns, `columns` those of features,
    and `texts` the features that hold texts.
    """
    self._file, self._columns, self._reading = file, columns, reading
    self._at = {
        name: place for place, name in enumerate(names)
        if name in columns or name in ('client', *tables.OPTIONAL)
        or (name == 'y' and 'y' in reading.needs)
    }
    self._names = [
        made for column in columns for made in reading.outputs(column)
    ]
    self._offsets = dict(reading.offsets)
    self._numbers_of = {
        name: rounding.Numbers(len(reading.outputs(name)))
        for name in columns if name not in texts
    }
    self._x = column_builders.GrowableArray(
        np.float32, file.num_rows, len(self._names)
    )
    self._y: Union[column_builders.Names, column_builders.Targets, None] = None
    self._codes = {
        name: column_builders.Codes(file.num_rows)
        for name in tables.OPTIONAL if name in self._at
    }
    self._codes['client'] = column_builders.Codes(file.num_rows)
    # The texts of each column, with their positions.
    self._categories: dict[str, dict[str, int]] = {
        name: {} for name in columns if name in texts
    }

  def add(self, batch: Sequence[pa.Array]) -> set[str]:
    """Adds rows; returns feature columns that unexpectedly hold texts."""
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
      column = batch[self._at['y']]
      self._check_type('y', column)
      # Numbers or class names, as its first rows decide.
      self._y = self._y or column_builders.labels_or_targets(
          column, self._file.num_rows
      )
      bad = self._y.add(column)
      if bad is not None:
        self._refuse('y', f'must be {self._y.rule}', column, start, bad)
    x = self._x.extend(len(batch[0]))
    found, at, refused = set(), 0, []
    for name in self._columns:
      column = batch[self._at[name]]
      width = len(self._reading.outputs(name))
      try:
        values = self._values(name, column, start)
      except errors.DataError as error:
        refused.append(str(error))
        continue
      if values is None:
        found.add(name)
      else:
        x[:, at:at + width] = values.reshape(-1, width)
      at += width
    if refused:
      raise errors.DataError(self._at_once(refused))
    return found

  def _at_once(self, refused: Sequence[str]) -> str:
    """Returns the first sentence for each flag, so that one run names all."""
    kinds: dict[str, str] = {}
    for sentence in refused:
      tip = sentence.partition(' Tip: ')[2]
      kinds.setdefault(tip.partition('=')[0], sentence)
    first, *more = kinds.values()
    where = f'{self._file.path}: '
    return ' Also: '.join([first, *(s.removeprefix(where) for s in more)])

  def _values(
      self, name: str, column: pa.Array, start: int
  ) -> Optional[np.ndarray]:
    """Returns a column as floats; None if it unexpectedly holds texts."""
    if name in self._reading.date_columns:
      return self._dates(name, column, start)
    self._check_type(name, column)
    if name in self._categories:
      return self._category(name, column, start)
    values, text = cells.numbers(column)
    if text is None:
      return self._numbers(name, column, values, start)
    if not self._reading.texts:
      self._refuse_text(name, column, start, text)
    return None

  def _dates(self, name: str, column: pa.Array, start: int) -> np.ndarray:
    """Returns the parts of dates, float64[n, 4]."""
    values, bad = cells.dates(column)
    if bad is not None:
      self._refuse(
          name, 'must be a date, as 2024-01-31 or 31.01.2024,', column, start,
          bad,
      )
    self._check_missing(name, column, np.isnan(values[:, 0]), start)
    return self._centred(name, values)

  def _numbers(self, name: str, column, values, start: int) -> np.ndarray:
    """Returns numbers minus the column's offset, float64[n]."""
    self._check_missing(name, column, np.isnan(values), start)
    # Numbers too large for float32 become inf here.
    with np.errstate(over='ignore'):
      rounded = values.astype(np.float32)
    infinite = np.isinf(rounded)
    if infinite.any():
      self._refuse(
          name, 'must be finite (float32)', column, start,
          int(infinite.argmax()),
      )
    if name not in self._offsets and not np.isnan(values).all():
      self._offsets[name] = _offset(values, rounded)
    return self._centred(name, values[:, None])

  def _centred(self, name: str, values: np.ndarray) -> np.ndarray:
    """Returns the numbers of a column minus their offsets, float64[n, ...]."""
    self._numbers_of[name].add(values)
    return values - [
        self._offsets.get(made, 0.0) for made in self._reading.outputs(name)
    ]

  def other_offsets(self) -> dict[str, float]:
    """Returns offsets of columns that need one and were read without."""
    return {
        made: float(offset) for name, numbers in self._numbers_of.items()
        for made, offset in zip(self._reading.outputs(name), numbers.offsets())
        if offset and not self._offsets.get(made)
        and made not in self._reading.offsets
    }

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
    if isinstance(self._y, column_builders.Names):
      y, classes = self._y.result()
    elif self._y is not None:
      y, spelling = self._y.result()
    table = tables.Table(
        path, self._x.array, y, codes, names, None,
        columns=tuple(
            features.Column(
                name,
                tuple(self._categories[name])
                if name in self._categories else None,
                self._offsets.get(name, 0.0), of_date=name not in self._at,
            )
            for name in self._names
        ),
        classes=classes, spelling=spelling,
        remarks=(self._file.about,) if self._file.about else (),
        position=self._file.position,
    )
    self._check_categories(table)
    table = tables.with_optional(table, {
        name: (codes.codes, codes.distinct)
        for name, codes in self._codes.items()
    })
    return table if self._y is None else tables.with_y(
        table, self._y.is_missing
    )

  def _check_categories(self, table: tables.Table) -> None:
    """Raises on texts that occurred in a column of numbers."""
    for number, column in enumerate(table.columns or ()):
      if column.categories is None or (
          column.name in self._reading.text_columns
      ):
        continue
      codes = table.x[:, number]
      there = np.flatnonzero(~np.isnan(codes))
      texts = pa.array(column.categories, pa.string())
      if self._file.decimal_comma:
        texts = arrow_files.with_points(texts)
      known = [cells.number(text) is None for text in texts.to_pylist()]
      is_text = np.array(known, bool)[codes[there].astype(int)]
      if len(there) and np.mean(is_text) < 1 - _MOSTLY:
        first = there[int(is_text.argmax())]
        others = errors.listed([
            repr(t) for t, is_text in zip(column.categories, known) if is_text
        ])
        raise errors.DataError(
            f'{table.path}: {column.name} must be a number in every'
            f' {self._file.unit}, as it is in {int((~is_text).sum())}, found'
            f' {is_text.sum()} that {"is" if is_text.sum() == 1 else "are"}'
            f' not ({others}), the first {table.at(first)}.'
            f'{_MEND.format(self._reading.task)}'
        )

  def _texts(self, batch, name: str) -> cells.Texts:
    """Returns a column of names, which must not be fractions."""
    column = batch[self._at[name]]
    self._check_type(name, column)
    if pa.types.is_floating(column.type):
      raise errors.DataError(
          f'{self._file.path}: {self._shown(name)} must be integers or texts,'
          ' found numbers'
          f' of type {column.type}. Tip: write integers.'
      )
    return cells.texts(column)

  def _check_clients(self) -> None:
    """Raises if some rows name a client and others do not."""
    if 'client' not in self._at:
      return
    row = self._codes['client'].find('')
    if row is not None:
      # The rest of the file too, so that the number is that of all such rows.
      every = column_builders.Codes(self._file.num_rows)
      for batch in self._file.batches():
        every.add(self._texts(batch, 'client'))
      count = np.count_nonzero(every.codes == every.distinct.index(''))
      raise errors.DataError(
          f'{self._file.path} must name the client in every'
          f' {self._file.unit}, found none in {self._file.position(row)}'
          f'{errors.others(count - 1)}. Tip: give them a client, or remove'
          f' these {self._file.unit}s.'
      )

  def _check_type(self, name: str, column: pa.Array) -> None:
    if not cells.is_usable(column.type):
      tip = 'make numbers of it, or leave it out.'
      if pa.types.is_temporal(column.type):
        tip = f'--{self._reading.task}_dates={shlex.quote(name)}'
        tip += f' {_PARTS_OF_DATES}.'
      raise errors.DataError(
          f'{self._file.path}: {self._shown(name)} must be numbers or texts,'
          f' found {column.type}. Tip: {tip}'
      )

  def _category(self, name: str, column: pa.Array, start: int) -> np.ndarray:
    """Returns positions of texts, float64[n]; NaN: missing."""
    encoded = cells.texts(column)
    missing = [text.lower() in cells.MISSING for text in encoded.distinct]
    is_missing = np.array(missing, bool)[encoded.codes]
    self._check_missing(name, column, is_missing, start)
    known = self._categories[name]
    is_code = name in self._reading.codes
    codes = [
        np.nan if is_none else column_builders.code_in(
            known, cells.code(text) if is_code else text
        ) for text, is_none in zip(encoded.distinct, missing)
    ]
    if len(known) > MAX_CATEGORIES:
      raise errors.DataError(
          f'{self._file.path}: {name} must have at most {MAX_CATEGORIES}'
          ' distinct texts, found more. Tip: drop names, dates and notes.'
      )
    return np.array(codes, np.float64)[encoded.codes]

  def _check_missing(self, name: str, column, missing, start: int) -> None:
    if missing.any() and not self._reading.missing:
      rule = 'a text' if name in self._categories else 'a number'
      self._refuse(
          name, f'must be {rule}', column, start, int(missing.argmax()),
          f'{_FILLS_IN} what is missing',
      )

  def _refuse(
      self, name: str, rule: str, column, start: int, row: int, tip: str = ''
  ) -> None:
    """Raises an error about a cell of the batch that begins at `start`."""
    client = self._codes['client']
    text = cells.texts(column.slice(row, 1)).distinct[0]
    if tip:
      tip = f' Tip: --{self._reading.task}_{tip}.'
    raise errors.DataError(
        f'{self._file.path}: {self._shown(name)} {rule} in every'
        f' {self._file.unit}, found {text!r} at client'
        f' {client.distinct[client.codes[start + row]]} in'
        f' {self._file.position(start + row)}.{tip}'
    )

  def _refuse_text(self, name: str, column, start: int, row: int) -> None:
    """Raises an error about a text, with what to do about such texts."""
    encoded = cells.texts(column)
    counts = np.bincount(encoded.codes, minlength=len(encoded.distinct))
    share = lambda good: sum(
        count for count, text in zip(counts, encoded.distinct) if good(text)
    ) / len(column)
    others = [t for t in encoded.distinct if cells.number(t) is None]
    rule = 'must be a number'
    if share(lambda text: cells.number(text) is not None) > _MOSTLY:
      tip = f'{_FILLS_IN} cells that are made empty'
      shown = errors.listed(list(map(repr, others)))
      rule += f' and is one except for {shown}; it must be'
    elif share(cells.date) > _MOSTLY:
      tip = f'dates={shlex.quote(name)} {_PARTS_OF_DATES}'
    elif len(others) == len(column) >= _FEWEST:
      tip = f'drop_columns={shlex.quote(name)} leaves it out: all rows differ'
    else:
      tip = 'categories=one_hot makes numbers of texts'
    has_gaps = any(t.lower() in cells.MISSING for t in encoded.distinct)
    if has_gaps and not self._reading.missing and _FILLS_IN not in tip:
      tip += f', and --{self._reading.task}_{_FILLS_IN} what is missing'
    self._refuse(name, rule, column, start, row, tip)

  def _shown(self, name: str) -> str:
    """Returns the name of a column in the file."""
    return self._reading.columns.get(name, name)


def _offset(values: np.ndarray, rounded: np.ndarray) -> float:
  """Returns an offset for numbers that would be equal as float32, else 0.

  These are the first numbers, float64[n], NaN if missing, and as float32.
  """
  values, rounded = (some[~np.isnan(values)] for some in (values, rounded))
  error, spread = np.abs(rounded - values).max(), values.std()
  # If all numbers are equal so far, only those as large as seconds need one.
  least = min(0.5, rounding.SHARE * spread) if spread else 0.5
  # Not the first one, which may stand for no value.
  return float(np.median(values)) if error > least else 0.0
