"""All strategies for the clients give the same numbers."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.testing import tiny

STRATEGIES = ('loop', 'vectorized', 'xla', 'auto', 'measured', 'debug')


def clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


def _averaging():
  """A round of averaging on dense clients: sum, mean, growing, kept values."""
  data = tff.to_type(collections.OrderedDict(
      x=tff.TensorType(np.float32, [6, 3]), y=tff.TensorType(np.float32, [6])
  ))
  weights = tff.TensorType(np.float32, [3])

  @tff.tensorflow.computation(weights, data)
  def train(w, examples):
    for _ in range(3):
      residual = tf.linalg.matvec(examples['x'], w) - examples['y']
      w -= 0.1 * tf.linalg.matvec(examples['x'], residual, transpose_a=True)
    return w, tf.reduce_sum(residual**2)

  @tff.federated_computation(
      tff.FederatedType(weights, tff.SERVER), clients(data)
  )
  def computation(at_server, at_clients):
    sent = tff.federated_broadcast(at_server)
    trained = tff.federated_map(train, (sent, at_clients))
    mean = tff.federated_mean(trained[0])
    again = tff.federated_map(
        train, (tff.federated_broadcast(mean), at_clients)
    )
    return (
        mean, tff.federated_max(trained[1]), again,
        tff.federated_sum(again[1]),
    )

  rng = np.random.default_rng(0)
  values = [
      collections.OrderedDict(
          x=rng.normal(size=[6, 3]).astype(np.float32),
          y=rng.normal(size=[6]).astype(np.float32),
      )
      for _ in range(5)
  ]
  return computation, np.zeros([3], np.float32), values


def test_dense_clients():
  computation, start, values = _averaging()
  for cohort in (values, values[:1], values[3:]):
    agree_lib.agree(computation, start, cohort, strategies=STRATEGIES)


@pytest.mark.parametrize('name', ['fedavg', 'apfl'])
def test_methods(name):
  """Dense clients of different sizes, stateless and stateful."""
  task = tiny.task()
  process = tiny.build(name, task)
  state = agree_lib.on_native(process.initialize_seeded, 3)
  states = [
      agree_lib.on_native(process.initialize_client, state, i)
      for i in range(task.num_clients)
  ]
  agree_lib.agree(
      process.next, state, states, task.train,
      strategies=('loop', 'auto', 'debug'),
  )


def test_shapes_that_start_to_differ():
  """What one cohort allows the next one may not: sizes are data here."""
  vector = tff.TensorType(np.float32, [4])

  @tff.tensorflow.computation(vector)
  def positive(x):
    return tf.boolean_mask(x, x > 0)

  @tff.federated_computation(clients(vector))
  def computation(values):
    return tff.federated_map(positive, values)

  for cohort in (
      [[1.0, -1.0, 2.0, -2.0], [-3.0, 4.0, -5.0, 6.0]],
      [[1.0, 1.0, 2.0, -2.0], [-3.0, -4.0, -5.0, 6.0]],
  ):
    agree_lib.agree(
        computation, cohort, strategies=('loop', 'auto', 'debug')
    )


def test_data_sets_and_what_grows():
  """Sequences of the clients and of the server; messages of unknown size."""
  numbers = tff.SequenceType(np.int32)

  @tff.tensorflow.computation(numbers, numbers)
  def counted(own, common):
    total = own.concatenate(common).reduce(0, lambda total, x: total + x)
    return tf.range(total)

  found_type = tff.TensorType(np.int32, [None])
  none = tff.tensorflow.computation(lambda: tf.zeros([0], tf.int32))
  same = tff.tensorflow.computation(lambda x: x, found_type)

  @tff.tensorflow.computation(found_type, found_type)
  def joined(x, y):
    return tf.concat([x, y], 0)

  @tff.federated_computation(
      clients(numbers), tff.FederatedType(numbers, tff.SERVER)
  )
  def computation(own, common):
    found = tff.federated_map(counted, (own, tff.federated_broadcast(common)))
    return found, tff.federated_aggregate(found, none(), joined, joined, same)

  agree_lib.agree(
      computation, [[1, 2, 3], [4], []], [5, 6], strategies=('loop', 'debug')
  )
