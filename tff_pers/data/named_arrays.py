"""Reads an .npz with an array for each input and output of a user's model.

They are named as in a signature of the exported model: `x_NAME` and `y_NAME` by
the names of the specs, `x_0`, `x_1` for a tuple, `x` and `y` for a single one.
"""

from typing import Any, Iterator, Sequence
import zlib

import numpy as np
import tensorflow as tf

from tff_pers.core import arrays
from tff_pers.core import structures
from tff_pers.data import checks
from tff_pers.data import errors
from tff_pers.data import tables
from tff_pers import tff


def read(
    path: str, x_spec: Any, y_spec: Any,
    needs: Sequence[str] = tables.REQUIRED,
) -> tables.Table:
  """Returns a table whose x and y have the form that the model takes.

  A spec may be a dict or tuple of specs; for `needs` see `new_data.read`.

  Raises:
    errors.DataError: If the file cannot be read, lacks an array, or an array
      does not fit its spec.
  """
  named = lambda spec, path: structures.plain(path)
  x_names = structures.mapped(named, x_spec, 'x')
  y_names = structures.mapped(named, y_spec, 'y')
  given = dict(x=x_names, y=y_names, client='client')
  required = tf.nest.flatten([given[name] for name in ('x', *needs)])
  found = tables.load_arrays(path, required, ('client', *tables.OPTIONAL))
  of = lambda name, spec: _fitted(found[name], spec, f'{path}, {name}')
  x = tf.nest.map_structure(of, x_names, x_spec)
  y = tf.nest.map_structure(of, y_names, y_spec) if 'y' in needs else None
  table = tables.of_clients(path, found, x, y)
  for name, rows in found.items():
    if rows.dtype.kind == 'f':
      finite = np.isfinite(rows).all(axis=tuple(range(1, rows.ndim)))
      checks.all_finite(finite, 'numbers', f'{path}, {name}', table.place)
  return table


def contents(table: tables.Table) -> Iterator[np.ndarray]:
  """Yields y and x as columns for `split.content_keys`, uint64[n] each."""
  for rows in tf.nest.flatten((table.y, table.x)):
    for values in rows.reshape(len(rows), int(np.prod(rows.shape[1:]))).T:
      if values.dtype.kind in 'SU':
        values = np.array([zlib.crc32(v) for v in values.astype('S').tolist()])
      yield values.astype(np.float64).view(np.uint64)


def _fitted(rows, spec: tf.TensorSpec, where: str) -> np.ndarray:
  """Returns an array of the spec's dtype."""
  if spec.dtype == tf.string and rows.dtype.kind in 'SU':
    return np.char.encode(rows) if rows.dtype.kind == 'U' else rows
  kind = tff.TensorType(spec.dtype.as_numpy_dtype, spec.shape)
  try:
    return arrays.fitted(rows, kind, where)
  except (TypeError, ValueError) as error:
    raise errors.DataError(str(error)) from error
