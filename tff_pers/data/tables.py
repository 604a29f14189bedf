"""Tables of a user's own per-client data, and how an .npz becomes one.

A table holds one row per example: features, `y` (label or target), `client`
(its client, a number or a name) and optionally `split` (`train` or `test`; 0 or
1) and `tier` (the tier of the client's device: 0 is the first tier of a method,
1 the second, ...; the same in all rows of a client). Files of columns (CSV,
Parquet) are read in `columnar.py`.
"""

import itertools
import os
import re
from typing import (
    Any, Callable, Iterable, Mapping, NamedTuple, Optional, Sequence
)
import zipfile
import zlib

import numpy as np
import tensorflow as tf

from tff_pers.data import cells
from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import features
from tff_pers.data import npy_headers


# Errors of `np.load` on a file that is truncated or of another format.
_UNREADABLE = (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error)

# Columns that are not features: the required and the optional ones of a table.
REQUIRED = ('client', 'y')
OPTIONAL = ('split', 'tier')

# The tasks that read files, with the endings of their names.
EXTENSIONS = {
    'csv': ('.csv', '.csv.gz', '.tsv', '.tsv.gz'), 'npz': ('.npz',),
    'parquet': ('.parquet',),
    'tfrecord': ('.tfrecord', '.tfrecords', '.tfrecord.gz', '.tfrecords.gz'),
}


class Table(NamedTuple):
  """Examples as read from a file.

  Attributes:
    path: The file.
    x: Values of the columns minus their offsets, [n, ...]; not checked yet if
      from an .npz. A structure of arrays if from `named_arrays`.
    y: Labels (an integer dtype) or targets, [n]; not checked yet. Likewise.
    client: int32[n], positions in `names`.
    names: The clients, distinct and sorted: int64[C], or text [C].
    is_test: bool[n], or None if the file has no `split`.
    tier: int32[n], or None if the file has no `tier`.
    columns: The columns in x, or None: numbers without names.
    classes: Names of the labels 0..C-1, or None: y holds numbers.
    spelling: The distinct numbers of y as spelled in the file, in their order;
      None: there are many, or y holds names.
    remarks: Sentences about the table for the user.
    position: Returns the position of a row in the file as text, `line 7`.
  """

  path: str
  x: Any
  y: Any
  client: np.ndarray
  names: np.ndarray
  is_test: Optional[np.ndarray]
  tier: Optional[np.ndarray] = None
  columns: Optional[tuple[features.Column, ...]] = None
  classes: Optional[tuple[str, ...]] = None
  spelling: Optional[tuple[str, ...]] = None
  remarks: tuple[str, ...] = ()
  position: Callable[[int], str] = 'row {}'.format

  def place(self, row: int) -> str:
    """Returns the position of a row and its client: `line 7 of client bob`."""
    return f'{self.position(row)} of client {self.names[self.client[row]]}'

  def at(self, row: int) -> str:
    """Returns the same for a single cell: `at client bob in line 7`."""
    return f'at client {self.names[self.client[row]]} in {self.position(row)}'

  def take(self, rows: np.ndarray) -> 'Table':
    """Returns the table of these rows, int[m], and of their clients."""
    names, client = np.unique(self.client[rows], return_inverse=True)
    # None and single arrays count as structures.
    pick = lambda column: tf.nest.map_structure(
        lambda a: None if a is None else a[rows], column
    )
    return self._replace(
        x=pick(self.x), y=pick(self.y), client=client.astype(np.int32),
        names=self.names[names], is_test=pick(self.is_test),
        tier=pick(self.tier),
        position=lambda row: self.position(int(rows[row])),
    )


def locate(data_dir: str, kind: str) -> list[str]:
  """Returns `data_dir` if it is a file, else the files of a kind in the folder.

  Raises:
    errors.DataError: If there is no such file, or several .npz files, or the
      file is of another kind.
  """
  ends = EXTENSIONS[kind]
  if not data_dir:
    raise errors.DataError(
        f'`data_dir` must name a {ends[0]} file or the folder of one, found'
        ' nothing.'
    )
  if os.path.isfile(data_dir):
    for other, other_ends in EXTENSIONS.items():
      if other != kind and data_dir.endswith(other_ends):
        raise errors.DataError(
            f'`data_dir` must name a {ends[0]} file for --task={kind}, found'
            f' {data_dir}. Tip: --task={other}.'
        )
    return [data_dir]
  if not os.path.isdir(data_dir):
    raise errors.DataError(f'`data_dir` must exist, found {data_dir!r}.')
  files = sorted(name for name in os.listdir(data_dir) if name.endswith(ends))
  if not files or (kind == 'npz' and len(files) > 1):
    raise errors.DataError(
        f'`data_dir` must hold one {ends[0]} file, found'
        f' {", ".join(files) or "none"} in {data_dir}.'
    )
  return [os.path.join(data_dir, name) for name in files]


def stem(path: str) -> str:
  """Returns the name of a file without its folder and its ending."""
  name = os.path.basename(path)
  ends = sorted(itertools.chain(*EXTENSIONS.values()), key=len, reverse=True)
  return next(
      (name[:-len(end)] for end in ends if name.endswith(end)), name
  )


def read_npz(path: str) -> Table:
  """Returns the table of `x`, `y`, `client`, optionally `split` and `tier`.

  Raises:
    errors.DataError: If the file cannot be read, lacks an array, holds ragged
      ones (dtype object), or they differ in length.
  """
  arrays = load_arrays(path, ('x', 'y', 'client'), optional=OPTIONAL)
  table = of_clients(path, arrays, arrays['x'], arrays['y'])
  if table.y.ndim == 1 and table.y.dtype.kind == 'f':
    table = with_y(table, np.isnan(table.y))
  y, classes, spelling = labels(table.y, path)
  return table._replace(y=y, classes=classes, spelling=spelling)


def of_clients(
    path: str, arrays: Mapping[str, np.ndarray], x: Any, y: Any
) -> Table:
  """Returns the table of x and y, with their clients from other arrays.

  Without `client`, all rows belong to one client named ''.

  Raises:
    errors.DataError: If arrays differ in length, or `client`, `split` or `tier`
      holds invalid values.
  """
  lengths = {name: len(a) if a.ndim else 0 for name, a in arrays.items()}
  if len(set(lengths.values())) > 1:
    raise errors.DataError(
        f'{path} must hold one row per example in every array, found {lengths}.'
    )
  client = arrays.get('client', np.full([max(lengths.values())], ''))
  if client.ndim != 1 or client.dtype.kind not in 'iuU':
    raise errors.DataError(
        f'{path}: client must be one integer or text per example, found shape'
        f' {list(client.shape)} of dtype {client.dtype}.'
    )
  names, codes = np.unique(client, return_inverse=True)
  if 'client' in arrays:
    client_names.check(names, path)
  table = Table(path, x, y, codes.astype(np.int32), names, None)
  given = {}
  for name in OPTIONAL:
    if name in arrays:
      distinct, codes = np.unique(arrays[name], return_inverse=True)
      given[name] = codes, [str(value) for value in distinct.tolist()]
  return with_optional(table, given)


def with_y(table: Table, is_missing: np.ndarray) -> Table:
  """Returns the table without rows whose y is empty, with a remark on them.

  Raises:
    errors.DataError: If all y are empty.
  """
  empty = np.flatnonzero(is_missing)
  if not len(empty):
    return table
  if len(empty) == len(is_missing):
    raise errors.DataError(
        f'{table.path} must hold y for at least one example, found none.'
    )
  first = table.position(int(empty[0]))
  remark = (
      f'{len(empty)} of {len(is_missing)} rows have no y and are left out, the'
      f' first in {first}.'
  )
  return table.take(np.flatnonzero(~is_missing))._replace(
      remarks=(*table.remarks, remark)
  )


def labels(
    y: np.ndarray, path: str
) -> tuple[
    np.ndarray, Optional[tuple[str, ...]], Optional[tuple[str, ...]]
]:
  """Returns y as in a `Table`, with its `classes` and its `spelling`.

  Raises:
    errors.DataError: If a text means "no value".
  """
  if y.ndim != 1 or y.dtype.kind not in 'biufU':
    return y, None, None  # Another check refuses it.
  distinct, codes = np.unique(y, return_inverse=True)
  texts = tuple(str(value) for value in distinct.tolist())
  if y.dtype.kind == 'U':
    for code, text in enumerate(texts):
      if text.strip().lower() in cells.MISSING:
        raise errors.DataError(
            f'{path}: y must be the name of a class in every row, found'
            f' {text!r} in row {int(np.argmax(codes == code))}.'
        )
    return codes.astype(np.int64), texts, None
  if y.dtype.kind == 'f' and cells.are_whole(distinct):
    y = y.astype(np.int64)
  return y, None, texts if len(texts) <= cells.MAX_NAMED else None


def load_arrays(
    path: str, required: Iterable[str], optional: Iterable[str] = ()
) -> dict[str, np.ndarray]:
  """Returns arrays of an .npz file by name.

  Raises:
    errors.DataError: If the file cannot be read, or lacks a required array.
  """
  try:
    # No pickles, because unpickling a file can run any code.
    with np.load(path, allow_pickle=False) as file:
      found = [n for n in (*required, *optional) if n in file.files]
      npy_headers.check_npz(path, found)
      arrays = {name: file[name] for name in found}
      every = list(file.files)
  # For a .npy file `np.load` returns an array, which is no context manager.
  except (AttributeError, TypeError) as error:
    raise errors.DataError(
        f'{path} must be an .npz file, found a single array.'
    ) from error
  except MemoryError as error:
    raise errors.DataError(
        f'{path} must hold arrays that fit into memory, found larger ones'
        f' ({errors.first_line(error)}).'
    ) from error
  except _UNREADABLE as error:
    raise errors.DataError(
        f'{path} must be a complete .npz file of plain arrays (no objects, no'
        f' ragged rows), found it unreadable ({errors.first_line(error)}).'
    ) from error
  missing = [name for name in required if name not in arrays]
  if missing:
    several = [name for name in every if name.startswith(f'{missing[0]}_')]
    tip = ''
    if several:
      tip = (
          f' Tip: several inputs or outputs ({", ".join(several)}) take a model'
          ' of your own, registered by tff_pers.data.tasks.register_npz.'
      )
    raise errors.DataError(
        f'{path} must hold the arrays {", ".join(required)}, found no'
        f' {missing[0]}.{tip}'
    )
  return arrays


def sorted_names(
    codes: np.ndarray, names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
  """Returns `codes` and `names`, with the names sorted.

  Names are sorted as numbers (9 before 10) if all of them are integers in their
  usual form, else as texts (10 before 9). They are distinct, and codes, int[n],
  are positions of names.
  """
  are_numbers = all(cells.INTEGER.fullmatch(name) for name in names)
  distinct, places = np.unique(
      np.array(names, np.int64 if are_numbers else str), return_inverse=True
  )
  return places.astype(np.int32)[codes], distinct


def with_optional(
    table: Table, given: Mapping[str, tuple[np.ndarray, Sequence[str]]]
) -> Table:
  """Returns the table with `is_test` and `tier`.

  Columns are given as int[n], positions in a list of distinct texts, and that
  list.

  Raises:
    errors.DataError: If a text is not allowed, or a client has two tiers.
  """
  if 'split' in given:
    table = table._replace(is_test=_is_test(table, *given['split']))
  if 'tier' in given:
    table = table._replace(tier=_tiers(table, *given['tier']))
  return table


_TIER = re.compile('[0-9]{1,4}')

_SPLITS = {'train': False, '0': False, 'test': True, '1': True}


def _is_test(table: Table, codes, distinct) -> np.ndarray:
  """Returns the column `split` as bool[n]."""
  known = np.array([text in _SPLITS for text in distinct], bool)[codes]
  if not known.all():
    row = int(known.argmin())
    raise errors.DataError(
        f'{table.path}: split must be train or test (or 0 or 1), found'
        f' {distinct[codes[row]]!r} {table.at(row)}.'
    )
  return np.array([_SPLITS.get(text) for text in distinct], bool)[codes]


def _tiers(table: Table, codes, distinct) -> np.ndarray:
  """Returns the column `tier` as int32[n]."""
  good = np.array([bool(_TIER.fullmatch(t)) for t in distinct], bool)[codes]
  if not good.all():
    row = int(good.argmin())
    raise errors.DataError(
        f'{table.path}: tier must be an integer >= 0 in every row, found'
        f' {distinct[codes[row]]!r} {table.at(row)}.'
    )
  numbers = [int(t) if _TIER.fullmatch(t) else 0 for t in distinct]
  tier = np.array(numbers, np.int32)[codes]
  of_client = np.zeros(len(table.names), np.int32)
  # In reverse, so that the first row of a client is written last.
  of_client[table.client[::-1]] = tier[::-1]
  same = tier == of_client[table.client]
  if not same.all():
    row = int(same.argmin())
    raise errors.DataError(
        f'{table.path}: tier must be the same in all rows of a client, found'
        f' {of_client[table.client[row]]} and {tier[row]} {table.at(row)}.'
    )
  return tier
