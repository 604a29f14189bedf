"""Reads a folder `client/class/image.png` as a table."""

import os
from typing import Any

import numpy as np
import tensorflow as tf

from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import tables

ENDS = ('.png', '.jpg', '.jpeg', '.bmp', '.gif')


def read(folder: str) -> tables.Table:
  """Returns images as float32[n, height, width, channels], from 0 to 1.

  y are the names of the folders of classes.

  Raises:
    errors.DataError: If it is not such a folder, or a file cannot be read or
      differs in size from the first one.
  """
  paths = _paths(folder)
  first = _decoded(os.path.join(folder, *paths[0]))
  x = np.empty([len(paths), *first.shape], np.float32)
  for row, parts in enumerate(paths):
    image = _decoded(os.path.join(folder, *parts))
    if image.shape != first.shape:
      raise errors.DataError(
          f'{folder} must hold images of one size, height, width and channels,'
          f' found {list(first.shape)} in {"/".join(paths[0])} and'
          f' {list(image.shape)} in {"/".join(parts)}.'
      )
    x[row] = np.divide(image, 255, dtype=np.float32)
  clients, classes, _ = map(list, zip(*paths))
  names, client = np.unique(clients, return_inverse=True)
  client_names.check(names, folder)
  labels, y = np.unique(classes, return_inverse=True)
  return tables.Table(
      folder, x, y, client.astype(np.int32), names, None,
      classes=tuple(labels.tolist()),
      position=lambda row: '/'.join(paths[row]),
  )


def _paths(folder: str) -> list[tuple[str, str, str]]:
  """Returns client, class and file of each image, sorted."""
  if not os.path.isdir(folder):
    raise errors.DataError(
        '`data_dir` must name a folder of images, client/class/image.png, found'
        f' {folder!r}.'
    )
  found = []
  for top, _, names in os.walk(folder):
    parts = tuple(os.path.relpath(top, folder).split(os.sep))
    for name in names:
      if name.startswith('.'):  # A file of the file system, not the user's.
        continue
      if len(parts) != 2 or not name.lower().endswith(ENDS):
        raise errors.DataError(
            f'{folder} must hold images {", ".join(ENDS)} as'
            ' client/class/image.png, found'
            f' {os.path.relpath(os.path.join(top, name), folder)}.'
        )
      found.append((*parts, name))
  if not found:
    raise errors.DataError(
        f'{folder} must hold images as client/class/image.png, found none.'
    )
  return sorted(found)


def read_image(path: str, side: int) -> np.ndarray:
  """Returns an image as float32[side, side, channels], from 0 to 1."""
  return tf.image.resize(_decoded(path), [side, side]).numpy() / 255


def _decoded(path: str) -> Any:
  """Returns an image as uint8[height, width, channels]."""
  try:
    with open(path, 'rb') as file:
      return tf.io.decode_image(file.read(), expand_animations=False).numpy()
  except (OSError, tf.errors.InvalidArgumentError) as error:
    raise errors.DataError(
        f'{path} must be a readable image, found {errors.first_line(error)}.'
    ) from error
