"""Data sets of all kinds, new ones or not, have the elements that they have
natively, in the same order, and are read as far as the computation takes.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.runtime.fused.values import element_functions
from tff_pers.runtime.fused.values import reading

_D = tf.data.Dataset


def _rows(count=11):
  return _D.from_tensor_slices(collections.OrderedDict(
      x=np.arange(2.0 * count, dtype=np.float32).reshape([count, 2]),
      y=np.arange(count, dtype=np.int32),
  ))


def _doubled(e):
  return collections.OrderedDict(x=2 * e['x'], y=e['y'] + 1)


# Read without an iterator.
_LINES = {
    'slices': lambda d: d,
    'shuffle': lambda d: d.shuffle(20, seed=3),
    'small_buffer': lambda d: d.shuffle(4, seed=3),
    'same_order': lambda d: d.shuffle(20, seed=3, reshuffle_each_iteration=False),
    'epochs': lambda d: d.shuffle(20, seed=3).repeat(3),
    'epochs_first': lambda d: d.repeat(3).shuffle(7, seed=3),
    'same_epochs': lambda d: d.shuffle(
        20, seed=3, reshuffle_each_iteration=False
    ).repeat(2),
    'choice': lambda d: d.skip(2).shard(2, 1).take(3).repeat(2),
    'endless': lambda d: d.repeat().shuffle(5, seed=1).take(30),
    'none': lambda d: d.take(0),
    'all': lambda d: d.take(-1),
    'batches_of_none': lambda d: d.take(0).shuffle(5, seed=1).batch(3),
    'batch': lambda d: d.batch(4),
    'one_batch': lambda d: d.batch(40),
    'drop': lambda d: d.shuffle(20, seed=3).batch(4, drop_remainder=True),
    'drop_all': lambda d: d.batch(40, drop_remainder=True),
    'usual': lambda d: d.repeat(2).shuffle(20, seed=3).batch(4).map(
        _doubled
    ).prefetch(2),
    'parallel': lambda d: d.batch(4, num_parallel_calls=2).map(
        _doubled, num_parallel_calls=tf.data.AUTOTUNE
    ),
    'examples_mapped': lambda d: d.map(_doubled).shuffle(20, seed=3).batch(4),
    'mapped_twice': lambda d: d.map(_doubled).batch(4).map(_doubled).map(
        lambda e: collections.OrderedDict(x=e['x'] - 1, y=3 * e['y'])
    ),
    'rest_among_batches': lambda d: d.batch(4).shuffle(3, seed=2).repeat(2),
    'only_rests': lambda d: d.batch(40).repeat(3),
    'batches_chosen': lambda d: d.batch(2).skip(1).shard(2, 0).take(2),
    'mapped_to_one_shape': lambda d: d.batch(4).map(
        lambda e: collections.OrderedDict(
            x=tf.reduce_sum(e['x'], 0), y=tf.size(e['y'])
        )
    ),
    'nothing_mapped': lambda d: d.take(0).map(_doubled).batch(2).map(_doubled),
}
# Read by an iterator.
_OTHERS = {
    'filter': lambda d: d.filter(lambda e: e['y'] % 2 == 0).batch(2),
    'padded': lambda d: d.padded_batch(4),
    'zip': lambda d: _D.zip((d.shuffle(20, seed=2), d)).map(
        lambda a, b: collections.OrderedDict(x=a['x'], y=b['y'])
    ),
    'concatenate': lambda d: d.shuffle(20, seed=2).concatenate(d),
    'cache': lambda d: d.shuffle(20, seed=2).cache().repeat(2),
    'interleave': lambda d: d.interleave(
        lambda e: _D.from_tensors(e).repeat(2), cycle_length=2
    ),
    'batches_of_batches': lambda d: d.batch(2, True).batch(2).unbatch(),
    'take_while': lambda d: d.take_while(lambda e: e['y'] < 5),
    'shapes_that_vary': lambda d: d.batch(3).map(
        lambda e: collections.OrderedDict(
            x=tf.boolean_mask(e['x'], e['y'] % 2 == 0), y=e['y']
        )
    ),
}


def _elements_of(spec):
  """Returns a computation of all numbers of a data set, in their order."""
  sequence = tff.SequenceType(tff.types.tensorflow_to_type(spec))

  @tff.tensorflow.computation(sequence)
  def listed(elements):
    return elements.reduce(
        (tf.zeros([0]), tf.zeros([0], tf.int32), tf.zeros([0], tf.int32)),
        lambda s, e: (
            tf.concat([s[0], tf.reshape(e['x'], [-1])], 0),
            tf.concat([s[1], tf.reshape(e['y'], [-1])], 0),
            tf.concat([s[2], tf.shape(e['x'])], 0),
        ),
    )

  @tff.federated_computation(tff.FederatedType(sequence, tff.CLIENTS))
  def all_listed(data):
    return tff.federated_map(listed, data)

  return all_listed


def _no_iterator(monkeypatch):
  def elements(self):
    raise AssertionError('A data set is read by an iterator.')

  monkeypatch.setattr(reading._DataSet, 'elements', elements)  # pylint: disable=protected-access


@pytest.mark.parametrize('name', _LINES)
def test_lines(name, monkeypatch):
  """Other clients in every call, of other sizes; then the same objects."""
  _no_iterator(monkeypatch)
  make = _LINES[name]
  computation = _elements_of(make(_rows()).element_spec)
  data = [make(_rows(count)) for count in (11, 4, 7)]
  agree_lib.agree(computation, data[:2])
  agree_lib.agree(computation, data)
  agree_lib.agree(computation, data)


@pytest.mark.parametrize('name', _OTHERS)
def test_others(name):
  make = _OTHERS[name]
  data = [make(_rows(count)) for count in (11, 4)]
  computation = _elements_of(data[0].element_spec)
  for _ in range(2):
    agree_lib.agree(computation, data)


def test_clients_of_different_pipelines():
  data = [
      _rows().batch(4), _rows(5).shuffle(9, seed=1).batch(2),
      _rows().filter(lambda e: e['y'] > 3).batch(3),
  ]
  computation = _elements_of(data[0].element_spec)
  agree_lib.agree(computation, data)
  agree_lib.agree(computation, [*data, list(_rows(3).batch(2).as_numpy_iterator())])


def test_shuffles_without_a_seed_draw_anew():
  """The same object twice, and two clients with the same rows."""
  data = _rows(50).shuffle(50)
  computation = _elements_of(data.element_spec)
  orders = [
      order for _ in range(2)
      for _, order, _ in agree_lib.on_fused(computation, [data, data])
  ]
  assert len({tuple(order) for order in orders}) == 4
  for order in orders:
    np.testing.assert_array_equal(np.sort(order), np.arange(50))


def test_functions_are_loaded_once_for_all_data_sets_made_anew(monkeypatch):
  monkeypatch.setattr(element_functions, '_loaded', collections.OrderedDict())
  computation = _elements_of(_rows().element_spec)
  for factor in (2, 2, 3, 2):
    data = _rows().map(
        lambda e, f=factor: collections.OrderedDict(x=f * e['x'], y=e['y'])
    )
    agree_lib.agree(computation, [data])
  assert len(element_functions._loaded) == 2  # pylint: disable=protected-access


def test_strings_and_captured_values():
  table = tf.constant([5, 7, 9])
  data = _D.from_tensor_slices((['a', 'bb', 'c'], [2, 0, 1])).map(
      lambda s, i: (tf.strings.join([s, s]), table[i])
  ).batch(2)

  @tff.tensorflow.computation(
      tff.SequenceType(tff.types.tensorflow_to_type(data.element_spec))
  )
  def joined(elements):
    return elements.reduce(
        ('', 0), lambda s, e: (
            tf.strings.join([s[0], tf.strings.reduce_join(e[0])]),
            10 * s[1] + tf.reduce_sum(e[1]),
        )
    )

  for _ in range(2):
    agree_lib.agree(joined, data)
  words = _D.from_tensor_slices(['a', 'bb']).repeat(2)
  local = tff.tensorflow.computation(
      lambda d: d.reduce('', lambda a, b: tf.strings.join([a, b])),
      tff.SequenceType(np.str_),
  )
  for _ in range(2):
    agree_lib.agree(local, words)


_NUMBERS = tff.SequenceType(np.int64)


def _listed(elements):
  return elements.reduce(
      tf.zeros([0], tf.int64), lambda s, e: tf.concat([s, [e]], 0)
  )


_TAKES = {
    'take': lambda d: _listed(d.take(3)),
    'skip': lambda d: _listed(d.skip(2).take(3)),
    'filter': lambda d: _listed(d.filter(lambda i: tf.equal(i % 3, 1)).take(3)),
    'take_while': lambda d: _listed(d.take_while(lambda i: i % 50 < 40).take(3)),
    'in_a_branch': lambda d: tf.cond(
        tf.size(_listed(d.take(2))) > 1, lambda: _listed(d.take(3)),
        lambda: tf.zeros([0], tf.int64),
    ),
    'returned': lambda d: d.take(3),
}
_LARGE = {
    'large': lambda: _D.range(300_000),
    'huge': lambda: _D.range(2**60),
    'endless': lambda: _D.range(5).repeat(),
    'endless_filtered': lambda: _D.range(5).repeat().filter(lambda i: i != 2),
    'endless_shuffled': lambda: _D.range(50).repeat().shuffle(9, seed=1),
}


@pytest.mark.parametrize('take', _TAKES)
@pytest.mark.parametrize('large', _LARGE)
def test_no_more_is_read_than_what_is_taken(take, large, monkeypatch):
  _no_iterator(monkeypatch)
  local = tff.tensorflow.computation(_TAKES[take], _NUMBERS)
  agree_lib.agree(local, _LARGE[large]())
  if take == 'returned':
    return

  @tff.federated_computation(tff.FederatedType(_NUMBERS, tff.CLIENTS))
  def computation(data):
    return tff.federated_map(local, data)

  agree_lib.agree(computation, [_LARGE[large](), _D.range(9).shuffle(9, seed=1)])


def test_more_than_memory_holds_is_not_read_before(monkeypatch):
  monkeypatch.setattr(reading.Reader, '__init__', _small_memory)
  agree_lib._fused_context.cache_clear()  # pylint: disable=protected-access
  try:
    for make in (_LINES['usual'], _OTHERS['filter']):
      computation = _elements_of(make(_rows()).element_spec)
      agree_lib.agree(computation, [make(_rows(90)), make(_rows(3))])
      agree_lib.agree(computation, [make(_rows(9)), make(_rows(3))])
  finally:
    agree_lib._fused_context.cache_clear()  # pylint: disable=protected-access


def _small_memory(self, max_bytes, original=reading.Reader.__init__):
  del max_bytes  # Unused.
  original(self, 600)


def _two_passes(elements):
  first = _listed(elements)
  with tf.control_dependencies([first]):
    return first, _listed(elements)


def _epochs(elements):
  return _listed(elements.repeat(2))


@pytest.mark.parametrize('passes', [_two_passes, _epochs])
@pytest.mark.parametrize('same', [True, False])
def test_every_pass_over_a_shuffled_data_set_has_its_order(passes, same):
  """As natively, each call begins with the first pass."""
  local = tff.tensorflow.computation(passes, _NUMBERS)
  data = _D.range(30).shuffle(9, seed=2, reshuffle_each_iteration=not same)
  agree_lib.agree(local, data)
  agree_lib.agree(local, data)


def test_two_computations_that_take_from_one_data_set():
  """Neither advances the shuffle of the other."""
  first = tff.tensorflow.computation(_TAKES['take'], _NUMBERS)
  second = tff.tensorflow.computation(_TAKES['skip'], _NUMBERS)

  @tff.federated_computation(tff.FederatedType(_NUMBERS, tff.CLIENTS))
  def computation(data):
    return (
        tff.federated_map(first, data), tff.federated_map(second, data),
        tff.federated_map(first, data),
    )

  agree_lib.agree(computation, [_D.range(30).shuffle(30, seed=s) for s in (1, 2)])
