"""Reads CIFAR-10 and CIFAR-100 in the form their authors distribute.

Learning Multiple Layers of Features from Tiny Images. Krizhevsky. 2009.

    python version   data_batch_1 ... data_batch_5, test_batch; train, test
    subset           <name>_subset.npz with train_d, train_y, test_d, test_y:
                     planes G, R-G, B-G modulo 256, differenced along each row

`data_dir` may also be the parent of this folder, named as after unpacking.
"""

import os
import pickle
from typing import NamedTuple, Sequence

import numpy as np

from tff_pers.data import errors
from tff_pers.data import tables

_PIXELS = 3 * 32 * 32


class _Version(NamedTuple):
  """The files of one data set.

  Attributes:
    train: Names of the training files.
    test: Name of the test file.
    folder: Name of the folder in which the files are unpacked.
    labels: Key of the labels.
  """

  train: Sequence[str]
  test: str
  folder: str
  labels: bytes


_VERSIONS = {
    'cifar10': _Version(
        [f'data_batch_{i}' for i in range(1, 6)], 'test_batch',
        'cifar-10-batches-py', b'labels',
    ),
    'cifar100': _Version(
        ['train'], 'test', 'cifar-100-python', b'fine_labels'
    ),
}


def read(
    name: str, data_dir: str
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
  """Returns ((x, y) for training, (x, y) for testing), as in the files.

  x is uint8[n, 32, 32, 3], and y integers [n]; those of `cifar100` are fine
  labels.

  Raises:
    errors.DataError: If files are missing, unreadable, or of another form.
  """
  version = _VERSIONS[name]
  for folder in _candidates(name, version, data_dir):
    subset = os.path.join(folder, f'{name}_subset.npz')
    if os.path.isfile(subset):
      return _subset(subset, 'train'), _subset(subset, 'test')
    if os.path.isfile(os.path.join(folder, version.test)):
      return _load(version, folder, version.train), _load(
          version, folder, [version.test]
      )
  raise errors.DataError(
      f'`data_dir` must be a folder with the files of {name}'
      f' ({version.train[0]}, ...), found none in {data_dir!r}. Tip: unpack the'
      ' archive of the python version.'
  )


def _candidates(name: str, version: _Version, data_dir: str):
  """Yields the folders to search."""
  for top in (data_dir, os.path.join(data_dir, name)):
    yield top
    yield os.path.join(top, version.folder)


def _load(version: _Version, folder: str, names: Sequence[str]):
  """Returns (x, y) of all examples in some files."""
  parts = []
  for file in names:
    path = os.path.join(folder, file)
    if not os.path.isfile(path):
      raise errors.DataError(f'`data_dir` must hold {path}, found no file.')
    parts.append(_pickle(version, path))
  planes, labels = zip(*parts)
  # [n, 3 * 32 * 32], red first, to [n, 32, 32, 3].
  x = np.concatenate(planes).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
  return np.ascontiguousarray(x), np.concatenate(labels)


class _ArrayUnpickler(pickle.Unpickler):
  """Unpickles arrays and plain values; a file cannot run anything else."""

  def find_class(self, module, name):
    # A pickle may call any function that it names, so only those that arrays
    # need are allowed. NumPy has moved these between modules (numpy.core,
    # numpy._core), so names decide, not modules.
    arrays = module.split('.')[0] == 'numpy' and name in (
        '_reconstruct', 'ndarray', 'dtype'
    )
    # Python 3 pickles bytes in this way for the protocols of Python 2.
    if arrays or (module, name) == ('_codecs', 'encode'):
      return super().find_class(module, name)
    raise pickle.UnpicklingError(f'{module}.{name} is not allowed')


def _pickle(version: _Version, path: str):
  """Returns (planes, labels) of a file."""
  try:
    with open(path, 'rb') as file:
      # The official files were written by Python 2, whose strings are bytes.
      content = _ArrayUnpickler(file, encoding='bytes').load()
    x, y = np.asarray(content[b'data']), np.asarray(content[version.labels])
  # A broken pickle can raise any exception.
  except Exception as error:
    raise errors.DataError(
        f'{path} must be a pickle of the arrays data and'
        f' {version.labels.decode()}, found it unreadable'
        f' ({type(error).__name__}: {error}).'
    ) from error
  if x.dtype != np.uint8 or x.shape != (len(y), _PIXELS):
    raise errors.DataError(
        f'{path} must hold uint8 images of {_PIXELS} values, one per label,'
        f' found {x.dtype} of shape {list(x.shape)} for {len(y)} labels.'
    )
  return x, y


def _subset(path: str, part: str):
  """Returns (x, y) of `train` or `test` of a subset file."""
  arrays = tables.load_arrays(path, (f'{part}_d', f'{part}_y'))
  coded, y = arrays[f'{part}_d'], arrays[f'{part}_y']
  if coded.dtype != np.uint8 or coded.shape != (len(y), 3, 32, 32):
    raise errors.DataError(
        f'{path} must hold uint8 images [n, 3, 32, 32], one per label, found'
        f' {coded.dtype} of shape {list(coded.shape)} for {len(y)} labels.'
    )
  # Sums in uint8 wrap at 256 as the differences did, so that they undo them
  # exactly.
  planes = np.cumsum(coded, axis=3, dtype=np.uint8)
  green = planes[:, 0]
  return np.stack([planes[:, 1] + green, green, planes[:, 2] + green], -1), y
