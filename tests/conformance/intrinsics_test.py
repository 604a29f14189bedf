"""Every intrinsic of TFF, every dtype, and how steps may depend on each other.
"""

import collections

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib

agree = agree_lib.agree

STRUCT = tff.to_type(collections.OrderedDict(
    z=(np.float32, tff.TensorType(np.int64, [2])),
    a=collections.OrderedDict(y=tff.TensorType(np.float64, [2, 2])),
))


def clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


def server(member):
  return tff.FederatedType(member, tff.SERVER)


def structs(num_clients):
  rng = np.random.default_rng(0)
  return [
      collections.OrderedDict(
          z=(np.float32(rng.normal()), rng.integers(-9, 9, 2)),
          a=collections.OrderedDict(y=rng.normal(size=[2, 2])),
      )
      for _ in range(num_clients)
  ]


@tff.tensorflow.computation(STRUCT, STRUCT)
def add(x, y):
  return tf.nest.map_structure(lambda a, b: a + b, x, y)


@pytest.mark.parametrize('num_clients', [0, 1, 2, 5])
def test_sums(num_clients):
  @tff.federated_computation(clients(STRUCT))
  def computation(values):
    return (
        tff.federated_sum(values), tff.federated_min(values.z),
        tff.federated_max(values.a),
    )

  agree(computation, structs(num_clients))


@pytest.mark.parametrize('num_clients', [0, 1, 5])
def test_means(num_clients):
  floats = tff.to_type(collections.OrderedDict(
      z=(np.float32,), a=tff.TensorType(np.float64, [2, 2])
  ))

  @tff.federated_computation(
      clients(floats), clients(np.float32), clients(np.int32)
  )
  def computation(values, weights, counts):
    return (
        tff.federated_mean(values), tff.federated_mean(values, weights),
        tff.federated_mean(values.z, counts),
    )

  values = [((v['z'][0],), v['a']['y']) for v in structs(num_clients)]
  agree(
      computation, values, [float(i) for i in range(num_clients)],
      list(range(1, num_clients + 1)),
  )


@pytest.mark.parametrize('num_clients', [1, 3])
def test_placements(num_clients):
  """Broadcast, zip, map, apply and values of both placements."""
  @tff.federated_computation(server(STRUCT), clients(STRUCT), np.int32)
  def computation(at_server, at_clients, unplaced):
    sent = tff.federated_broadcast(at_server)
    pairs = tff.federated_zip((sent, at_clients))
    everywhere = tff.federated_value(unplaced, tff.CLIENTS)
    return collections.OrderedDict(
        sent=sent,
        pairs=pairs,
        mapped=tff.federated_map(add, pairs),
        all_equal=tff.federated_map(add, (sent, sent)),
        applied=tff.federated_map(add, (at_server, at_server)),
        zipped=tff.federated_zip(
            collections.OrderedDict(b=at_server.z, a=(at_server.a,))
        ),
        everywhere=tff.federated_zip((everywhere, at_clients.z[0])),
        constant=tff.federated_value([1.5, 2.5], tff.SERVER),
        unplaced=(unplaced, unplaced),
        selected=at_clients.a.y,
    )

  agree(computation, structs(1)[0], structs(num_clients), 7)


def test_evaluated_computations():
  @tff.tensorflow.computation
  def constant():
    return tf.constant([1, 2]), tf.constant('text')

  @tff.federated_computation(clients(np.int32))
  def computation(values):
    at_clients = tff.federated_eval(constant, tff.CLIENTS)
    return (
        tff.federated_eval(constant, tff.SERVER), at_clients,
        tff.federated_sum(at_clients[0]), values,
    )

  agree(computation, [1, 2, 3])


def test_steps_that_depend_on_each_other():
  """Two aggregations in a row, then a third over what clients have kept."""
  @tff.tensorflow.computation(np.float32, np.float32)
  def difference(x, y):
    return x - y

  @tff.tensorflow.computation(np.float32)
  def square(x):
    return x**2

  @tff.federated_computation(clients(np.float32))
  def computation(values):
    mean = tff.federated_mean(values)
    centered = tff.federated_map(
        difference, (values, tff.federated_broadcast(mean))
    )
    variance = tff.federated_mean(tff.federated_map(square, centered))
    twice = tff.federated_map(
        difference, (centered, tff.federated_broadcast(variance))
    )
    return mean, variance, tff.federated_max(twice), twice, centered

  agree(computation, [1.0, 2.0, 4.0, -3.0])
  # The same computation for another cohort: no trace is of one size.
  agree(computation, [5.0])


@pytest.mark.parametrize('num_clients', [0, 1, 2, 3, 4, 5, 8])
def test_growing_accumulators_keep_the_order_of_clients(num_clients):
  vector = tff.TensorType(np.float32, [None])
  ids = tff.TensorType(np.str_, [None])
  state = tff.to_type(collections.OrderedDict(values=vector, ids=ids))

  @tff.tensorflow.computation
  def zero():
    return collections.OrderedDict(
        values=tf.zeros([0]), ids=tf.zeros([0], tf.string)
    )

  @tff.tensorflow.computation(state, (vector, np.str_))
  def accumulate(total, value):
    return collections.OrderedDict(
        values=tf.concat([total['values'], value[0]], 0),
        ids=tf.concat([total['ids'], value[1][None]], 0),
    )

  @tff.tensorflow.computation(state, state)
  def merge(x, y):
    return tf.nest.map_structure(lambda a, b: tf.concat([a, b], 0), x, y)

  @tff.tensorflow.computation(state)
  def report(total):
    return total['values'] * 2, total['ids']

  @tff.federated_computation(clients((vector, np.str_)))
  def computation(values):
    return tff.federated_aggregate(values, zero(), accumulate, merge, report)

  agree(computation, [
      (np.arange(i, dtype=np.float32), f'client {i}')
      for i in range(num_clients)
  ])


def test_aggregate_with_a_zero_that_is_no_zero():
  """Growing accumulators too: every client's own starts at `zero`."""
  @tff.tensorflow.computation
  def zero():
    return tf.constant([-1.0])

  vector = tff.TensorType(np.float32, [None])

  @tff.tensorflow.computation(vector, np.float32)
  def accumulate(total, value):
    return tf.concat([total, [value]], 0)

  @tff.tensorflow.computation(vector, vector)
  def merge(x, y):
    return tf.concat([x, y[1:]], 0)

  @tff.tensorflow.computation(vector)
  def report(total):
    return total[1:]

  @tff.federated_computation(clients(np.float32))
  def computation(values):
    return tff.federated_aggregate(values, zero(), accumulate, merge, report)

  agree(computation, [1.0, 2.0, 3.0])


@pytest.mark.parametrize('secure', [False, True])
def test_select(secure):
  table = tff.to_type(collections.OrderedDict(
      a=tff.TensorType(np.float32, [3, 2]), b=tff.TensorType(np.str_, [3])
  ))
  keys = tff.TensorType(np.int32, [2])
  select = tff.federated_secure_select if secure else tff.federated_select

  @tff.tensorflow.computation(table, np.int32)
  def row(values, key):
    return collections.OrderedDict(
        a=values['a'][key], b=values['b'][key], key=key
    )

  @tff.tensorflow.computation(tff.SequenceType(row.type_signature.result))
  def summed(rows):
    return rows.reduce(
        (tf.zeros([2]), tf.constant('')),
        lambda state, r: (state[0] + r['a'], state[1] + r['b']),
    )

  @tff.federated_computation(clients(keys), server(table))
  def computation(at_clients, at_server):
    rows = select(
        at_clients, tff.federated_value(3, tff.SERVER), at_server, row
    )
    return tff.federated_map(summed, rows)

  agree(
      computation, [[0, 2], [1, 1], [2, 0]],
      collections.OrderedDict(
          a=np.arange(6, dtype=np.float32).reshape([3, 2]),
          b=['u', 'v', 'w'],
      ),
  )


def test_sequences_of_values():
  """At all placements; TFF's executor knows no sequence_sum."""
  @tff.tensorflow.computation(np.int32)
  def double(x):
    return 2 * x

  @tff.tensorflow.computation(np.int32, np.int32)
  def plus(x, y):
    return x + y

  @tff.federated_computation(tff.SequenceType(np.int32))
  def local(values):
    doubled = tff.sequence_map(double, values)
    return tff.sequence_reduce(doubled, 100, plus)

  @tff.federated_computation(
      clients(tff.SequenceType(np.int32)), server(tff.SequenceType(np.int32)),
      tff.SequenceType(np.int32),
  )
  def computation(at_clients, at_server, unplaced):
    return (
        tff.federated_map(local, at_clients),
        tff.federated_map(local, at_server),
        local(unplaced),
        tff.federated_sum(tff.federated_map(local, at_clients)),
    )

  agree(computation, [[1, 2, 3], [], [4]], [5, 6], [7])


DTYPES = (
    np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16,
    np.uint32, np.uint64, np.float16, ml_dtypes.bfloat16, np.float32,
    np.float64, np.complex64, np.complex128, np.str_,
)


@pytest.mark.parametrize('dtype', DTYPES, ids=lambda t: t.__name__)
def test_dtypes_in_and_out(dtype):
  """Scalars, tensors and ragged tensors, at clients and at the server."""
  scalar = tff.TensorType(dtype)
  matrix = tff.TensorType(dtype, [2, None])

  @tff.tensorflow.computation(scalar, matrix)
  def rearranged(x, y):
    return tf.transpose(y), x, tf.reshape(x, [1])

  @tff.federated_computation(
      clients(scalar), clients(matrix), server(scalar), server(matrix)
  )
  def computation(x, y, z, w):
    return (
        tff.federated_map(rearranged, (x, y)),
        tff.federated_map(rearranged, (z, w)),
        tff.federated_map(rearranged, (tff.federated_broadcast(z), y)),
    )

  def values(shape):
    if dtype is np.str_:
      return np.full(shape, b'text\0 \xc3\xa9', object)
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)

  agree(
      computation, [values([])[()], values([])[()]],
      [values([2, 3]), values([2, 1])], values([])[()], values([2, 0]),
  )


@pytest.mark.parametrize(
    'dtype', [np.int32, np.int64, np.float16, np.float64, np.complex64],
    ids=lambda t: t.__name__,
)
def test_dtypes_that_are_summed(dtype):
  """Integers wrap around alike."""
  @tff.federated_computation(clients(tff.TensorType(dtype, [2])))
  def computation(values):
    return tff.federated_sum(values)

  largest = 2 if dtype is np.complex64 else (
      np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 100
  )
  agree(computation, [np.array([1, largest], dtype)] * 3)


def test_empty_structs_and_names():
  """Stateless parts are empty structs; names survive."""
  part = tff.StructType([('b', ()), ('c', np.int32), ('a', [np.float32])])

  @tff.federated_computation(clients(part), server(part), server(()))
  def computation(x, y, nothing):
    return x, y, nothing, tff.federated_broadcast(nothing)

  agree(computation, [((), 3, [1.0])] * 2, ((), 3, [1.0]), ())


def test_nested_computations_and_unused_arguments():
  @tff.federated_computation(np.int32)
  def inner(x):
    return x, tff.federated_value(x, tff.SERVER)

  @tff.federated_computation(clients(np.int32), np.int32, server(np.float32))
  def computation(values, x, unused):
    del unused
    first, at_server = inner(x)
    return tff.federated_sum(values), first, at_server

  agree(computation, [1, 2], 3, 4.0)


def test_results_keep_their_containers():
  Pair = collections.namedtuple('Pair', ['second', 'first'])

  @tff.tensorflow.computation(np.float32)
  def packed(x):
    return [x, (x, [x])], Pair(x, collections.OrderedDict(b=x, a=[])), {'k': x}

  @tff.federated_computation(clients(np.float32), server(np.float32))
  def computation(x, y):
    return [
        tff.federated_map(packed, x), Pair(tff.federated_map(packed, y), y)
    ]

  agree(computation, [1.0, 2.0], 3.0)
  agree(packed, 1.0)


def test_computations_that_differ_in_containers_only():
  """TFF holds them for equal: its serialized form knows no containers."""
  Pair = collections.namedtuple('Pair', ['x', 'y'])

  def build(container):
    @tff.tensorflow.computation(np.float32)
    def packed(x):
      return container(x=x, y=2 * x)
    return packed

  computations = [build(c) for c in (Pair, collections.OrderedDict)]
  assert computations[0] == computations[1]
  for computation in computations:
    agree(computation, 1.0)


def test_same_computation_for_cohorts_of_all_sizes_and_layouts():
  """Stacked clients, packed clients, one client, none: one after the other."""
  vector = tff.TensorType(np.float32, [None])

  @tff.tensorflow.computation(vector)
  def total(x):
    return tf.reduce_sum(x), tf.size(x)

  @tff.federated_computation(clients(vector))
  def computation(values):
    return tff.federated_sum(tff.federated_map(total, values))

  for sizes in ([3, 3], [3, 1], [], [2], [0, 0], [0, 4, 1], [3, 3]):
    agree(computation, [np.arange(n, dtype=np.float32) for n in sizes])
