"""Keyed fetch and collection of model rows."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling
from tff_pers.runtime import native

_ROWS = tff.to_type(collections.OrderedDict(
    keys=tff.TensorType(np.int32, [None]),
    models=(
        tff.TensorType(np.float32, [None, 2]),
        tff.TensorType(np.float64, [None]),
    ),
))


def _rows(*keys):
  return collections.OrderedDict(
      keys=np.array(keys, np.int32),
      models=(
          np.array([[k, -k] for k in keys], np.float32).reshape(-1, 2),
          np.array(keys, np.float64) / 2,
      ),
  )


def _check_collected(max_rows):
  """None, one or several rows per client, more than `max_rows` or fewer."""
  collect = shuffling.RowCollectionFactory(max_rows).create(_ROWS)
  output = collect.next(
      collect.initialize(), [_rows(3), _rows(), _rows(0, 7), _rows(1)]
  )
  result = output.result
  order = np.argsort(result['keys'])
  expected = _rows(0, 1, 3, 7)
  np.testing.assert_array_equal(result['keys'][order], expected['keys'])
  for found, want in zip(result['models'], expected['models']):
    np.testing.assert_array_equal(found[order], want)
    assert found.dtype == want.dtype


@pytest.mark.parametrize('max_rows', [1, 200])
def test_collects_all_rows_with_their_keys(max_rows):
  _check_collected(max_rows)


@pytest.mark.parametrize('max_rows', [1, 5])
def test_blocks_of_the_native_runtime_are_put_together(max_rows, monkeypatch):
  """The fused runtime needs no blocks: it concatenates what clients send."""
  monkeypatch.setattr(shuffling, '_SMALL_BYTES', 0)
  with native.use():
    _check_collected(max_rows)


def test_many_rows_fill_several_per_block(monkeypatch):
  monkeypatch.setattr(shuffling, '_SMALL_BYTES', 0)
  collect = shuffling.RowCollectionFactory(130).create(_ROWS)
  rows = [_rows(k) for k in range(130)]
  with native.use():
    result = collect.next(collect.initialize(), rows).result
  np.testing.assert_array_equal(result['keys'], np.arange(130))
  np.testing.assert_array_equal(result['models'][1], np.arange(130) / 2)


def test_is_a_plain_aggregation_process():
  collect = shuffling.RowCollectionFactory(4).create(_ROWS)
  assert isinstance(collect, tff.templates.AggregationProcess)
  assert not collect.is_weighted


def test_fetch_gives_every_client_the_row_of_its_key():
  table = tff.TensorType(np.float32, [5, 2])
  fetch = shuffling.build_fetch(table, lambda t, key: t[key], 5)
  values = np.arange(10, dtype=np.float32).reshape(5, 2)
  rows = fetch(values, [4, 0, 4])
  np.testing.assert_array_equal(rows, values[[4, 0, 4]])


@pytest.mark.parametrize('keys', [[], [1], [2, 0], [2, 0, 1]])
def test_scatter_writes_rows_at_their_keys(keys):
  """None, some or all rows, in a graph that does not know how many."""

  @tf.function(input_signature=[
      tf.TensorSpec([3, 2]), tf.TensorSpec([3]), tf.TensorSpec([None], tf.int32)
  ])
  def write(a, b, keys):
    new = (tf.random.stateless_normal([3, 2], [1, 2]), tf.range(5.0, 8.0))
    rows = tf.nest.map_structure(lambda t: t[:tf.size(keys)], new)
    return shuffling.scatter((a, b), keys, rows), new

  table = (np.zeros([3, 2], np.float32), np.ones([3], np.float32))
  written, new = write(*table, np.array(keys, np.int32))
  for leaf, rows, found in zip(table, new, written):
    leaf[keys] = rows[:len(keys)]
    np.testing.assert_array_equal(found, leaf)


def test_raises_on_scalars_and_on_no_rows():
  with pytest.raises(TypeError, match='leading dimension of rows, found int32'):
    shuffling.RowCollectionFactory(3).create(tff.to_type(np.int32))
  with pytest.raises(ValueError, match='`max_rows` must be >= 1, found 0'):
    shuffling.RowCollectionFactory(0)


@pytest.mark.parametrize('keys', [[1, 1], [0, 2, 2]])
def test_no_row_of_two_with_one_key_is_lost_without_a_word(keys):
  rows = np.zeros([len(keys), 2], np.float32)
  write = lambda keys: shuffling.scatter(tf.zeros([3, 2]), keys, rows)
  keys = tf.constant(keys)
  with pytest.raises(tf.errors.InvalidArgumentError, match='must be distinct'):
    write(keys)
  in_tff = tff.tensorflow.computation(write, (np.int32, keys.shape))
  with pytest.raises(Exception, match='must be distinct'):
    in_tff(keys)
