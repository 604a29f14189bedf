"""Federated EMNIST as published by TFF and LEAF."""

from typing import Mapping, Sequence

import numpy as np

from tff_pers.data import checks
from tff_pers.data import emnist
from tff_pers.data.formats import published
from tff_pers.data.formats import records

_FIELDS = {
    'pixels': records.Field(np.float32, (28, 28)),
    'label': records.Field(np.int64),
}


def data_set(digits_only: bool) -> published.DataSet:
  """Returns how it is published: only digits, or with letters."""
  kind, infix = ('digits_only', '_digitsonly') if digits_only else ('all', '')
  return published.DataSet(
      'emnist', _FIELDS, 'emnist_all.sqlite', f'fed_emnist{infix}_{{}}.h5',
      split=f'{kind}_{{}}',
      # LEAF's files hold all characters.
      leaf=None if digits_only else {'pixels': 'x', 'label': 'y'},
  )


def ink(
    found: Mapping[str, np.ndarray], where: str, num_classes: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns x float32[n, 28, 28, 1], 0 paper and 1 ink, and y int32[n]."""
  y, _ = checks.labels(found['label'], f'{where}, label', num_classes)
  pixels = checks.features(found['pixels'], f'{where}, pixels')
  return 1 - pixels[..., None], y


def writers(
    parts: published.Parts, names: Sequence[str], num_classes: int
) -> emnist.Writers:
  """Returns the images of some writers, as if read from the other files."""
  columns = []
  for part, split in (
      (published.TRAIN, emnist.TRAIN), (published.TEST, emnist.TEST)
  ):
    found = parts[part]
    places = found.places
    for name in names:
      x, y = ink(
          found.read(places[name]), f'{found.where}, client {name}', num_classes
      )
      grey = np.round(255 * (1 - x[..., 0])).astype(np.uint8)
      columns.append((
          grey, y, np.full([len(y)], name), np.full([len(y)], split, np.int8)
      ))
  where = parts[published.TRAIN].where
  return emnist.Writers(where, *map(np.concatenate, zip(*columns)))
