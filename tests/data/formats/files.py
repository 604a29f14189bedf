"""Writes small files in the forms in which TFF and LEAF publish data.

A part of a data set is `{client: {field: array with one row per record}}`.
"""

import json
import sqlite3

import h5py
import numpy as np
import tensorflow as tf

_INDEX = 'CREATE INDEX by_client ON examples (client_id, split_name)'


def hdf5(path, part):
  """Writes `examples/<client>/<field>`; returns the path."""
  path.parent.mkdir(parents=True, exist_ok=True)
  with h5py.File(path, 'w') as file:
    clients = file.create_group('examples')
    for client, fields in part.items():
      group = clients.create_group(client)
      for name, values in fields.items():
        group.create_dataset(name, data=_storable(values))
  return path


def sqlite(path, splits, index: bool = True, shuffled: bool = False):
  """Writes TFF's tables; `splits` is a part by `split_name`.

  Args:
    path: The file.
    splits: What it holds.
    index: Whether the rows of a client are indexed.
    shuffled: Whether rows of clients are mixed, those of one in their order.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  rows, counts = [], []
  for split, part in splits.items():
    for client, fields in part.items():
      number = len(next(iter(fields.values())))
      counts.append((client, split, number))
      rows += [
          (row, split, client, example({n: v[row] for n, v in fields.items()}))
          for row in range(number)
      ]
  if shuffled:
    rows.sort(key=lambda row: row[0])
  with sqlite3.connect(path) as database:
    database.execute(
        'CREATE TABLE examples (split_name TEXT, client_id TEXT,'
        ' serialized_example_proto BLOB)'
    )
    database.execute(
        'CREATE TABLE client_metadata (client_id TEXT, split_name TEXT,'
        ' num_examples INTEGER)'
    )
    database.executemany(
        'INSERT INTO examples VALUES (?, ?, ?)', [row[1:] for row in rows]
    )
    database.executemany('INSERT INTO client_metadata VALUES (?, ?, ?)', counts)
    if index:
      database.execute(_INDEX)
  database.close()
  return path


def leaf(folder, part, name='all_data_0'):
  """Writes one JSON file of LEAF; fields are x and y."""
  folder.mkdir(parents=True, exist_ok=True)
  plain = lambda values: np.asarray(values).tolist()
  content = dict(
      users=list(part),
      num_samples=[len(fields['y']) for fields in part.values()],
      user_data={
          user: dict(x=plain(fields['x']), y=plain(fields['y']))
          for user, fields in part.items()
      },
  )
  (folder / f'{name}.json').write_text(json.dumps(content), encoding='utf-8')
  return folder


def example(record) -> bytes:
  """Returns a record as a serialized `tf.train.Example`."""
  return tf.train.Example(features=tf.train.Features(
      feature={name: _feature(value) for name, value in record.items()}
  )).SerializeToString()


def _feature(value) -> tf.train.Feature:
  if isinstance(value, bytes):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
  value = np.asarray(value)
  if value.dtype.kind == 'f':
    return tf.train.Feature(
        float_list=tf.train.FloatList(value=value.reshape(-1))
    )
  return tf.train.Feature(int64_list=tf.train.Int64List(value=value.reshape(-1)))


def _storable(values):
  if len(values) and isinstance(values[0], bytes):
    stored = np.empty([len(values)], object)
    stored[:] = list(values)
    return np.array(stored, dtype=h5py.special_dtype(vlen=bytes))
  return np.asarray(values)


def emnist(sizes, seed: int = 0):
  """Returns a part with the fields of TFF's EMNIST: images by writer."""
  rng = np.random.default_rng(seed)
  return {
      client: dict(
          pixels=rng.random([size, 28, 28], np.float32),
          label=rng.integers(0, 10, size),
      )
      for client, size in sizes.items()
  }
