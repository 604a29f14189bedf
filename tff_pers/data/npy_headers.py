"""Compares the sizes claimed by .npy and .npz headers with the files' sizes.

NumPy allocates what a header claims before it reads on: a damaged header that
claims terabytes causes a MemoryError, or exhausts the machine's memory.
"""

import math
import os
from typing import Collection, IO
import zipfile

import numpy as np

# Deflate compresses by at most about 1032.
_LARGEST_RATIO = 1100


def check_npy(path: str) -> None:
  """Raises a ValueError unless a .npy file is as long as its header says."""
  with open(path, 'rb') as file:
    _check(file, os.path.getsize(path))


def check_npz(path: str, names: Collection[str]) -> None:
  """Raises unless arrays of an .npz file have the length in their headers.

  Names that the file lacks are ignored.

  Raises:
    ValueError: If they differ; names the array.
    OSError: If the file cannot be read; also `zipfile.BadZipFile`.
  """
  with zipfile.ZipFile(path) as whole:
    for member in whole.infolist():
      name = member.filename.removesuffix('.npy')
      if name not in names:
        continue
      try:
        _check_size(member)
        with whole.open(member) as file:
          _check(file, member.file_size)
      except ValueError as error:
        raise ValueError(f'array {name}: {error}') from error


def _check_size(member: zipfile.ZipInfo) -> None:
  """Raises a ValueError if so many bytes cannot be compressed to so few."""
  ratio = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: _LARGEST_RATIO}.get(
      member.compress_type, math.inf
  )
  if member.file_size > ratio * member.compress_size:
    raise ValueError(
        f'{member.file_size} bytes are claimed, but there are'
        f' {member.compress_size} compressed ones'
    )


def _check(file: IO[bytes], size: int) -> None:
  """Raises a ValueError unless `size` bytes are a header and its data."""
  version = np.lib.format.read_magic(file)
  read = {
      (1, 0): np.lib.format.read_array_header_1_0,
      (2, 0): np.lib.format.read_array_header_2_0,
  }.get(version)
  if read is None:
    raise ValueError(f'version {version} of the format')
  shape, _, dtype = read(file)
  claimed, there = math.prod(shape) * dtype.itemsize, size - file.tell()
  # Objects are pickled and have no fixed size; readers refuse them.
  if not dtype.hasobject and claimed != there:
    raise ValueError(
        f'its header claims {claimed} bytes, shape {list(shape)} of {dtype},'
        f' but there are {there}'
    )
