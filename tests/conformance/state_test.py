"""What a call keeps for itself: resources, and the state of its loops.

Nothing of it may leak to the next client or to the next round.
"""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib

agree = agree_lib.agree

BATCHES = tff.SequenceType(collections.OrderedDict(
    x=tff.TensorType(np.float32, [None, 2]), y=tff.TensorType(np.int32, [None])
))


def clients(member):
  return tff.FederatedType(member, tff.CLIENTS)


def at_clients(function):
  """Returns `function` of a number mapped over clients."""
  local = tff.tensorflow.computation(function, np.float32)

  @tff.federated_computation(clients(np.float32))
  def computation(values):
    return tff.federated_map(local, values)

  return computation


def datasets():
  """Batches of up to four examples; the second client has none."""
  return [
      tf.data.Dataset.from_tensor_slices(collections.OrderedDict(
          x=np.arange(2 * n, dtype=np.float32).reshape([n, 2]),
          y=np.arange(n, dtype=np.int32),
      )).batch(4)
      for n in (5, 0, 8)
  ]


def test_a_queue_of_every_client():
  """Each client enqueues x and -x and dequeues one; natively."""
  def local(x):
    queue = tf.queue.FIFOQueue(10, tf.float32, [[]], shared_name='shared')
    with tf.control_dependencies([queue.enqueue_many([tf.stack([x, -x])])]):
      return queue.dequeue()

  computation = at_clients(local)
  for _ in range(2):
    result = agree(computation, [1.0, 2.0, 3.0], fuses=False)
    assert result == [1.0, 2.0, 3.0]


def _iterator(x):
  elements = iter(tf.data.Dataset.from_tensors(x).repeat(3).cache())
  return next(elements) + 2 * next(elements)


def _tensor_array(x):
  handle, flow = tf.raw_ops.TensorArrayV3(size=1, dtype=x.dtype)
  flow = tf.raw_ops.TensorArrayWriteV3(
      handle=handle, index=0, value=x, flow_in=flow
  )
  return tf.ensure_shape(tf.raw_ops.TensorArrayReadV3(
      handle=handle, index=0, flow_in=flow, dtype=x.dtype
  ), [])


def _shuffled(x):
  return tf.data.Dataset.range(6).shuffle(6, seed=1).reduce(
      x, lambda s, e: 2 * s + tf.cast(e, tf.float32)
  )


def _generator(x):
  return x + tf.random.Generator.from_seed(3).normal([])


def _old_variable(x):
  total = tf.raw_ops.VariableV2(shape=[], dtype=tf.float32, shared_name='total')
  return tf.identity(tf.raw_ops.Assign(ref=total, value=x))


@pytest.mark.parametrize('function, fuses', [
    (tf.function(_iterator), True), (_tensor_array, True), (_shuffled, True),
    (tf.function(_shuffled), True), (_generator, True), (_old_variable, False),
])
def test_state_of_one_call(function, fuses):
  computation = at_clients(function)
  for _ in range(2):
    agree(computation, [1.0, 2.0, 3.0], fuses=fuses)


def test_a_state_whose_shape_is_lost():
  """The step of a loaded graph does not know the shapes of variables."""
  @tff.tensorflow.computation(BATCHES, tff.TensorType(np.float32, [2, 1]))
  def local(elements, model):
    weights = tf.Variable(tf.zeros([2, 1]))
    with tf.control_dependencies([weights.assign(model)]):
      return elements.reduce(
          tf.zeros([2, 1]),
          lambda total, b: total + tf.matmul(
              b['x'], tf.matmul(b['x'], weights), transpose_a=True
          ),
      )

  @tff.federated_computation(
      clients(BATCHES),
      tff.FederatedType(tff.TensorType(np.float32, [2, 1]), tff.SERVER),
  )
  def computation(data, model):
    return tff.federated_map(local, (data, tff.federated_broadcast(model)))

  agree(computation, datasets(), np.ones([2, 1], np.float32))


def test_a_loop_starts_after_all_of_its_inputs():
  """Only the first state waits for a slow assignment, the step reads it."""
  @tff.tensorflow.computation(BATCHES, np.float32)
  def local(elements, scale):
    product = tf.linalg.matmul(tf.fill([500, 500], scale), tf.ones([500, 500]))
    variable = tf.Variable(0.0)
    late = scale + tf.minimum(tf.reduce_sum(product), 0.0)
    with tf.control_dependencies([variable.assign(late)]):
      return elements.reduce(
          tf.constant(0.0), lambda s, b: s + variable * tf.reduce_sum(b['x'])
      )

  @tff.federated_computation(clients((BATCHES, np.float32)))
  def computation(data):
    return tff.federated_map(local, data)

  agree(computation, [(d, 1.0) for d in datasets()])


def test_a_state_that_grows():
  @tff.tensorflow.computation(BATCHES)
  def local(elements):
    return elements.reduce(
        tf.zeros([0], tf.int32), lambda found, b: tf.concat([found, b['y']], 0)
    )

  @tff.federated_computation(clients(BATCHES))
  def computation(data):
    return tff.federated_map(local, data)

  agree(computation, datasets())
