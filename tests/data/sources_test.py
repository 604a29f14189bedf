"""Tests of the doors to dense client data."""

import collections
import sys
import types

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.data import errors
from tff_pers.data import sources


def _client_data():
  def client(num_examples, shift):
    return collections.OrderedDict(
        label=np.arange(num_examples, dtype=np.int32) + shift,
        pixels=np.full([num_examples, 2, 2], shift, np.float32),
    )
  return tff.simulation.datasets.TestClientData(
      {'b': client(2, 10), 'a': client(3, 0)}
  )


def _to_pair(dataset):
  return dataset.map(lambda e: (e['pixels'], e['label']))


def test_client_data_become_dense_in_order_of_id():
  first, second = sources.from_client_data(_client_data(), _to_pair)
  assert first['index'] == 0 and first['num_examples'] == 3
  np.testing.assert_array_equal(first['examples']['y'], [0, 1, 2])
  assert first['examples']['x'].shape == (3, 2, 2)
  assert second['index'] == 1
  np.testing.assert_array_equal(second['examples']['y'], [10, 11])
  np.testing.assert_array_equal(second['examples']['x'], np.full([2, 2, 2], 10))


@pytest.mark.parametrize('pair', [dict, collections.namedtuple('Pair', 'y, x')])
def test_pairs_are_read_by_name(pair):
  _, second = sources.from_client_data(
      _client_data(),
      lambda d: d.map(lambda e: pair(x=e['pixels'], y=e['label'])),
  )
  assert second['index'] == 1
  np.testing.assert_array_equal(second['examples']['y'], [10, 11])


def _no_example(dataset):
  return _to_pair(dataset).take(0)


def _ragged(dataset):
  return _to_pair(dataset).map(
      lambda x, y: (tf.ones([y + 1]), y)
  )


def _nested(dataset):
  return _to_pair(dataset).map(lambda x, y: ({'image': x}, y))


@pytest.mark.parametrize(
    'preprocess,message',
    [
        (None, r'Client a must have examples \(x, y\) or <x, y>, found'),
        (_nested, r'Client a must have examples \(x, y\) or <x, y>, found'),
        (_no_example, 'Client a must have at least one example, found none'),
        (_ragged, 'Client a must have examples of one shape, found several'),
    ],
)
def test_raises_on_unusable_examples_and_names_the_client(preprocess, message):
  with pytest.raises(errors.DataError, match=message):
    sources.from_client_data(_client_data(), preprocess)


def test_raises_on_a_list_of_data_sets():
  with pytest.raises(errors.DataError, match='found a list. Tip: dense'):
    sources.from_client_data([tf.data.Dataset.range(3)])


def _fake_tfds(monkeypatch, load):
  module = types.ModuleType('tensorflow_datasets')
  module.load = load
  module.as_numpy = lambda dataset: dataset
  monkeypatch.setitem(sys.modules, 'tensorflow_datasets', module)


def test_tfds_set_is_read_whole(monkeypatch):
  def load(name, split, batch_size, as_supervised):
    assert (name, split) == ('mnist', 'test')
    assert (batch_size, as_supervised) == (-1, True)
    return np.zeros([3, 28, 28, 1], np.uint8), np.arange(3)
  _fake_tfds(monkeypatch, load)
  x, y = sources.from_tfds('mnist', 'test')
  assert x.shape == (3, 28, 28, 1)
  np.testing.assert_array_equal(y, [0, 1, 2])


def test_raises_when_tfds_is_not_installed_or_fails(monkeypatch):
  monkeypatch.setitem(sys.modules, 'tensorflow_datasets', None)
  with pytest.raises(errors.DataError, match='not installed.*--data_dir'):
    sources.from_tfds('mnist')
  def load(*unused_args, **unused_kwargs):
    raise ConnectionError('no route to host\nsecond line')
  _fake_tfds(monkeypatch, load)
  with pytest.raises(errors.DataError, match='no route.*--data_dir') as info:
    sources.from_tfds('mnist')
  assert '\n' not in str(info.value)
