"""`debug` says where an error is; that its numbers agree is in conformance/."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import errors
from tff_pers.runtime import fused
from tff_pers.runtime.fused.graphs import graph

CLIENTS = tff.FederatedType(np.float32, tff.CLIENTS)


@tff.tensorflow.computation(np.float32)
def positive(x):
  with tf.control_dependencies([tf.debugging.assert_positive(x)]):
    return tf.identity(x)


@tff.tensorflow.computation(np.float32, np.float32)
def without(x, mean):
  return x - mean


@tff.federated_computation(CLIENTS)
def centred(values):
  mean = tff.federated_broadcast(tff.federated_mean(values))
  rest = tff.federated_map(without, (values, mean))
  return tff.federated_sum(tff.federated_map(positive, rest))


@tff.federated_computation(tff.FederatedType(np.float32, tff.SERVER))
def at_server(value):
  return tff.federated_map(positive, value)


@pytest.mark.parametrize('computation, argument, place', [
    (
        centred, [4.0, 4.0, 1.0],
        r'`centred` .* failed: stage 2, the client at position 2 \(of 0 to 2\),'
        r' step \d+ \(`federated_map`\): assertion failed',
    ),
    (
        at_server, -1.0,
        r'`at_server` .* failed: stage 1, the server, step 1'
        r' \(`federated_apply`\): assertion failed',
    ),
])
def test_an_error_names_its_place(computation, argument, place):
  with fused.use(strategy='debug'):
    with pytest.raises(errors.ComputationError, match=place) as raised:
      computation(argument)
  assert isinstance(raised.value.__cause__, tf.errors.InvalidArgumentError)


def test_an_aggregation_is_a_place():
  @tff.tensorflow.computation(np.float32, np.float32)
  def add(total, x):
    with tf.control_dependencies([tf.debugging.assert_less(total, 5.0)]):
      return total + x

  zero = tff.tensorflow.computation(lambda: 0.0)
  same = tff.tensorflow.computation(lambda x: x, np.float32)

  @tff.federated_computation(CLIENTS)
  def total(values):
    return tff.federated_aggregate(values, zero(), add, add, same)

  with fused.use(strategy='debug'):
    assert total([2.0, 4.0]) == 6.0
    with pytest.raises(
        errors.ComputationError,
        match='stage 1, the client at position 2 .*, an aggregation: assertion',
    ):
      total([2.0, 4.0, 1.0])


def test_what_cannot_be_traced_runs_natively_here_too(monkeypatch):
  """Else `debug` would fail where other strategies have a result."""

  def broken(*_):
    raise ValueError('no such graph')

  with fused.use(strategy='debug'):
    monkeypatch.setattr(graph.Graph, '__call__', broken)
    assert at_server(2.0) == 2.0
    context = tff.framework.get_context_stack().current
    assert context.executor._native


def test_structures_of_tff_are_arguments():
  @tff.federated_computation(
      tff.FederatedType([('a', np.float32), ('b', np.float32)], tff.CLIENTS)
  )
  def total(values):
    return tff.federated_sum(values)

  value = tff.structure.Struct([('a', 1.0), ('b', 2.0)])
  with fused.use(strategy='debug'):
    assert total([value, value]) == dict(a=2.0, b=4.0)


def test_clients_come_one_after_the_other(capfd):
  @tff.tensorflow.computation(np.float32)
  def shown(x):
    with tf.control_dependencies([tf.print('seen', x)]):
      return tf.identity(x)

  @tff.federated_computation(CLIENTS)
  def total(values):
    return tff.federated_sum(tff.federated_map(shown, values))

  with fused.use(strategy='debug'):
    total([3.0, 1.0, 2.0])
  seen = [line for line in capfd.readouterr().err.split('\n') if 'seen' in line]
  assert seen == ['seen 3', 'seen 1', 'seen 2']
