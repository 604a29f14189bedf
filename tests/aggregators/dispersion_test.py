"""The dispersion of what is averaged."""

import collections

import numpy as np
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.aggregators import dispersion

_TYPE = tff.to_type(collections.OrderedDict(
    a=tff.TensorType(np.float32, [2]), b=np.float64
))
_VALUES = [
    collections.OrderedDict(a=np.float32([1, 2]), b=3.0),
    collections.OrderedDict(a=np.float32([-1, 0]), b=1.0),
    collections.OrderedDict(a=np.float32([5, 2]), b=-1.0),
]


def _process():
  return dispersion.DispersionFactory().create(
      _TYPE, tff.TensorType(np.float32)
  )


def test_it_is_the_mean_squared_distance_from_the_mean():
  process, weights = _process(), np.float32([1, 3, 0.5])
  output = agree_lib.agree(
      process.next, process.initialize(), _VALUES, list(weights)
  )
  rows = np.array([[*value['a'], value['b']] for value in _VALUES])
  p = weights / weights.sum()
  squares = np.sum((rows - p @ rows) ** 2, axis=1)
  np.testing.assert_allclose(
      output.measurements['dispersion'], p @ squares, rtol=1e-6
  )
  np.testing.assert_allclose(output.result['a'], p @ rows[:, :2], rtol=1e-6)


def test_it_is_zero_where_all_are_alike_or_nobody_is_there():
  process = _process()
  for values, weights in (
      (_VALUES[:1] * 3, [1.0, 2.0, 0.1]), (_VALUES, [0.0] * 3)
  ):
    measured = process.next(
        process.initialize(), values, list(np.float32(weights))
    ).measurements
    assert 0 <= measured['dispersion'] < 1e-5
    assert np.isfinite(measured['dispersion'])
