"""What one client does not change of an accumulator is not collected."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling
from tff_pers.runtime import errors
from tff_pers.runtime import fused
from tff_pers.runtime.fused import client_loop
from tff_pers.runtime.fused import singles
from tff_pers.runtime import native

ROWS = tff.TensorType(np.float32, [None, 2])
BLOCKS = tff.to_type(collections.OrderedDict(
    first=ROWS, second=ROWS, count=np.int32
))


def _blocks(first, second, count):
  return collections.OrderedDict(first=first, second=second, count=count)


def _by_count(state, rows):
  """The first rows are the first block."""
  first, second = state['first'], state['second']
  is_new = tf.equal(state['count'], 0)
  first = tf.cond(is_new, lambda: rows, lambda: first)
  second = tf.cond(
      is_new, lambda: second, lambda: tf.concat([second, rows], 0)
  )
  return _blocks(first, second, state['count'] + tf.shape(rows)[0])


def _by_rows(state, rows):
  """The block depends on what is in the rows."""
  is_positive = tf.reduce_sum(rows) > 0
  join = lambda block: tf.concat([block, rows], 0)
  first, second = tf.cond(
      is_positive,
      lambda: (join(state['first']), state['second']),
      lambda: (state['first'], join(state['second'])),
  )
  return _blocks(first, second, state['count'] + 1)


def _by_choice(state, rows):
  """Rows are taken as they are, or not at all."""
  first = tf.cond(
      tf.reduce_sum(rows) > 0, lambda: rows, lambda: state['first']
  )
  return _blocks(first, state['second'], state['count'] + 1)


def _swapped(state, rows):
  return _blocks(
      tf.concat([state['second'], rows], 0), state['first'], state['count'] + 1
  )


def _doubled(state, rows):
  return _blocks(rows, 2 * state['second'], state['count'] + 1)


ACCUMULATE = dict(
    by_count=_by_count, by_rows=_by_rows, by_choice=_by_choice,
    swapped=_swapped, doubled=_doubled,
)
MESSAGE = singles.Source(True, 0)
SECOND = singles.Source(False, 1)
# Of the first block, the second, and the count.
SOURCES = dict(
    by_count=[MESSAGE, SECOND, None], by_rows=[None, None, None],
    by_choice=[None, SECOND, None],
    swapped=[None, None, None], doubled=[MESSAGE, None, None],
)


def _collect(accumulate, num_rows=0):
  """Collects the rows of all clients; `num_rows` are there before them."""

  @tff.tensorflow.computation
  def zero():
    rows = tf.ones([num_rows, 2]), 2 * tf.ones([num_rows, 2])
    return _blocks(*rows, tf.constant(0))

  @tff.tensorflow.computation(BLOCKS, ROWS)
  def add(state, rows):
    return accumulate(state, rows)

  @tff.tensorflow.computation(BLOCKS, BLOCKS)
  def merge(a, b):
    return _blocks(
        tf.concat([a['first'], b['first']], 0),
        tf.concat([a['second'], b['second']], 0), a['count'] + b['count'],
    )

  report = tff.tensorflow.computation(lambda total: total, BLOCKS)

  @tff.federated_computation(tff.FederatedType(ROWS, tff.CLIENTS))
  def collect(rows):
    return tff.federated_aggregate(rows, zero(), add, merge, report)

  return collect


def _expected(accumulate, num_rows, clients):
  """The same in NumPy terms: singles of all clients, merged in order."""
  start = _blocks(
      np.ones([num_rows, 2], np.float32),
      2 * np.ones([num_rows, 2], np.float32), np.int32(0),
  )
  alone = [accumulate(start, tf.constant(rows)) for rows in clients]
  return functools.reduce(
      lambda a, b: _blocks(
          tf.concat([a['first'], b['first']], 0),
          tf.concat([a['second'], b['second']], 0), a['count'] + b['count'],
      ), alone,
  )


@pytest.fixture(name='clients')
def fixture_clients():
  generator = np.random.default_rng(0)
  return [
      generator.normal(size=[size, 2]).astype(np.float32)
      for size in (2, 1, 0, 3)
  ]


@pytest.mark.parametrize('strategy', ['loop', 'vectorized', 'debug'])
@pytest.mark.parametrize('num_rows', [0, 20])
@pytest.mark.parametrize('name', ACCUMULATE)
def test_the_result_is_that_of_all_accumulators(
    name, num_rows, strategy, clients
):
  """Blocks that nobody changes count for each client if they have rows."""
  expected = _expected(ACCUMULATE[name], num_rows, clients)
  with fused.use(strategy=strategy):
    found = _collect(ACCUMULATE[name], num_rows)(clients)
  for key in expected:
    np.testing.assert_array_equal(found[key], expected[key])


@pytest.mark.parametrize('name', ACCUMULATE)
def test_sources(name, monkeypatch, clients):
  seen = []
  sources = singles.sources

  def listening(*arguments):
    seen.append(sources(*arguments))
    return seen[-1]

  monkeypatch.setattr(client_loop.singles_lib, 'sources', listening)
  with fused.use():
    _collect(ACCUMULATE[name])(clients)
  assert seen == [SOURCES[name]]


def _asserted(state, rows):
  """Who sends 3 fails, though the rows are passed on."""
  with tf.control_dependencies([tf.debugging.assert_less(rows, 2.5)]):
    rows = tf.identity(rows)
  return _blocks(rows, state['second'], state['count'] + 1)


def _asserted_in_a_branch(state, rows):

  def checked():
    with tf.control_dependencies([tf.debugging.assert_less(rows, 2.5)]):
      return tf.identity(rows)

  first = tf.cond(
      tf.equal(state['count'], 0), checked,
      lambda: tf.concat([state['first'], rows], 0),
  )
  return _blocks(first, state['second'], state['count'] + 1)


@pytest.mark.parametrize('strategy', ['loop', 'vectorized', 'debug'])
@pytest.mark.parametrize('accumulate', [_asserted, _asserted_in_a_branch])
def test_assertions_hold(accumulate, strategy):
  collect = _collect(accumulate)
  with fused.use(strategy=strategy):
    assert collect([np.ones([1, 2], np.float32)] * 2)['count'] == 2
    with pytest.raises(errors.ComputationError, match='assert'):
      collect([np.ones([1, 2], np.float32), np.full([1, 2], 3, np.float32)])


@pytest.mark.parametrize('strategy', ['loop', 'debug'])
def test_messages_may_be_data_sets(strategy, monkeypatch):

  @tff.tensorflow.computation
  def zero():
    return tf.zeros([0, 2])

  @tff.tensorflow.computation(ROWS, tff.SequenceType(ROWS))
  def accumulate(state, batches):
    return batches.reduce(state, lambda a, b: tf.concat([a, b], 0))

  @tff.tensorflow.computation(ROWS, ROWS)
  def merge(a, b):
    return tf.concat([a, b], 0)

  report = tff.tensorflow.computation(lambda rows: rows, ROWS)

  @tff.federated_computation(
      tff.FederatedType(tff.SequenceType(ROWS), tff.CLIENTS)
  )
  def collect(batches):
    return tff.federated_aggregate(batches, zero(), accumulate, merge, report)

  monkeypatch.setattr(native, 'get_context', None)  # Nothing runs there.
  clients = [[np.full([2, 2], k, np.float32)] * k for k in (1, 2)]
  with fused.use(strategy=strategy):
    found = collect(clients)
  np.testing.assert_array_equal(found[:, 0], [1] * 2 + [2] * 4)


def test_clients_collect_one_block_of_rows(monkeypatch):
  """The others are as they were, however many there are."""
  monkeypatch.setattr(shuffling, '_SMALL_BYTES', 0)
  collect = shuffling.RowCollectionFactory(64).create(ROWS)
  changed = []
  single = client_loop.Aggregate.single

  def listening(aggregate, message):
    changed.append((sum(aggregate.changes), len(aggregate.changes)))
    return single(aggregate, message)

  monkeypatch.setattr(client_loop.Aggregate, 'single', listening)
  rows = [np.full([1, 2], k, np.float32) for k in range(20)]
  with fused.use():
    found = collect.next(collect.initialize(), rows).result
  np.testing.assert_array_equal(found, np.concatenate(rows))
  assert set(changed) == {(2, 9)}  # A block and the count, of eight and one.
