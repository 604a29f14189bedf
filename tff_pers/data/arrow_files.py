"""CSV and Parquet files in batches of Arrow columns, a few megabytes at a time.

Cells of a CSV file are texts, as they are written; those of a Parquet file have
the types of the file.
"""

import csv
import gzip
import itertools
from typing import Callable, IO, Iterator, Sequence
import zlib

import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from tff_pers.data import errors

_BATCH_BYTES = 4 * 2**20
_BATCH_ROWS = 2**14
# What unreadable files raise. (`pa.ArrowInvalid` and `UnicodeDecodeError` are
# ValueErrors.)
_UNREADABLE = (
    OSError, EOFError, ValueError, csv.Error, zlib.error, pa.ArrowException
)


class CsvFile:
  """A CSV file in UTF-8 with one line of names; also as .csv.gz.

  Attributes:
    path: The file.
    names: Names of the columns, without spaces around them.
    unit: What a row is called in messages.
    num_rows: None: known when all is read.
  """

  unit, num_rows = 'line', None

  def __init__(self, path: str):
    """Reads the names.

    Raises:
      errors.DataError: If the file cannot be read.
    """
    self.path = path
    try:
      with self._open() as file:
        self._raw_names = next(csv.reader(file), [])
    except _UNREADABLE as error:
      raise self._unreadable(error) from error
    self.names = [name.strip() for name in self._raw_names]

  def batches(self) -> Iterator[Sequence[pa.Array]]:
    """Yields the columns of some rows after the other, as texts.

    Raises:
      errors.DataError: If the file cannot be read, or a line has another number
        of values than there are names; names the line and its client.
    """
    try:
      with arrow_csv.open_csv(
          self.path,
          read_options=arrow_csv.ReadOptions(block_size=_BATCH_BYTES),
          # In quotes, a line may end.
          parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
          convert_options=arrow_csv.ConvertOptions(
              column_types={name: pa.string() for name in self._raw_names},
              strings_can_be_null=False,
          ),
      ) as reader:
        for batch in reader:
          yield batch.columns
    except _UNREADABLE as error:
      self._check_widths()
      raise self._unreadable(error) from error

  def position(self, row: int) -> str:
    """Returns the line of an example in words: the one in which it ends."""
    line, _ = next(itertools.islice(self._rows(), row, None))
    return f'line {line}'

  def _check_widths(self) -> None:
    """Refuses lines with another number of values than there are names."""
    try:
      for line, row in self._rows():
        if len(row) != len(self.names):
          cells = dict(zip(self.names, row))
          client = cells.get('client', '').strip()
          raise errors.DataError(
              f'{self.path} must have {len(self.names)} values in every line,'
              f' found {len(row)} in line {line} (client'
              f' {client or "unknown"}).'
          )
    except errors.DataError:
      raise
    except _UNREADABLE as error:
      raise self._unreadable(error) from error

  def _rows(self):
    """Yields (line, cells) of each example; empty lines are none."""
    with self._open() as file:
      reader = csv.reader(file)
      next(reader)
      for row in reader:
        if row:
          yield reader.line_num, row

  def _open(self):
    # utf-8-sig: spreadsheets write a byte order mark, which would otherwise
    # become part of the first name.
    open_text: Callable[..., IO] = open
    if self.path.endswith('.gz'):
      open_text = gzip.open
    return open_text(self.path, 'rt', encoding='utf-8-sig', newline='')

  def _unreadable(self, error: Exception) -> errors.DataError:
    return errors.DataError(
        f'{self.path} must be a readable CSV file in UTF-8, found'
        f' {errors.first_line(error)}.'
    )


class ParquetFile:
  """A Parquet file; see `CsvFile`."""

  unit = 'row'

  def __init__(self, path: str):
    self.path = path
    try:
      with parquet.ParquetFile(path) as file:
        self.names = [name.strip() for name in file.schema_arrow.names]
        self.num_rows = file.metadata.num_rows
    except _UNREADABLE as error:
      raise self._unreadable(error) from error

  def batches(self) -> Iterator[Sequence[pa.Array]]:
    """Yields the columns of some rows after the other.

    Raises:
      errors.DataError: If the file cannot be read.
    """
    try:
      with parquet.ParquetFile(self.path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
          yield batch.columns
    except _UNREADABLE as error:
      raise self._unreadable(error) from error

  def position(self, row: int) -> str:
    """Returns a row in words; the first one is row 0."""
    return f'row {row}'

  def _unreadable(self, error: Exception) -> errors.DataError:
    return errors.DataError(
        f'{self.path} must be a complete Parquet file, found it unreadable'
        f' ({errors.first_line(error)}).'
    )
