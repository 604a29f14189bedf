"""Reads SQLite files of TFF's releases.

Tables `examples(split_name, client_id, serialized_example_proto)` and
`client_metadata(client_id, split_name, num_examples)`, as
`tff.simulation.datasets` reads them; records are `tf.train.Example` protos.
"""

import contextlib
import pathlib
import sqlite3
import threading
from typing import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.data import errors
from tff_pers.data.formats import records

# Types that TensorFlow parses; others are cast to these.
_DTYPES = {np.float32: tf.float32, np.int64: tf.int64, bytes: tf.string}


def read(
    path: str, split: str, fields: Mapping[str, records.Field]
) -> records.Records:
  """Returns the records of one split of a file such as `emnist_all.sqlite`.

  The file stays open as long as the records exist; protos are read client by
  client.

  Raises:
    errors.DataError: If the file is unreadable or in another form, or lacks the
      split.
  """
  database = _Database(path)
  counts = database.rows(
      'SELECT client_id, num_examples FROM client_metadata WHERE split_name=?',
      split,
  )
  if not counts:
    found = database.rows('SELECT DISTINCT split_name FROM client_metadata')
    raise errors.DataError(
        f'{path} must have the split {split}, found'
        f' {", ".join(str(name) for name, in found) or "no split"}.'
    )
  query, ranges = _plan(database, split)
  parse = _parser(fields)

  def read_client(client: str) -> dict[str, np.ndarray]:
    # A client without rows has an empty range.
    between = () if ranges is None else ranges.get(client, (0, -1))
    rows = database.rows(query, client, split, *between)
    try:
      return parse([proto for proto, in rows])
    except (tf.errors.OpError, TypeError, ValueError) as error:
      raise errors.DataError(
          f'{path}, client {client}: records must be examples with'
          f' {", ".join(fields)}, found others'
          f' ({errors.first_line(error)[:200]}).'
      ) from error

  return records.make(path, dict(counts), read_client, fields)


class _Database:
  """A database that several threads may query."""

  def __init__(self, path: str):
    self._path, self._lock = path, threading.Lock()
    with self._sentence():
      # Read-only, because a missing file must not be created.
      self._connection = sqlite3.connect(
          f'{pathlib.Path(path).resolve().as_uri()}?mode=ro', uri=True,
          check_same_thread=False,
      )

  def rows(self, query: str, *values) -> Sequence[tuple]:
    """Returns all rows of a query."""
    with self._lock, self._sentence():
      return self._connection.execute(query, values).fetchall()

  @contextlib.contextmanager
  def _sentence(self):
    try:
      yield
    except sqlite3.Error as error:
      raise errors.DataError(
          f'{self._path} must be an SQLite file with the tables'
          ' examples(split_name, client_id, serialized_example_proto) and'
          ' client_metadata(client_id, split_name, num_examples), and could'
          f' not be read ({errors.first_line(error)}).'
      ) from error


def _plan(database: _Database, split: str):
  """Returns the query for a client's protos, and its range of rows by client.

  Without an index, every query would scan the whole file. Then a single pass
  finds the rows of each client, which writers store together.
  """
  query = (
      'SELECT serialized_example_proto FROM examples'
      ' WHERE client_id=? AND split_name=?'
  )
  if _has_index(database):
    return f'{query} ORDER BY rowid', None
  ranges = {
      client: (first, last) for client, first, last in database.rows(
          'SELECT client_id, MIN(rowid), MAX(rowid) FROM examples'
          ' WHERE split_name=? GROUP BY client_id', split,
      )
  }
  return f'{query} AND rowid BETWEEN ? AND ? ORDER BY rowid', ranges


def _has_index(database: _Database) -> bool:
  """Whether an index finds the rows of a client."""
  indices = database.rows("SELECT name FROM pragma_index_list('examples')")
  for name, in indices:
    columns = [
        column for column, in database.rows(
            'SELECT name FROM pragma_index_info(?)', name
        )
    ]
    if columns[:1] == ['client_id'] or set(columns[:2]) == {
        'client_id', 'split_name'
    }:
      return True
  return False


def _parser(fields: Mapping[str, records.Field]):
  """Returns the function from protos to arrays by field name."""
  names = sorted(fields)
  dtypes = [_DTYPES[fields[name].dtype] for name in names]
  with tf.device('/CPU:0'):
    none = tf.constant([], tf.string)
    spec = dict(
        names=none, sparse_keys=none, ragged_keys=none,
        dense_keys=tf.constant(names),
        dense_defaults=[tf.constant([], dtype) for dtype in dtypes],
        dense_shapes=[fields[name].shape for name in names],
        num_sparse=0, sparse_types=[], ragged_value_types=[],
        ragged_split_types=[],
    )

  def parse(protos: Sequence[bytes]) -> dict[str, np.ndarray]:
    if not protos:
      return {name: np.zeros([0]) for name in fields}
    # `tf.io.parse_example` needs more time to find these arguments than to
    # read a small client.
    parsed = tf.raw_ops.ParseExampleV2(
        serialized=tf.constant(protos, tf.string), **spec
    )
    return dict(zip(names, (v.numpy() for v in parsed.dense_values)))

  return parse
