"""CIFAR-100 as TFF publishes it: 500 training and 100 other test clients."""

import numpy as np

from tff_pers.data import errors
from tff_pers.data.formats import published
from tff_pers.data.formats import records

DATA_SET = published.DataSet(
    'cifar100',
    {
        'image': records.Field(np.int64, (32, 32, 3)),
        'label': records.Field(np.int64),
    },
    'cifar100.sqlite', 'fed_cifar100_{}.h5',
)


def images(
    found: records.Records
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns all images of a part: x, y, and their clients.

  These are uint8[n, 32, 32, 3], int64[n], and names, text [n].

  Raises:
    errors.DataError: If a pixel is not in 0..255; names the client.
  """
  columns = []
  for position, client in enumerate(found.clients):
    own = found.read(position)
    pixels = own['image']
    if pixels.size and not 0 <= pixels.min() <= pixels.max() <= 255:
      raise errors.DataError(
          f'{found.where}, client {client}: pixels must be in 0..255, found'
          f' {pixels.min()}..{pixels.max()}.'
      )
    columns.append((
        pixels.astype(np.uint8), own['label'],
        np.full([len(pixels)], client),
    ))
  x, y, clients = map(np.concatenate, zip(*columns))
  return x, y, clients
