"""Reads JSON files in LEAF's form as a table, see `formats/leaf.py`.

x are numbers (FEMNIST, Synthetic), names of images (CelebA) or texts (Sent140).
A text becomes the shares of its words among hashed numbers (Weinberger et al.,
Feature Hashing for Large Scale Multitask Learning, 2009): no vocabulary is
fitted, so that later texts are read in the same way.
"""

import os
from typing import Any, Optional, Sequence
import zlib

import numpy as np

from tff_pers.data import client_names
from tff_pers.data import errors
from tff_pers.data import image_folders
from tff_pers.data import tables
from tff_pers.data import texts
from tff_pers.data.formats import leaf

# Position of the text in an example of Sent140.
_TWEET = 4
# Number of hash values of words.
_NUMBERS = 1000
# LEAF's folders of images, and the size to which its models scale them.
_IMAGES = (
    (), ('raw', 'img_align_celeba'), ('data', 'raw', 'img_align_celeba')
)
_SIDE = 84


def read(folder: str) -> tables.Table:
  """Returns the examples of all users.

  The folder holds .json files, or folders `train` and `test` of such files,
  which are the split; or it is LEAF's own, with these in `data`.

  Raises:
    errors.DataError: If there are none, or their examples are neither numbers
      of one shape, nor texts, nor names of existing images.
  """
  if not folder or not os.path.isdir(folder):
    raise errors.DataError(
        '`data_dir` must name a folder of JSON files of LEAF, found'
        f' {folder!r}.'
    )
  top = folder
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
  written = _texts(x)
  if written is None:
    values = _array(x, 'x', folder)
  elif written[0].lower().endswith(image_folders.ENDS):
    values = _images(top, written)
  else:
    if classes and all(len(n) == 1 for n in classes) and any(
        n.isalpha() for n in classes
    ):
      raise errors.DataError(
          f'{folder} must hold a class for each text, found a character after'
          f' it, as {written[0]!r:.40}. Tip: --task=shakespeare reads LEAF\'s'
          ' Shakespeare.'
      )
    values = np.stack(list(map(_shares, written)))
  return tables.Table(
      folder, values, labels, client.astype(np.int32), names,
      np.repeat([False, True], sizes) if len(parts) > 1 else None,
      classes=classes, spelling=spelling,
      position=lambda row: f'example {row}',
  )


def _texts(x: list[Any]) -> Optional[list[str]]:
  """Returns texts, or None if the values are something else."""
  # In Sent140 a tweet is its number, date, query, user, text and more.
  found = [
      each[_TWEET] if isinstance(each, list) and len(each) > _TWEET else each
      for each in x
  ]
  return found if all(isinstance(each, str) for each in found) else None


def _shares(text: str) -> np.ndarray:
  """Returns the share of each hash value among the words of a text."""
  numbers = [zlib.crc32(word.encode()) % _NUMBERS for word in texts.words(text)]
  counts = np.bincount(numbers, minlength=_NUMBERS)
  return (counts / max(len(numbers), 1)).astype(np.float32)


def _images(folder: str, names: Sequence[str]) -> np.ndarray:
  """Returns images in the size that LEAF's models take, from 0 to 1."""
  places = [os.path.join(folder, *parts) for parts in _IMAGES]
  place = next((
      place for place in places
      if os.path.exists(os.path.join(place, names[0]))
  ), None)
  if place is None:
    raise errors.DataError(
        f'{folder} must hold the images that x names in'
        f' {" or ".join(os.path.join(*parts) for parts in _IMAGES[1:])}, found'
        f' no {names[0]}.'
    )
  return np.stack([
      image_folders.read_image(os.path.join(place, name), _SIDE)
      for name in names
  ])


def _array(values: list[Any], name: str, folder: str) -> np.ndarray:
  """Returns numbers of one shape; y may also be texts."""
  try:
    found: Optional[np.ndarray] = np.array(values)
  except ValueError:
    found = None
  if found is None or found.dtype.kind not in (
      'biuf' if name == 'x' else 'biufU'
  ):
    raise errors.DataError(
        f'{folder} must hold numbers of one shape, texts or names of images in'
        ' x and one label or number in y of each example, as LEAF\'s FEMNIST,'
        ' Synthetic, Sent140 and CelebA do, found'
        f' {f"{values[0]!r:.40}" if found is not None else "several shapes"} in'
        f' {name}. Tip: --task=shakespeare and --task=stackoverflow_nwp guess'
        ' characters and words.'
    )
  return found
