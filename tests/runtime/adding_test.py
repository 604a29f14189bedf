"""What clients send is added up at once if `accumulate` does nothing but add."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.runtime.fused import adding

V, U = (tff.TensorType(np.float32, [3, width]) for width in (3, 2))
PAIR = tff.StructWithPythonType([V, U], tuple)
TOTAL = tff.TensorType(np.float32, [3, 2])


def _product(v, u):
  return tf.matmul(v, u, transpose_a=True)


def _spread(v, u):
  """A message of fewer numbers than the accumulator, [1, 2]."""
  del v
  return tf.reduce_sum(u, axis=0, keepdims=True)


ACCUMULATE = {
    'product': lambda total, v, u: total + _product(v, u),
    'subtracted': lambda total, v, u: total - _product(v, u),
    'other_order': lambda total, v, u: _product(v, u) + total,
    'doubled': lambda total, v, u: total + 2 * _product(v, u),
    'squared': lambda total, v, u: total + _product(v, u) ** 2,
    'turned': lambda total, v, u: total + tf.matmul(v, u),
    'spread': lambda total, v, u: total + _spread(v, u),
    'scaled': lambda total, v, u: 0.5 * total + _product(v, u),
    'same': lambda total, v, u: total + total,
}


def _collect(accumulate):
  """Returns a computation that aggregates pairs by `accumulate`."""

  @tff.tensorflow.computation(TOTAL, PAIR)
  def add(total, pair):
    return accumulate(total, *pair)

  zero = tff.tensorflow.computation(lambda: tf.ones([3, 2]))
  merge = tff.tensorflow.computation(lambda a, b: a + b - 1.0, TOTAL, TOTAL)
  report = tff.tensorflow.computation(lambda total: total, TOTAL)
  # At the clients, so that they have something to do together.
  double = tff.tensorflow.computation(lambda v, u: (2 * v, u), V, U)

  @tff.federated_computation(tff.FederatedType(PAIR, tff.CLIENTS))
  def collect(pairs):
    sent = tff.federated_map(double, pairs)
    return tff.federated_aggregate(sent, zero(), add, merge, report)

  return collect


def _pairs(num_clients):
  rng = np.random.default_rng(0)
  return [
      (
          rng.normal(size=[3, 3]).astype(np.float32),
          rng.normal(size=[3, 2]).astype(np.float32),
      )
      for _ in range(num_clients)
  ]


@pytest.mark.parametrize('name', ACCUMULATE)
def test_the_accumulator_is_that_of_message_after_message(name, monkeypatch):
  at_once = []
  added = adding.added

  def listening(*args):
    found = added(*args)
    at_once.append(found is not None)
    return found

  monkeypatch.setattr(adding, 'added', listening)
  collect, pairs = _collect(ACCUMULATE[name]), _pairs(5)
  loop = agree_lib.on_fused(collect, pairs, strategy='loop')
  found = agree_lib.on_fused(collect, pairs, strategy='vectorized')
  np.testing.assert_allclose(found, loop, rtol=1e-5, atol=1e-5)
  # `subtracted` would do as well, but nobody sends that.
  assert at_once == [name == 'product']


def test_plain_sums_are_taken_at_once(monkeypatch):
  at_once = []
  added = adding.added
  monkeypatch.setattr(
      adding, 'added',
      lambda *args: at_once.append(added(*args)) or added(*args),
  )
  square = tff.tensorflow.computation(lambda x: x * x, np.float32)

  @tff.federated_computation(tff.FederatedType(np.float32, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(tff.federated_map(square, values))

  found = agree_lib.on_fused(
      total, list(np.float32([1, 2, 3])), strategy='vectorized'
  )
  assert found == 14
  assert None not in at_once and at_once
