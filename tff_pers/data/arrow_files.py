"""Reads CSV, Parquet and TFRecord files as small batches of Arrow columns.

Cells of a CSV file are texts, as written; those of a Parquet file have the
types of the file. A folder of such files is treated as one file.
"""

import csv
import itertools
import os
from typing import Collection, Iterator, Optional, Sequence, Union
import zlib

import numpy as np
import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from tff_pers.data import csv_forms
from tff_pers.data import errors
from tff_pers.data import record_files
from tff_pers.data import tables

_BATCH_BYTES = 4 * 2**20
_BATCH_ROWS = 2**14
# Errors of unreadable files. (`pa.ArrowInvalid` and `UnicodeDecodeError` are
# ValueErrors.)
_UNREADABLE = (
    OSError, EOFError, ValueError, csv.Error, zlib.error, pa.ArrowException
)
_DECIMAL_COMMA = r'^\s*[+-]?(\d*|\d{1,3}(\.\d{3})+)(,\d+)?([eE][+-]?\d+)?\s*$'
# A folder of these files is one split, not one file per client.
_PARTS = frozenset(('train', 'test', 'val', 'valid', 'validation', 'dev'))


class CsvFile:
  """A file of separated values with a header line; see `csv_forms`.

  Attributes:
    path: The file.
    names: Names of the columns, without spaces around them.
    about: A sentence about what is unusual in its form, or ''.
    decimal_comma: Whether 1,5 is a number in it.
    unit: The name of a row in messages.
    num_rows: None: unknown until everything is read.
  """

  unit, num_rows = 'line', None

  def __init__(self, path: str, client: str = 'client'):
    """Reads the header; the column `client` is for messages.

    Raises:
      errors.DataError: If the file cannot be read.
    """
    self.path, self._client = path, client
    try:
      self._form = csv_forms.look(path)
      with self._form.open(path) as file:
        self._raw_names: list[str] = next(self._reader(file), [])
    except errors.DataError:
      raise
    except _UNREADABLE as error:
      raise self._unreadable(error) from error
    self.names = [name.strip() for name in self._raw_names]
    self.about = self._form.about
    self.decimal_comma = self._form.decimal_comma

  def batches(
      self, numbers: Collection[str] = ()
  ) -> Iterator[Sequence[pa.Array]]:
    """Yields the columns of consecutive rows, as texts.

    Columns of `numbers` get decimal points, and all others, e.g. of a client
    1.234, are as in the file.

    Raises:
      errors.DataError: If the file cannot be read, or a line has more or fewer
        values than there are names; names the line and its client.
    """
    form = self._form
    encoding = 'utf8' if form.encoding == 'utf-8-sig' else form.encoding
    try:
      with pa.input_stream(
          self.path, compression='gzip' if form.gzipped else None
      ) as stream, arrow_csv.open_csv(
          stream,
          read_options=arrow_csv.ReadOptions(
              block_size=_BATCH_BYTES, encoding=encoding
          ),
          # Within quotes, values may contain line ends.
          parse_options=arrow_csv.ParseOptions(
              delimiter=form.separator, newlines_in_values=True
          ),
          convert_options=arrow_csv.ConvertOptions(
              column_types={name: pa.string() for name in self._raw_names},
              strings_can_be_null=False,
          ),
      ) as reader:
        for batch in reader:
          yield [
              with_points(column)
              if self.decimal_comma and name in numbers else column
              for name, column in zip(self.names, batch.columns)
          ]
    except _UNREADABLE as error:
      self._check_widths()
      raise self._unreadable(error) from error

  def position(self, row: int) -> str:
    """Returns the line in which an example ends, as text."""
    line, _ = next(itertools.islice(self._rows(), row, None))
    return f'line {line}'

  def _check_widths(self) -> None:
    """Raises if a line has more or fewer values than there are names."""
    try:
      for line, row in self._rows():
        if len(row) != len(self.names):
          cells = dict(zip(self.names, row))
          client = cells.get(self._client, '').strip()
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
    """Yields (line, cells) of each example; empty lines are skipped."""
    with self._form.open(self.path) as file:
      reader = self._reader(file)
      next(reader)
      for row in reader:
        if row:
          yield reader.line_num, row

  def _reader(self, file):
    return csv.reader(file, delimiter=self._form.separator)

  def _unreadable(self, error: Exception) -> errors.DataError:
    return errors.DataError(
        f'{self.path} must be a readable CSV file, found'
        f' {errors.first_line(error)}.'
    )


def with_points(column: pa.Array) -> pa.Array:
  """Returns a column with decimal points: 1234.5 for 1.234,5."""
  return compute.if_else(
      compute.match_substring_regex(column, _DECIMAL_COMMA),
      compute.replace_substring(
          compute.replace_substring(column, '.', ''), ',', '.'
      ),
      column,
  )


class ParquetFile:
  """A Parquet file; see `CsvFile`."""

  unit, about, decimal_comma = 'row', '', False

  def __init__(self, path: str):
    self.path = path
    try:
      with parquet.ParquetFile(path) as file:
        self.names = [name.strip() for name in file.schema_arrow.names]
        self.num_rows: Optional[int] = file.metadata.num_rows
    except _UNREADABLE as error:
      raise self._unreadable(error) from error

  def batches(
      self, numbers: Collection[str] = ()
  ) -> Iterator[Sequence[pa.Array]]:
    """Yields the columns of consecutive rows.

    Raises:
      errors.DataError: If the file cannot be read.
    """
    del numbers  # Cells have types.
    try:
      with parquet.ParquetFile(self.path) as file:
        for batch in file.iter_batches(_BATCH_ROWS):
          yield batch.columns
    except _UNREADABLE as error:
      raise self._unreadable(error) from error

  def position(self, row: int) -> str:
    """Returns a row as text; the first one is row 0."""
    return f'row {row}'

  def _unreadable(self, error: Exception) -> errors.DataError:
    return errors.DataError(
        f'{self.path} must be a complete Parquet file, found it unreadable'
        f' ({errors.first_line(error)}).'
    )


OneFile = Union[CsvFile, ParquetFile, record_files.RecordFile]


class Folder:
  """A folder of files with the same columns, as one file; see `CsvFile`.

  Without a column of clients, each file belongs to one client, named after the
  file.
  """

  num_rows = None

  def __init__(
      self, path: str, files: Sequence[OneFile],
      client: str = 'client',
  ):
    """Compares the columns of the files.

    Raises:
      errors.DataError: If the columns of two files differ, or the files are
        named like a split.
    """
    self.path, self._files = path, files
    self.unit, self.about = files[0].unit, files[0].about
    self.decimal_comma = any(file.decimal_comma for file in files)
    self._starts = [0]
    own = files[0].names
    for file in files:
      if sorted(file.names) != sorted(own):
        raise errors.DataError(
            f'{path} must hold files with the same columns, found'
            f' {", ".join(sorted({*file.names} ^ {*own})) or "other ones"} in'
            f' one of {files[0].path} and {file.path} alone.'
        )
    stems = [tables.stem(file.path) for file in files]
    first_of = dict(zip(reversed(stems), reversed(files)))
    for stem, file in zip(stems, files):
      if first_of[stem] is not file:
        raise errors.DataError(
            f'{path} must hold files whose names differ before their endings,'
            f' found {os.path.basename(first_of[stem].path)} and'
            f' {os.path.basename(file.path)}. Tip: if one is a copy of the'
            ' other, leave it out; else rename it.'
        )
    self._clients = None if client in own else stems
    if self._clients and _PARTS.issuperset(map(str.lower, stems)):
      raise errors.DataError(
          f'{path} must hold one file for each client, found'
          f' {", ".join(stems)}. Tip: one file with a column split.'
      )
    self.names = [*own, client] if self._clients else own

  def batches(
      self, numbers: Collection[str] = ()
  ) -> Iterator[Sequence[pa.Array]]:
    """Yields the columns of all files, one after another.

    Raises:
      errors.DataError: If a file cannot be read.
    """
    self._starts = [0]
    for number, file in enumerate(self._files):
      places = [file.names.index(name) for name in self._files[0].names]
      size = 0
      for batch in file.batches(numbers):
        columns = [batch[place] for place in places]
        if self._clients:
          columns.append(pa.array([self._clients[number]] * len(columns[0])))
        size += len(columns[0])
        yield columns
      self._starts.append(self._starts[-1] + size)

  def position(self, row: int) -> str:
    """Returns a row and its file as text."""
    number = int(np.searchsorted(self._starts, row, side='right')) - 1
    number = min(number, len(self._files) - 1)
    file = self._files[number]
    return (
        f'{file.position(row - self._starts[number])} of'
        f' {os.path.basename(file.path)}'
    )


File = Union[OneFile, Folder]


def open_table(data_dir: str, kind: str, client: str = 'client') -> File:
  """Returns the file `data_dir`, or the files in that folder as one.

  `kind` is `csv`, `parquet` or `tfrecord`, and `client` the column of clients.

  Raises:
    errors.DataError: If there is none, or it cannot be read.
  """
  paths = tables.locate(data_dir, kind)
  files: list[OneFile] = [
      CsvFile(path, client) if kind == 'csv'
      else ParquetFile(path) if kind == 'parquet'
      else record_files.RecordFile(path) for path in paths
  ]
  return files[0] if len(files) == 1 else Folder(data_dir, files, client)
