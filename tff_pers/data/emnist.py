"""Reads Federated EMNIST: handwritten characters of known writers.

LEAF: A Benchmark for Federated Settings. Caldas, Duddu, Wu, Li, Konecny,
McMahan, Smith, Talwalkar. 2018.

Files, one example per row, plain arrays:

    femnist_writers.npz          x uint8[n, 28, 28], y, writer, writer_names,
                                 split (0 train, 1 test); optionally duplicate
    femnist_partial_writers.npz  the same without split: writers of whom only
                                 some images are known

`writer` is a position in `writer_names`. Paper is 255 and ink is 0; labels
0-9 are digits, 10-35 capital and 36-61 small letters. Both are as in LEAF and
in `tff.simulation.datasets.emnist`, whose pixels are divided by 255. Files of
the latter are read in `tasks/emnist.py`.
"""

import os
from typing import NamedTuple, Optional

import numpy as np

from tff_pers.data import checks
from tff_pers.data import errors
from tff_pers.data import tables

NUM_CLASSES = 62
NUM_DIGITS = 10
# Values of `Writers.split`.
TRAIN, TEST, UNKNOWN = 0, 1, -1

_FILES = {
    'full': 'femnist_writers.npz', 'partial': 'femnist_partial_writers.npz',
}
CHOICES = (*_FILES, 'all')
# Folders below `data_dir` that may contain the files.
_FOLDERS = ('', 'emnist', 'femnist')


class Writers(NamedTuple):
  """The images of all writers, as read.

  Attributes:
    where: The file or folder, for messages.
    x: uint8[n, 28, 28], 0 is ink and 255 is paper.
    y: int32[n], 0..61.
    writer: Name of the writer of each image, text [n].
    split: int8[n]: TRAIN, TEST, or UNKNOWN if the files do not say.
  """

  where: str
  x: np.ndarray
  y: np.ndarray
  writer: np.ndarray
  split: np.ndarray


def read(data_dir: str, writers: str) -> Optional[Writers]:
  """Returns the images in the files of a folder, without exact copies.

  None if a file does not exist in the folder or in one below it. `writers` is
  one of `CHOICES`; `full` and `partial` read one file each.

  Raises:
    errors.DataError: If a file is unreadable, or has another form.
  """
  kinds = list(_FILES) if writers == 'all' else [writers]
  found = [
      [
          path for folder in folders(data_dir)
          if os.path.isfile(path := os.path.join(folder, _FILES[kind]))
      ]
      for kind in kinds
  ]
  if not all(found):
    return None
  parts = [_read_file(paths[0]) for paths in found]
  columns = [np.concatenate(column) for column in zip(*[p[1:] for p in parts])]
  return Writers(' and '.join(part.where for part in parts), *columns)


def files(writers: str) -> str:
  """Returns the names of the files that `read` looks for, as text."""
  kinds = _FILES.values() if writers == 'all' else [_FILES[writers]]
  return ' with '.join(kinds)


def folders(data_dir: str) -> list[str]:
  """Returns the folders that may contain files, if `data_dir` is given."""
  return [os.path.join(data_dir, folder) for folder in _FOLDERS if data_dir]


def _read_file(path: str) -> Writers:
  """Returns the images of one file."""
  required = ('x', 'y', 'writer', 'writer_names')
  arrays = tables.load_arrays(path, required, ('split', 'duplicate'))
  names = arrays.pop('writer_names')
  _check_form(path, arrays, names)
  # A copy in the test set might be in the training set as well.
  kept = np.ones([len(arrays['y'])], bool)
  if 'duplicate' in arrays:
    kept = arrays['duplicate'] == 0
  writer = names[arrays['writer']]
  y, _ = checks.labels(
      arrays['y'], f'{path}, y', NUM_CLASSES,
      lambda row: f'row {row} of client {writer[row]}',
  )
  split = np.full([len(y)], UNKNOWN, np.int8)
  if 'split' in arrays:
    split = arrays['split'].astype(np.int8)
  return Writers(path, arrays['x'][kept], y[kept], writer[kept], split[kept])


def _check_form(path: str, arrays, names: np.ndarray) -> None:
  """Raises if the arrays of a file do not match each other."""
  x = arrays['x']
  if x.dtype != np.uint8 or x.shape[1:] != (28, 28):
    raise errors.DataError(
        f'{path}: x must be uint8 images of 28 x 28, found {x.dtype} of shape'
        f' {list(x.shape)}.'
    )
  for name, array in arrays.items():
    if array.shape[:1] != (len(x),):
      raise errors.DataError(
          f'{path} must hold one row per image in every array, found'
          f' {len(x)} images and {name} of shape {list(array.shape)}.'
      )
  writer = arrays['writer']
  if names.ndim != 1 or names.dtype.kind != 'U':
    raise errors.DataError(
        f'{path}: writer_names must be a list of texts, found {names.dtype} of'
        f' shape {list(names.shape)}.'
    )
  _check_values(path, 'writer', writer, range(len(names)))
  for name, allowed in (('split', (TRAIN, TEST)), ('duplicate', (0, 1))):
    if name in arrays:
      _check_values(path, name, arrays[name], allowed)


def _check_values(path: str, name: str, values: np.ndarray, allowed) -> None:
  """Raises unless `values` is a list of integers in `allowed`."""
  last = len(allowed) - 1
  if values.ndim != 1 or values.dtype.kind not in 'iu':
    found = f'{values.dtype} of shape {list(values.shape)}'
  elif not np.isin(values, allowed).all():
    found = str(values[np.argmin(np.isin(values, allowed))])
  else:
    return
  raise errors.DataError(
      f'{path}: {name} must be integers in 0..{last}, found {found}.'
  )
