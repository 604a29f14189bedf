"""Detects the actual form of a file of comma-separated values.

In countries that write 1,5 spreadsheets use semicolons and decimal commas, and
UTF-16 or the machine's code page; files may be compressed whatever their name.
"""

import codecs
import csv
import gzip
import itertools
import re
from typing import Any, BinaryIO, IO, NamedTuple

from tff_pers.data import errors

_CHUNK = 2**20
# Number of rows that decide about separators and decimal commas.
_LOOKED_AT = 200
_SEPARATORS = ',;\t|'
_SPREADSHEET = 'a spreadsheet. Tip: save it as CSV there.'
_OTHERS = {
    b'PK\x03\x04': _SPREADSHEET, b'\xd0\xcf\x11\xe0': _SPREADSHEET,
    b'PAR1': 'a Parquet file. Tip: --task=parquet, and .parquet as its end.',
}
_WITH_COMMA = re.compile(r'[+-]?(\d*|\d{1,3}(\.\d{3})+),\d+')
_WITH_POINT = re.compile(r'[+-]?\d*\.\d+([eE][+-]?\d+)?')
_THOUSANDS = re.compile(r'[+-]?[1-9]\d{0,2}([.,]\d{3})+')


class Form(NamedTuple):
  """The form of a file.

  Attributes:
    gzipped: Whether it is compressed.
    encoding: Encoding of its text.
    separator: The separator between cells.
    decimal_comma: Whether 1,5 is a number (and 1.234,5 too).
  """

  gzipped: bool
  encoding: str
  separator: str = ','
  decimal_comma: bool = False

  @property
  def about(self) -> str:
    """A sentence about what is unusual in it; '' if nothing is."""
    parts = []
    if self.encoding != 'utf-8-sig':
      parts.append(f'text in {self.encoding}')
    if self.separator != ',':
      parts.append(f'{self.separator!r} between cells')
    if self.decimal_comma:
      parts.append('decimal commas')
    return f'The file has {", ".join(parts)}.' if parts else ''

  def open(self, path: str) -> IO[str]:
    """Opens the file as text."""
    opener: Any = gzip.open if self.gzipped else open
    return opener(path, 'rt', encoding=self.encoding, newline='')


def look(path: str) -> Form:
  """Returns the form of a file.

  Raises:
    errors.DataError: If it is not a text, or mixes encodings.
    OSError: If it cannot be read; `EOFError`, `zlib.error`, `csv.Error`,
      `UnicodeDecodeError` if it is damaged.
  """
  with open(path, 'rb') as file:
    head = file.read(4)
  for magic, found in _OTHERS.items():
    if head == magic:
      raise errors.DataError(f'{path} must be a text, found {found}')
  gzipped = head.startswith(b'\x1f\x8b')
  opener: Any = gzip.open if gzipped else open
  with opener(path, 'rb') as file:
    form = Form(gzipped, _encoding(file, path))
  form = form._replace(separator=_separator(path, form))
  return form._replace(decimal_comma=_has_decimal_commas(path, form))


def _encoding(file: BinaryIO, path: str) -> str:
  """Returns the name of the encoding of a file."""
  head = file.read(4096)
  if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
    return 'utf-16'
  zeros = head[::2].count(0), head[1::2].count(0)
  if any(zeros):
    # In UTF-16, every other byte of an ASCII character is 0.
    if 4 * min(zeros) > max(zeros):
      raise errors.DataError(
          f'{path} must be a text, found {sum(zeros)} bytes of 0 at its'
          ' beginning.'
      )
    return 'utf-16-be' if zeros[0] > zeros[1] else 'utf-16-le'
  decoder = codecs.getincrementaldecoder('utf-8')('replace')
  valid = invalid = 0
  while head:
    text = decoder.decode(head)
    if not text.isascii():
      invalid += text.count('\ufffd')
      valid += sum(character > '\x7f' for character in text)
    head = file.read(_CHUNK)
  invalid += decoder.decode(b'', final=True).count('\ufffd')
  if not invalid:
    return 'utf-8-sig'
  # All other characters are valid UTF-8, so it is no other encoding.
  if valid > 2 * invalid:
    raise errors.DataError(
        f'{path} must be a readable CSV file in one encoding, found UTF-8 with'
        f' {invalid} other bytes.'
    )
  return 'cp1252'


def _separator(path: str, form: Form) -> str:
  """Returns the separator that gives the most cells, equally many per line."""
  def score(separator):
    with form.open(path) as file:
      lines = list(itertools.islice(csv.reader(file, delimiter=separator), 2))
    width = len(lines[0]) if lines else 0
    return len(lines) < 2 or len(lines[1]) == width > 1, width
  return max(_SEPARATORS, key=score)


def _has_decimal_commas(path: str, form: Form) -> bool:
  """Returns whether numbers have decimal commas rather than thousands."""
  with form.open(path) as file:
    rows = csv.reader(file, delimiter=form.separator)
    found = {
        cell.strip() for row in itertools.islice(rows, 1, _LOOKED_AT)
        for cell in row
    }
  commas = [cell for cell in found if _WITH_COMMA.fullmatch(cell)]
  points = [
      cell for cell in found
      if _WITH_POINT.fullmatch(cell) and not _THOUSANDS.fullmatch(cell)
  ]
  # Files are separated by ; because their numbers have commas.
  return bool(commas) and not points and (
      form.separator == ';'
      or not all(_THOUSANDS.fullmatch(cell) for cell in commas)
  )
