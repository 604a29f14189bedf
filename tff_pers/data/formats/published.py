"""Finds a data set of TFF or LEAF in a folder, in the cache, or online."""

import os
from typing import Iterable, Mapping, NamedTuple, Optional

from tff_pers.data import errors
from tff_pers.data.formats import download
from tff_pers.data.formats import hdf5
from tff_pers.data.formats import leaf
from tff_pers.data.formats import records
from tff_pers.data.formats import sqlite

PARTS = TRAIN, TEST = 'train', 'test'
_ORIGIN = 'https://storage.googleapis.com/tff-datasets-public'


class DataSet(NamedTuple):
  """The files of a published data set.

  Attributes:
    task: The task, for messages.
    fields: The fields of the records in TFF's files.
    database: Name of TFF's SQLite file.
    hdf5: Names of TFF's HDF5 files, with {} for one of PARTS.
    split: Values of the database's `split_name`, likewise.
    leaf: `x` or `y` in LEAF's files by name of the field; None: LEAF has the
      data set in another form, or not at all.
  """

  task: str
  fields: Mapping[str, records.Field]
  database: str
  hdf5: str
  split: str = '{}'
  leaf: Optional[Mapping[str, str]] = None

  @property
  def hdf5_names(self) -> list[str]:
    """Names of TFF's HDF5 files of PARTS."""
    return [self.hdf5.format(part) for part in PARTS]


# The records of each of PARTS.
Parts = dict[str, records.Records]


def find(data_set: DataSet, data_dir: str) -> Optional[Parts]:
  """Returns the records in a folder, or None if it has no file of the data set.

  The folder may hold TFF's SQLite file, also as .lzma, TFF's two HDF5 files, or
  LEAF's folders train and test (also in a folder data), in this order.

  Raises:
    errors.DataError: If a file exists but cannot be used.
  """
  path = os.path.join(data_dir, data_set.database)
  if not os.path.exists(path) and os.path.exists(f'{path}.lzma'):
    download.unpack(f'{path}.lzma', path)
  if os.path.exists(path):
    return {
        part: sqlite.read(path, data_set.split.format(part), data_set.fields)
        for part in PARTS
    }
  paths = [os.path.join(data_dir, name) for name in data_set.hdf5_names]
  there = [path for path in paths if os.path.exists(path)]
  if there and len(there) < len(paths):
    raise errors.DataError(
        f'`data_dir` must hold {" and ".join(data_set.hdf5_names)} for task'
        f' {data_set.task}, found only {os.path.basename(there[0])} in'
        f' {data_dir!r}.'
    )
  if there:
    return {
        part: hdf5.read(path, data_set.fields)
        for part, path in zip(PARTS, paths)
    }
  for folder in (data_dir, os.path.join(data_dir, 'data')):
    if data_set.leaf and is_leaf(folder):
      return {
          part: leaf.read(
              os.path.join(folder, part), data_set.fields, data_set.leaf
          )
          for part in PARTS
      }
  return None


def find_first(
    data_set: DataSet, folders: Iterable[str]
) -> tuple[str, Optional[Parts]]:
  """Returns the first folder with files of the data set, and its records.

  If no folder has such files: ('', None).
  """
  for folder in folders:
    parts = find(data_set, folder)
    if parts is not None:
      return folder, parts
  return '', None


def fetch(data_set: DataSet) -> Parts:
  """Returns the records of TFF's SQLite file, cached or downloaded.

  Raises:
    errors.DataError: If it is not in TFF's cache and cannot be downloaded.
  """
  folder = download.cache_folder()
  if not os.path.exists(os.path.join(folder, data_set.database)):
    try:
      download.fetch(f'{_ORIGIN}/{data_set.database}.lzma', folder)
    except errors.DataError as error:
      raise errors.DataError(
          f'Task {data_set.task} needs --data_dir, the folder of its files:'
          f' {error}'
      ) from error
  found = find(data_set, folder)
  assert found is not None  # It existed, or was downloaded.
  return found


def describe(data_set: DataSet) -> str:
  """Returns the names of the files that `find` looks for, as text."""
  names = [
      data_set.database, ' with '.join(data_set.hdf5_names),
      *(['the folders train and test of LEAF'] if data_set.leaf else []),
  ]
  return ', or '.join(names)


def is_leaf(folder: str) -> bool:
  """Whether a folder holds the folders train and test."""
  return all(os.path.isdir(os.path.join(folder, part)) for part in PARTS)
