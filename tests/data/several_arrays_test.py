"""Clients whose x and y are several arrays, in a dict or a tuple."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.data import validation


def _client(index, size):
  rows = np.arange(size, dtype=np.float32) + 100 * index
  return client_data.dense(
      index, dict(b=np.stack([rows, rows], 1), a=rows[:, None]),
      (rows, rows.astype(np.int32)),
  )


def _check(client):
  """Its arrays still hold the same rows."""
  x, y = client['examples']['x'], client['examples']['y']
  assert list(x) == ['a', 'b'] and isinstance(y, tuple)
  for rows in (x['a'][:, 0], x['b'][:, 0], x['b'][:, 1], y[1]):
    np.testing.assert_array_equal(rows, y[0])
  return y[0].tolist()


def test_rows_stay_together():
  clients = [_client(0, 5), _client(1, 3)]
  assert _check(clients[0]) == [0, 1, 2, 3, 4]
  pooled = client_data.pool(map(client_data.constant, clients))
  assert _check(pooled) == [0, 1, 2, 3, 4, 100, 101, 102]
  padded = client_data.pad(clients[1], 5)
  assert _check(padded) == [100, 101, 102, 0, 0]
  task = validation.hold_out(
      task_lib.Task('two', None, train=clients, test=clients), 0.4, seed=0
  )
  for client, whole in enumerate(clients):
    kept, held = _check(task.train[client]), _check(task.validation[client])
    assert len(held) in (1, 2) and sorted(kept + held) == _check(whole)


def test_batches_have_all_arrays():
  seen = []

  def step(total, batch):
    seen.append(tf.nest.map_structure(lambda t: t.shape[0], (batch.x, batch.y)))
    same = tf.reduce_all(tf.equal(batch.x['a'][:, 0], batch.y[0]))
    assert same
    return total + tf.reduce_sum(tf.where(batch.mask, batch.y[0], 0.0))

  total = client_data.fold_batches(
      _client(0, 5), step, tf.constant(0.0), seed=tf.zeros([2], tf.int64),
      batch_size=2, num_epochs=1,
  )
  assert total == 10
  assert seen == [(dict(a=2, b=2), (2, 2))] * 3


def test_raises_where_arrays_differ_in_length():
  with pytest.raises(ValueError, match='found 5 and 4 and 5 rows at client 2'):
    client_data.dense(
        2, dict(a=np.zeros(5), b=np.zeros(4)), np.zeros(5, np.int32)
    )
