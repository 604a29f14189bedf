"""The fused runtime keeps nothing of rounds that are over."""

import gc

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import problems
from tff_pers.runtime import fused

_MEGABYTE = 2**20


def _resident() -> float:
  """Returns the resident memory of this process, in megabytes."""
  gc.collect()
  return psutil.Process().memory_info().rss / _MEGABYTE


def _train(num_rounds, clients_of_round):
  """Returns the memory after every tenth round of weighted averaging."""
  process = tff.learning.algorithms.build_weighted_fed_avg(
      problems.model_fn, tff.learning.optimizers.build_sgdm(0.1)
  )
  memory = []
  with fused.use():
    state = process.initialize()
    for k in range(num_rounds):
      state = process.next(state, clients_of_round(k)).state
      if k % 10 == 9:  # Collecting garbage takes longer than a round.
        memory.append(_resident())
  return np.array(memory)


def _same_clients():
  clients = problems.clients()
  return lambda k: clients[k % 2:]


def _new_clients():
  """Datasets that live for one round, of 1 MB each."""
  def clients_of_round(k):
    rng = np.random.default_rng(k)
    return [
        tf.data.Dataset.from_tensor_slices({
            'x': rng.normal(size=[2**16, 4]).astype(np.float32),
            'y': rng.integers(0, 3, 2**16).astype(np.int32),
        }).batch(2**12)
    ] * 2
  return clients_of_round


def _shuffled_clients():
  """Data sets of 1 MB that are read again in every round."""
  data = tf.data.Dataset.from_tensor_slices(
      dict(problems.examples(2**16, seed=0))
  ).shuffle(100).batch(2**12)
  return lambda k: [data, data]


@pytest.mark.slow
def test_rounds_leave_no_variables_behind():
  """200 rounds of a Keras model: its variables and metrics die with a round.

  A round that left its variables would add
  more than its 40 floats; 2 MB is what the allocator varies by.
  """
  memory = _train(200, _same_clients())
  assert memory[15:].mean() - memory[5:10].mean() < 2


def test_variables_die_with_the_call():
  """Two variables of 1 MB a call: 40 calls that kept them would add 80 MB."""
  size = 250_000

  @tff.tensorflow.computation(np.float32)
  def work(x):
    variable = tf.Variable(tf.zeros([size]))
    with tf.control_dependencies([variable.assign(tf.fill([size], x))]):
      return tf.reduce_sum(variable.read_value())

  @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(tff.federated_map(work, values))

  with fused.use(strategy='loop'):
    for k in range(60):
      assert total([1.0, 2.0]) == 3 * size
      if k == 20:
        before = _resident()
    assert _resident() - before < 20


@pytest.mark.slow
@pytest.mark.parametrize('clients', [_new_clients, _shuffled_clients])
def test_data_of_past_rounds_is_freed(clients):
  """Sixty rounds; keeping 1 MB of each would add 20 MB from half to half."""
  memory = _train(60, clients())
  assert memory[4:].mean() - memory[1:3].mean() < 10


@pytest.mark.slow
def test_computations_are_freed():
  """Programs build computations in a loop, for sweeps; none stays.

  A traced computation takes about 1 MB.
  """
  def build(k):
    @tff.tensorflow.computation(np.float32)
    def add(x):
      return x + k

    @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
    def computation(values):
      return tff.federated_sum(tff.federated_map(add, values))

    return computation

  memory = []
  with fused.use():
    for k in range(60):
      assert build(k)([1.0, 2.0]) == 3 + 2 * k
      if k % 20 == 19:
        memory.append(_resident())
  assert memory[2] - memory[0] < 20
