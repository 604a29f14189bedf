"""The comparison itself: what it must not let pass."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib

PAIRS = {
    'value': (np.float32(1.0), np.float32(1.0001)),
    'integer': (np.int32(1), np.int32(2)),
    'dtype': (np.float32(1.0), np.float64(1.0)),
    'python_type': (np.float32(1.0), np.ones([], np.float32)),
    'shape': (np.zeros([1, 2]), np.zeros([2, 1])),
    'nan': (np.float32(np.nan), np.float32(0.0)),
    'string': (b'a', b'b'),
    'container': ((1.0, 2.0), [1.0, 2.0]),
    'length': ([1.0], [1.0, 1.0]),
    'name': (
        collections.OrderedDict(a=1.0), collections.OrderedDict(b=1.0)
    ),
    'order': (
        collections.OrderedDict(a=1.0, b=1.0),
        collections.OrderedDict(b=1.0, a=1.0),
    ),
    'struct': (
        tff.structure.Struct([('a', 1.0)]), tff.structure.Struct([(None, 1.0)])
    ),
    'deep': ([{'a': (1.0,)}], [{'a': (2.0,)}]),
}


@pytest.mark.parametrize('name', PAIRS)
def test_difference_is_found(name):
  found, expected = PAIRS[name]
  with pytest.raises(AssertionError):
    agree_lib.assert_equal(found, expected)


@pytest.mark.parametrize('name', PAIRS)
def test_equal_results_pass(name):
  for value in PAIRS[name]:
    agree_lib.assert_equal(value, value)


def test_error_on_one_runtime_is_found():
  def fails_on_fused():
    if tff.framework.get_context_stack().current is (
        agree_lib._fused_context('loop')  # pylint: disable=protected-access
    ):
      raise ValueError('Only here.')

  with pytest.raises(AssertionError, match='Only fused raises'):
    agree_lib.agree(fails_on_fused)


def test_leaving_a_computation_to_the_native_runtime_is_found():
  data = tff.FederatedType(tff.SequenceType(np.int32), tff.CLIENTS)

  @tff.federated_computation(data)
  def returned(value):
    return value

  with pytest.raises(AssertionError, match='not fused'):
    agree_lib.agree(returned, [[1, 2]])


def test_runtimes_differ_and_the_one_before_comes_back():
  current = lambda: tff.framework.get_context_stack().current
  before = current()
  assert agree_lib.on_native(current) is not agree_lib.on_fused(current)
  assert current() is before
