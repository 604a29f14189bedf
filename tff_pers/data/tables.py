"""Reads a user's own per-client data: one .npz or one .csv file.

Both hold one row per example: features, `y` (label or target), `client` (whose
it is, a number or a name) and optionally `split` (`train` or `test`; 0 or 1)
and `tier` (that of the client's device: 0 is the first tier of a method, 1 the
second, ...; the same in all rows of a client).
"""

import csv
import os
import re
from typing import NamedTuple, Optional
import zipfile
import zlib

import numpy as np

from tff_pers.data import errors
from tff_pers.data import npy_headers


# What `np.load` raises on a file that is cut short or of another kind.
_UNREADABLE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)


# Of each, a file may have one or not.
_OPTIONAL = ('split', 'tier')


class Table(NamedTuple):
  """Examples as they are in the file; their values are not checked yet.

  Attributes:
    path: The file.
    x: Features, [n, ...].
    y: Labels (an integer dtype) or targets, [n].
    client: int or text [n].
    is_test: bool[n], or None if the file has no `split`.
    tier: int32[n], or None if the file has no `tier`.
  """

  path: str
  x: np.ndarray
  y: np.ndarray
  client: np.ndarray
  is_test: Optional[np.ndarray]
  tier: Optional[np.ndarray] = None


def locate(data_dir: str, extension: str) -> str:
  """Returns `data_dir` if it is a file, else the one such file in that folder.

  Raises:
    errors.DataError: If there is no such file, or several.
  """
  if not data_dir:
    raise errors.DataError(
        f'`data_dir` must name a .{extension} file or the folder of one, found'
        ' nothing.'
    )
  if os.path.isfile(data_dir):
    return data_dir
  if not os.path.isdir(data_dir):
    raise errors.DataError(f'`data_dir` must exist, found {data_dir!r}.')
  files = sorted(
      name for name in os.listdir(data_dir) if name.endswith('.' + extension)
  )
  if len(files) != 1:
    raise errors.DataError(
        f'`data_dir` must hold one .{extension} file, found'
        f' {", ".join(files) or "none"} in {data_dir}.'
    )
  return os.path.join(data_dir, files[0])


def read_npz(path: str) -> Table:
  """Returns the arrays `x`, `y`, `client` and, if there, `split`, `tier`.

  Raises:
    errors.DataError: If the file cannot be read, lacks an array, holds ragged
      ones (dtype object), or they differ in length.
  """
  arrays = load_arrays(path, ('x', 'y', 'client'), optional=_OPTIONAL)
  lengths = {name: len(a) if a.ndim else 0 for name, a in arrays.items()}
  if len(set(lengths.values())) > 1:
    raise errors.DataError(
        f'{path} must hold one row per example in every array, found {lengths}.'
    )
  client = arrays['client']
  if client.ndim != 1 or client.dtype.kind not in 'iuU':
    raise errors.DataError(
        f'{path}: client must be one integer or text per example, found shape'
        f' {list(client.shape)} of dtype {client.dtype}.'
    )
  split = arrays.get('split')
  if split is not None:
    split = _is_test(split.tolist(), client, path)
  tier = arrays.get('tier')
  if tier is not None:
    tier = _tiers(tier.tolist(), client, path)
  return Table(path, arrays['x'], arrays['y'], client, split, tier)


def load_arrays(path: str, required, optional=()) -> dict[str, np.ndarray]:
  """Returns arrays of an .npz file by name.

  Raises:
    errors.DataError: If the file cannot be read, or lacks a required array.
  """
  try:
    # No pickles: unpickling a file can run any code in it.
    with np.load(path, allow_pickle=False) as file:
      found = [n for n in (*required, *optional) if n in file.files]
      npy_headers.check_npz(path, found)
      arrays = {name: file[name] for name in found}
  # Of a .npy file `np.load` returns an array, which is no context manager.
  except (AttributeError, TypeError) as error:
    raise errors.DataError(
        f'{path} must be an .npz file, found a single array.'
    ) from error
  except MemoryError as error:
    raise errors.DataError(
        f'{path} must hold arrays that fit into memory, found larger ones'
        f' ({_line(error)}).'
    ) from error
  except _UNREADABLE as error:
    raise errors.DataError(
        f'{path} must be a complete .npz file of plain arrays (no objects, no'
        f' ragged rows), found it unreadable ({_line(error)}).'
    ) from error
  missing = [name for name in required if name not in arrays]
  if missing:
    raise errors.DataError(
        f'{path} must hold the arrays {", ".join(required)}, found no'
        f' {missing[0]}.'
    )
  return arrays


def read_csv(path: str) -> Table:
  """Returns `client`, `y`, and `split`, `tier` if there; all others are x.

  The file is UTF-8 with one line of names. y is of an integer dtype if every
  one of its texts is an integer.

  Raises:
    errors.DataError: If the file cannot be read, or a line does not fit; names
      the line and its client.
  """
  try:
    # utf-8-sig: spreadsheets write a byte order mark, which would otherwise
    # become part of the first name.
    with open(path, encoding='utf-8-sig', newline='') as file:
      reader = csv.reader(file)
      names = [name.strip() for name in next(reader, [])]
      features = _check_header(names, path)
      rows = [
          _check_row(row, names, reader.line_num, path) for row in reader if row
      ]
  except (OSError, UnicodeDecodeError, csv.Error) as error:
    raise errors.DataError(
        f'{path} must be a readable CSV file in UTF-8, found {_line(error)}.'
    ) from error
  if not rows:
    raise errors.DataError(
        f'{path} must hold at least one example, found none.'
    )
  at = names.index
  client = np.array([row[at('client')] for row in rows])
  x = [
      [_number(row, at(name), name, path, client[r]) for name in features]
      for r, row in enumerate(rows)
  ]
  y = [
      _number(row, at('y'), 'y', path, client[r]) for r, row in enumerate(rows)
  ]
  y = np.array(y)
  if all(_INTEGER.fullmatch(row[at('y')]) for row in rows):
    y = y.astype(np.int64)
  # As numbers, client 9 comes before client 10; as texts, after it.
  if all(_INTEGER.fullmatch(name) for name in client):
    client = np.array([int(name) for name in client])
  split = None
  if 'split' in names:
    split = _is_test([row[at('split')] for row in rows], client, path)
  tier = None
  if 'tier' in names:
    tier = _tiers([row[at('tier')] for row in rows], client, path)
  return Table(path, np.array(x), y, client, split, tier)


def _check_header(names, path: str) -> list[str]:
  """Returns the names of the feature columns."""
  for required in ('client', 'y'):
    if required not in names:
      raise errors.DataError(
          f'{path} must have the columns client, y and features, found no'
          f' {required} among {", ".join(names[:8]) or "none"}.'
      )
  if len(set(names)) < len(names):
    raise errors.DataError(f'{path} must name every column once.')
  features = [
      name for name in names if name not in ('client', 'y', *_OPTIONAL)
  ]
  if not features:
    raise errors.DataError(
        f'{path} must have at least one column of features beside client, y,'
        f' {" and ".join(_OPTIONAL)}, found none.'
    )
  return features


def _check_row(row, names, line: int, path: str) -> list[str]:
  row = [text.strip() for text in row]
  at = names.index('client')
  client = row[at] if at < len(row) else ''
  if len(row) != len(names):
    raise errors.DataError(
        f'{path} must have {len(names)} values in every line, found {len(row)}'
        f' in line {line} (client {client or "unknown"}).'
    )
  if not client:
    raise errors.DataError(
        f'{path} must name the client in every line, found none in line {line}.'
    )
  return row


def _number(row, column: int, name: str, path: str, client) -> float:
  try:
    return float(row[column])
  except ValueError as error:
    raise errors.DataError(
        f'{path}: {name} must be a number in every line, found {row[column]!r}'
        f' at client {client}.'
    ) from error


# An integer in its usual form, so that 01 stays a text, of at most 15 digits: y
# is parsed as a float64 first, which holds them exactly.
_INTEGER = re.compile('0|-?[1-9][0-9]{0,14}')

_TIER = re.compile('[0-9]{1,4}')

_SPLITS = {'train': False, '0': False, 'test': True, '1': True}


def _is_test(split, client, path: str) -> np.ndarray:
  """Returns the column `split` as bool[n]."""
  for row, value in enumerate(split):
    if str(value) not in _SPLITS:
      raise errors.DataError(
          f'{path}: split must be train or test (or 0 or 1), found {value!r} at'
          f' client {client[row]}.'
      )
  return np.array([_SPLITS[str(value)] for value in split])


def _tiers(tier, client, path: str) -> np.ndarray:
  """Returns the column `tier` as int32[n]."""
  of_client = {}
  for row, value in enumerate(tier):
    if not _TIER.fullmatch(str(value)):
      raise errors.DataError(
          f'{path}: tier must be an integer >= 0 in every row, found {value!r}'
          f' at client {client[row]}.'
      )
    if of_client.setdefault(client[row], str(value)) != str(value):
      raise errors.DataError(
          f'{path}: tier must be the same in all rows of a client, found'
          f' {of_client[client[row]]} and {value} at client {client[row]}.'
      )
  return np.array([int(value) for value in tier], np.int32)


def _line(error: Exception) -> str:
  text = str(error).strip() or type(error).__name__
  return text.splitlines()[0].rstrip('.')
