"""JSON files in the form of LEAF as a table, see `formats/leaf.py`."""

import os

import numpy as np

from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import tables
from tff_pers.data.formats import leaf


def read(folder: str) -> tables.Table:
  """Returns the examples of all users; x is a list of numbers each.

  Args:
    folder: A folder of .json files, or of folders `train` and `test` of such,
      which are the split; also LEAF's own, with these in `data`.

  Raises:
    errors.DataError: If there are none, or their examples are no numbers of one
      shape.
  """
  if not folder or not os.path.isdir(folder):
    raise errors.DataError(
        '`data_dir` must name a folder of JSON files of LEAF, found'
        f' {folder!r}.'
    )
  if os.path.isdir(os.path.join(folder, 'data', 'train')):
    folder = os.path.join(folder, 'data')
  parts = ['train', 'test']
  if not os.path.isdir(os.path.join(folder, 'train')):
    parts = ['']
  x, y, users, sizes = [], [], [], []
  for part in parts:
    sizes.append(0)
    for user, own in leaf.users(os.path.join(folder, part)).items():
      x += own['x']
      y += own['y']
      users += [user] * len(own['y'])
      sizes[-1] += len(own['y'])
  names, client = np.unique(users, return_inverse=True)
  client_names.check(names.tolist(), folder)
  labels, classes, spelling = tables.labels(_array(y, 'y', folder), folder)
  values = _array(x, 'x', folder)
  if values.dtype.kind == 'U':
    raise errors.DataError(
        f'{folder} must hold numbers in x, found {values.flat[0]!r:.40}. Tip:'
        ' --task=shakespeare reads LEAF\'s Shakespeare.'
    )
  return tables.Table(
      folder, values, labels, client.astype(np.int32), names,
      np.repeat([False, True], sizes) if len(parts) > 1 else None,
      classes=classes, spelling=spelling,
      position=lambda row: f'example {row}',
  )


def _array(values: list, name: str, folder: str) -> np.ndarray:
  try:
    return np.array(values)
  except ValueError as error:
    raise errors.DataError(
        f'{folder} must hold {name} of one shape in all examples, found'
        ' several.'
    ) from error
