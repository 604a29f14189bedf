"""Clients' data as `tf.data` datasets, in every way that a graph may use them.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.runtime import fused

agree = agree_lib.agree

ELEMENT = tff.to_type(collections.OrderedDict(
    x=tff.TensorType(np.float32, [None, 2]), y=tff.TensorType(np.int32, [None])
))
SIZES = (5, 0, 8, 3)


def clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


def dataset(num_examples, seed=0, batch_size=4):
  """A dataset of batches; the last one is ragged."""
  rng = np.random.default_rng(seed)
  return tf.data.Dataset.from_tensor_slices(collections.OrderedDict(
      x=rng.normal(size=[num_examples, 2]).astype(np.float32),
      y=rng.integers(0, 9, num_examples).astype(np.int32),
  )).batch(batch_size)


def datasets(sizes=SIZES):
  return [dataset(n, seed) for seed, n in enumerate(sizes)]


@tf.function
def total(elements):
  """Returns sums over a dataset that depend on the order of its elements."""
  return elements.reduce(
      (tf.zeros([2]), 0, 0),
      lambda state, b: (
          0.5 * state[0] + tf.reduce_sum(b['x'], 0),
          3 * state[1] + tf.reduce_sum(b['y']), state[2] + tf.shape(b['y'])[0],
      ),
  )


def _iterated(elements):
  result = (tf.zeros([2]), 0, 0)
  for b in elements:
    result = (
        0.5 * result[0] + tf.reduce_sum(b['x'], 0),
        3 * result[1] + tf.reduce_sum(b['y']),
        result[2] + tf.shape(b['y'])[0],
    )
  return result


def _twice(elements):
  return total(elements.take(1)), total(elements.skip(1)), total(elements)


def _nested(elements):
  """The step of a reduction reduces the same dataset."""
  return elements.reduce(
      tf.zeros([2]), lambda state, _: 0.5 * state + total(elements)[0]
  )


def _in_branch(elements):
  count = elements.reduce(0, lambda n, b: n + tf.shape(b['y'])[0])
  return tf.cond(
      count > 4, lambda: total(elements)[1], lambda: tf.constant(-1)
  )


def _first(elements):
  batch = elements.unbatch().batch(3).take(1)
  return total(batch), elements.cardinality()


USES = {
    'reduce': total,
    'plain_reduce': total.python_function,
    'iterate': tf.function(_iterated),
    'take': lambda d: total(d.take(1)),
    'skip': lambda d: total(d.skip(1)),
    'repeat': lambda d: total(d.repeat(2)),
    'concatenate': lambda d: total(d.concatenate(d.take(1))),
    'rebatch': lambda d: total(d.unbatch().batch(3)),
    'drop_remainder': lambda d: total(d.unbatch().batch(3, True)),
    'map': lambda d: total(
        d.map(lambda b: collections.OrderedDict(x=2 * b['x'], y=b['y'] + 1))
    ),
    'filter': lambda d: total(d.filter(lambda b: tf.shape(b['y'])[0] > 3)),
    'enumerate': lambda d: d.enumerate().reduce(
        0.0, lambda s, e: s + tf.cast(e[0], tf.float32) + tf.reduce_sum(e[1]['x'])
    ),
    'zip': lambda d: tf.data.Dataset.zip((d, d.skip(1))).reduce(
        0, lambda s, p: s + p[0]['y'][0] * p[1]['y'][0]
    ),
    'scan': lambda d: d.scan(
        0, lambda s, b: (s + tf.reduce_sum(b['y']), s)
    ).reduce(0, lambda s, e: 2 * s + e),
    'shuffle_all': lambda d: d.unbatch().shuffle(100).reduce(
        0, lambda s, b: s + b['y']
    ),
    'prefetch': lambda d: total(d.prefetch(1)),
    'twice': _twice,
    'nested': _nested,
    'in_branch': _in_branch,
    'first': _first,
}


@pytest.mark.parametrize('name', USES)
def test_uses(name):
  """Clients of other sizes, one of them without any example."""
  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def local(elements):
    return USES[name](elements)

  @tff.federated_computation(clients(tff.SequenceType(ELEMENT)))
  def computation(data):
    return tff.federated_map(local, data)

  agree(computation, datasets())


@pytest.mark.parametrize('sizes', [
    (), (0,), (4,), (3,), (4, 4), (0, 0), (9, 1), (8, 4, 12), (5, 6, 7, 8, 9),
])
def test_cohorts(sizes):
  """One computation meets all layouts: full, ragged, empty, none."""
  agree(_SUMMED, datasets(sizes))
  agree(_SUMMED, [list(d.as_numpy_iterator()) for d in datasets(sizes)])


@tff.federated_computation(clients(tff.SequenceType(ELEMENT)))
def _SUMMED(data):  # pylint: disable=invalid-name
  local = tff.tensorflow.computation(
      total, tff.SequenceType(ELEMENT)
  )
  return tff.federated_sum(tff.federated_map(local, data))


def test_batches_of_all_sizes():
  """No two neighbours of one shape."""
  def ragged(sizes):
    parts = [dataset(n, n, batch_size=n) for n in sizes]
    result = parts[0]
    for part in parts[1:]:
      result = result.concatenate(part)
    return result

  agree(_SUMMED, [ragged([1, 2, 1, 3]), ragged([2, 2, 1])])


def test_dataset_beside_other_values():
  """With a broadcast model and a tensor of the client."""
  @tff.tensorflow.computation(
      tff.SequenceType(ELEMENT), tff.TensorType(np.float32, [2]), np.int32
  )
  def local(elements, model, scale):
    def step(w, b):
      gradient = tf.reduce_mean(
          (tf.linalg.matvec(b['x'], w) - tf.cast(b['y'], tf.float32))[:, None]
          * b['x'], 0,
      )
      return w - 0.1 * tf.cast(scale, tf.float32) * gradient
    return elements.reduce(model, step)

  @tff.federated_computation(
      tff.FederatedType(tff.TensorType(np.float32, [2]), tff.SERVER),
      clients((tff.SequenceType(ELEMENT), np.int32)),
  )
  def computation(model, data):
    trained = tff.federated_map(
        local, (data[0], tff.federated_broadcast(model), data[1])
    )
    return tff.federated_mean(trained), trained

  agree(
      computation, np.ones([2], np.float32),
      [(d, i) for i, d in enumerate(datasets())],
  )


def test_two_datasets_of_one_client():
  both = tff.to_type(collections.OrderedDict(
      train=tff.SequenceType(ELEMENT), test=tff.SequenceType(ELEMENT)
  ))

  @tff.tensorflow.computation(both)
  def local(data):
    return total(data['train'].concatenate(data['test'])), total(data['test'])

  @tff.federated_computation(clients(both))
  def computation(data):
    return tff.federated_map(local, data)

  agree(computation, [
      collections.OrderedDict(train=dataset(5, 1), test=dataset(2, 2)),
      collections.OrderedDict(train=dataset(0, 3), test=dataset(9, 4)),
  ])


def test_dataset_at_the_server_and_unplaced():
  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def local(elements):
    return total(elements), total(elements.skip(1))

  @tff.federated_computation(
      tff.FederatedType(tff.SequenceType(ELEMENT), tff.SERVER)
  )
  def computation(data):
    return tff.federated_map(local, data)

  agree(computation, dataset(7))
  agree(local, dataset(7))


def test_dataset_made_by_one_step_and_used_by_the_next():
  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def shortened(elements):
    return elements.take(1)

  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def local(elements):
    return total(elements)

  @tff.federated_computation(clients(tff.SequenceType(ELEMENT)))
  def computation(data):
    return tff.federated_map(local, tff.federated_map(shortened, data))

  agree(computation, datasets())


def test_elements_of_every_structure():
  """A tensor, tuples and dictionaries in each other, strings, booleans."""
  elements = {
      'tensor': np.arange(6, dtype=np.int64),
      'tuple': (np.arange(3, dtype=np.float64), np.array([True, False, True])),
      'nested': collections.OrderedDict(
          a=(np.arange(3, dtype=np.int32), np.array(['u', 'v', 'w'])),
          b=collections.OrderedDict(c=np.ones([3, 2], np.float32)),
      ),
  }
  for value in elements.values():
    data = tf.data.Dataset.from_tensor_slices(value).batch(2)

    @tff.tensorflow.computation(
        tff.SequenceType(tff.types.tensorflow_to_type(data.element_spec))
    )
    def local(batches):
      first = batches.take(1)
      return tf.nest.map_structure(
          lambda t: t,
          first.reduce(
              tf.nest.map_structure(
                  lambda spec: tf.zeros(
                      [d or 0 for d in spec.shape], spec.dtype
                  ),
                  first.element_spec,
              ),
              lambda _, batch: batch,
          ),
      )

    agree(local, data)


def test_unsorted_names():
  """TFF's own executor mixes up fields (below); ours keeps them by name."""
  element = tff.to_type(collections.OrderedDict(
      y=tff.TensorType(np.float32, [2]), x=np.float32
  ))
  values = collections.OrderedDict(
      y=np.arange(6, dtype=np.float32).reshape([3, 2]),
      x=np.array([10, 20, 30], np.float32),
  )

  @tff.tensorflow.computation(tff.SequenceType(element))
  def local(elements):
    return elements.reduce(
        tf.zeros([2]), lambda s, e: s + e['y'] * e['x']
    )

  @tff.federated_computation(clients(tff.SequenceType(element)))
  def computation(data):
    return tff.federated_sum(tff.federated_map(local, data))

  data = tf.data.Dataset.from_tensor_slices(values)
  expected = 2 * np.sum(values['y'] * values['x'][:, None], 0)
  np.testing.assert_array_equal(
      agree_lib.on_fused(computation, [data, data]), expected
  )


def test_data_that_differs_from_pass_to_pass():
  """Every call reads a shuffled data set again."""
  data = tf.data.Dataset.range(1000).shuffle(1000)

  @tff.tensorflow.computation(tff.SequenceType(np.int64))
  def local(elements):
    return elements.batch(1000).reduce(
        tf.zeros([1000], tf.int64), lambda _, batch: batch
    )

  first, second = (agree_lib.on_fused(local, data) for _ in range(2))
  assert not np.array_equal(first, second)
  np.testing.assert_array_equal(np.sort(first), np.sort(second))


def test_sequences_as_results():
  """Made in the graph or given; names in the order of the type."""
  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def shortened(elements):
    return elements.take(1), elements

  @tff.federated_computation(
      tff.FederatedType(tff.SequenceType(ELEMENT), tff.SERVER)
  )
  def at_server(data):
    return tff.federated_map(shortened, data), data

  @tff.tensorflow.computation
  def made():
    return tf.data.Dataset.range(3).map(lambda i: (i, {'b': i, 'a': -i}))

  agree(made)
  agree(shortened, dataset(5))
  agree(at_server, dataset(6))


def test_sequences_as_results_of_clients():
  """The fused runtime leaves these to the native one."""
  @tff.tensorflow.computation(tff.SequenceType(ELEMENT))
  def shortened(elements):
    return elements.take(1)

  @tff.federated_computation(clients(tff.SequenceType(ELEMENT)))
  def computation(data):
    return tff.federated_map(shortened, data), data

  data = datasets([5, 3])
  expected = agree_lib.on_native(computation, data)
  with fused.use():
    agree_lib.assert_equal(computation(data), expected)
