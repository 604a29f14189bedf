"""Reads idx files of bytes or int32, the format of MNIST, plain or gzipped."""

import gzip
import os
import zlib

import numpy as np

from tff_pers.data import errors

_DTYPES: dict[int, np.dtype] = {
    0x08: np.dtype('u1'),
    0x0C: np.dtype('>i4'),  # The columns of QMNIST.
}


def find(folder: str, name: str) -> str:
  """Returns the path of `name` or `name`.gz in `folder`, '' without either."""
  for path in (os.path.join(folder, name), os.path.join(folder, name + '.gz')):
    if os.path.isfile(path):
      return path
  return ''


def read(path: str) -> np.ndarray:
  """Returns the array in an idx file (gzipped if it ends in .gz).

  Format: two zero bytes, type, number of dimensions, sizes (big-endian uint32),
  then the values in C order, big-endian.

  Raises:
    errors.DataError: If the file cannot be read, is truncated, or is not idx.
  """
  try:
    with open(path, 'rb') as file:
      content = file.read()
    if path.endswith('.gz'):
      content = gzip.decompress(content)
  except (OSError, EOFError, zlib.error) as error:
    raise errors.DataError(
        f'{path} must be a complete idx file, found it unreadable ({error}).'
    ) from error
  kind = content[2] if len(content) >= 4 else None
  if content[:2] != b'\0\0' or kind not in _DTYPES:
    raise errors.DataError(
        f'{path} must be an idx file (two zero bytes, type, dimensions), found'
        f' {content[:4]!r} at its start.'
    )
  start = 4 + 4 * content[3]
  if len(content) < start:
    raise errors.DataError(
        f'{path} must hold {start} bytes of header, found {len(content)}.'
    )
  shape = np.frombuffer(content[4:start], '>u4').astype(np.int64)
  dtype = _DTYPES[kind]
  size = start + dtype.itemsize * int(np.prod(shape))
  if len(content) != size:
    raise errors.DataError(
        f'{path} must hold {size} bytes for the shape {shape.tolist()} in its'
        f' header, found {len(content)}.'
    )
  values = np.frombuffer(content, dtype, offset=start).reshape(shape)
  # idx is big-endian; the program expects the machine's byte order.
  return values.astype(dtype.newbyteorder('='))
