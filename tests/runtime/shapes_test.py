"""Shapes that vary: one layout for all cohorts, nothing quadratic in them."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.runtime import fused
from tff_pers.runtime.fused import compiled
from tff_pers.runtime.fused.values import arguments
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import results

_TEXTS = tff.SequenceType(collections.OrderedDict(
    length=tff.TensorType(np.int32, [None]),
    tokens=tff.TensorType(np.int32, [None, None]),
))
_BATCHES = tff.SequenceType(tff.TensorType(np.float32, [None, 2]))


def _clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


def _texts(seed):
  """A client's texts in batches, each padded to its own longest text."""
  rng = np.random.default_rng(seed)
  texts = [rng.integers(1, 9, n).tolist() for n in rng.integers(1, 9, 7)]
  ragged = tf.ragged.constant(texts[:rng.integers(1, 8)], tf.int32)
  return tf.data.Dataset.from_tensor_slices(ragged).map(
      lambda text: collections.OrderedDict(length=tf.size(text), tokens=text)
  ).padded_batch(2)


@tff.tensorflow.computation(_TEXTS)
def _summary(texts):
  """A number that depends on the order and the padding of all batches."""
  return texts.reduce(
      (0, 0),
      lambda state, b: (
          2 * state[0] + tf.reduce_sum(b['tokens'] * b['length'][:, None]),
          3 * state[1] + tf.size(b['tokens']),
      ),
  )


@tff.federated_computation(_clients(_TEXTS))
def _summaries(data):
  return tff.federated_map(_summary, data)


@pytest.fixture(name='traces')
def _traces(monkeypatch):
  """Layouts that were traced."""
  layouts, trace = [], compiled.Compiled._trace

  def counted(self, argument_layout, *args):
    layouts.append(argument_layout)
    return trace(self, argument_layout, *args)

  monkeypatch.setattr(compiled.Compiled, '_trace', counted)
  return layouts


def test_batches_of_many_shapes_are_traced_once_more(traces):
  """Usual batches keep their layout; batches of many shapes share another."""
  def batches(sizes):
    return [np.ones([size, 2], np.float32) for size in sizes]

  @tff.federated_computation(_clients(_BATCHES))
  def total(data):
    local = tff.tensorflow.computation(
        lambda d: d.reduce(0.0, lambda s, b: s + tf.reduce_sum(b)), _BATCHES
    )
    return tff.federated_sum(tff.federated_map(local, data))

  cohorts = [
      [[4, 4, 1], [4, 2]], [[4, 3], [4, 4, 4, 2]], [[1, 2, 3, 4], [4]],
      [[1, 2], [2, 1, 2, 1, 2], []], [[4, 1], [4, 4, 3]],
  ]
  with fused.use(strategy='loop'):
    for sizes in cohorts:
      assert total([batches(s) for s in sizes]) == 2 * sum(map(sum, sizes))
  assert len(traces) == 2


def test_padded_batches_agree():
  data = [_texts(k) for k in range(6)]
  agree_lib.agree(_summaries, data, strategies=('loop', 'vectorized'))
  agree_lib.agree(_summaries, [data[0].take(0), data[1]])
  agree_lib.agree(_summary, data[2])
  agree_lib.agree(_summary, data[2].take(0))


def test_pipelines_on_varying_shapes_agree():
  """What is no reduction gets the elements as a data set."""
  @tff.tensorflow.computation(_TEXTS)
  def local(texts):
    rows = texts.unbatch().map(lambda t: tf.reduce_sum(t['tokens'])).batch(3)
    return rows.reduce(0, lambda s, b: 2 * s + tf.reduce_sum(b)), texts.skip(1)

  agree_lib.agree(local, _texts(5))

  @tff.federated_computation(_clients(_TEXTS))
  def computation(data):
    first = tff.tensorflow.computation(lambda texts: local(texts)[0], _TEXTS)
    return tff.federated_map(first, data)

  agree_lib.agree(computation, [_texts(k) for k in range(3)])


def test_texts_of_varying_shapes_agree():
  """Strings, and tensors of rank 0 beside them, given as lists."""
  element = tff.to_type((tff.TensorType(np.str_, [None, None]), np.int32))

  @tff.tensorflow.computation(tff.SequenceType(element))
  def joined(elements):
    return elements.reduce('', lambda s, e: tf.strings.join([
        s, tf.strings.reduce_join(e[0]), tf.strings.as_string(e[1]),
    ]))

  def given(*shapes):
    return [
        (np.full(shape, f'{k}'.encode(), object), np.int32(k))
        for k, shape in enumerate(shapes)
    ]

  agree_lib.agree(joined, given([2, 3], [1, 2]))
  assert agree_lib.on_fused(joined, given([1, 2], [2, 1], [0, 3], [1, 1])) == (
      b'000111' b'2' b'33'
  )


@pytest.mark.parametrize('cohort', [[], [[]], [[(1, 2), (2, 1), (1, 1)], []]])
def test_one_layout_for_every_cohort(cohort):
  data = [
      [dict(length=np.ones(s[:1], np.int32), tokens=np.ones(s, np.int32))
       for s in client]
      for client in cohort
  ]
  converter = arguments.Converter(10**6, '/CPU:0', results.ResultTensors())
  found, tensors, _ = converter.ingest(data, _clients(_TEXTS), 1)
  assert found == layout.Varying(_TEXTS.element, clients=True)
  assert [t.dtype for t in tensors] == [spec.dtype for spec in found.specs]
  assert all(
      spec.shape.is_compatible_with(t.shape)
      for t, spec in zip(tensors, found.specs)
  )


def _pieces(shapes):
  entries = np.arange(sum(np.prod(s, dtype=int) for s in shapes))
  return packing.Pieces.pack(
      tf.constant(entries), tf.constant(shapes, tf.int64), [None, None]
  )


def test_pieces_are_the_tensors_that_were_packed():
  shapes = [[2, 2], [0, 3], [1, 3], [4, 1]]
  pieces, start = _pieces(shapes), 0
  for k, shape in enumerate(shapes):
    size = np.prod(shape)
    expected = np.arange(start, start + size).reshape(shape)
    np.testing.assert_array_equal(pieces.at(k), expected)
    np.testing.assert_array_equal(pieces.between(k, 4).at(0), expected)
    np.testing.assert_array_equal(pieces.between(0, k + 1).at(k), expected)
    start += size
  assert pieces.between(2, 2).count == 0


def test_a_piece_costs_nothing_for_the_others():
  """Else a loop over clients would be quadratic in their number."""
  with tf.Graph().as_default() as graph:
    pieces = _pieces([[2, 2], [1, 3], [1, 1]])
    before = len(graph.get_operations())
    pieces.at(tf.constant(1))
    pieces.between(tf.constant(0), tf.constant(1))
    added = graph.get_operations()[before:]
  assert {op.type for op in added} <= {
      'AddV2', 'Const', 'GatherV2', 'Pack', 'Prod', 'Reshape', 'Slice',
      'StridedSlice', 'Sub',
  }
  # The product is that of one shape.
  assert all(op.inputs[0].shape == [2] for op in added if op.type == 'Prod')
