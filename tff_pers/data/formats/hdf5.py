"""Reads HDF5 files of TFF's first releases: examples/<client>/<field>."""

import contextlib
import threading
from typing import Mapping

import h5py
import numpy as np

from tff_pers.data import errors
from tff_pers.data.formats import records

_ROOT = 'examples'


def read(path: str, fields: Mapping[str, records.Field]) -> records.Records:
  """Returns the records of a file such as `fed_emnist_train.h5`.

  The file stays open as long as the records exist; arrays are read client by
  client.

  Raises:
    errors.DataError: If the file is unreadable or in another form.
  """
  try:
    with contextlib.ExitStack() as until_read:
      clients = until_read.enter_context(h5py.File(path, 'r'))[_ROOT]
      first = next(iter(fields))
      sizes = {
          name: len(own[first]) if first in own else 0
          for name, own in clients.items()
      }
      until_read.pop_all()  # Without an error the file stays open.
  except (OSError, KeyError, AttributeError, RuntimeError) as error:
    raise errors.DataError(
        f'{path} must be an HDF5 file with the groups {_ROOT}/<client>, and'
        f' could not be read ({errors.first_line(error)}).'
    ) from error
  # The library locks each call, but not several calls together.
  lock = threading.Lock()

  def read_client(client: str) -> dict[str, np.ndarray]:
    with lock:
      try:
        return {name: data[()] for name, data in clients[client].items()}
      except (OSError, RuntimeError, TypeError) as error:
        raise errors.DataError(
            f'{path}, client {client}: the records could not be read'
            f' ({errors.first_line(error)}). Tip: get the file again.'
        ) from error

  return records.make(path, sizes, read_client, fields)
