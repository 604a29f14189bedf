"""The mean of updates with factors is that of what they stand for."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib
from tff_pers.aggregators import factor_mean

SPEC = [
    tf.TensorSpec([3]), tf.TensorSpec([4, 5]), tf.TensorSpec([]),
    tf.TensorSpec([5, 2], tf.float64),
]
POSITIONS = (1, 3)


def _factors(n, m, dtype):
  return collections.OrderedDict(
      u=tff.TensorType(dtype, [None, m]), v=tff.TensorType(dtype, [None, n])
  )


TYPE = tff.to_type(collections.OrderedDict(
    dense=[tff.TensorType(np.float32, [3]), np.float32],
    factors=[_factors(4, 5, np.float32), _factors(5, 2, np.float64)],
))


def _value(number, rows):
  rng = np.random.default_rng(number)
  draw = lambda *shape: rng.normal(size=shape)
  return collections.OrderedDict(
      dense=[np.float32(draw(3)), np.float32(draw())],
      factors=[
          collections.OrderedDict(
              u=np.float32(draw(rows, 5)), v=np.float32(draw(rows, 4))
          ),
          collections.OrderedDict(u=draw(rows, 2), v=draw(rows, 5)),
      ],
  )


def _plain(value):
  """The update that a value stands for, in the order of `SPEC`."""
  products = [pair['v'].T @ pair['u'] for pair in value['factors']]
  a, b = value['dense']
  return [a, products[0], b, products[1]]


def _process():
  return factor_mean.FactorMeanFactory(SPEC, POSITIONS).create(
      TYPE, tff.TensorType(np.float32)
  )


@pytest.mark.parametrize('rows', [(2, 2, 2), (2, 3, 1)], ids=['same', 'ragged'])
@pytest.mark.parametrize('weights', [(1.0, 3.0, 0.5), (0.0, 0.0, 0.0)])
def test_it_is_the_mean_of_the_products(rows, weights):
  process = _process()
  values = [_value(number, size) for number, size in enumerate(rows)]
  strategies = ('loop', 'vectorized') if len(set(rows)) == 1 else ('loop',)
  output = agree_lib.agree(
      process.next, process.initialize(), values, list(np.float32(weights)),
      strategies=strategies,
  )
  total = sum(weights) or 1.0
  expected = [
      sum(q * leaf for q, leaf in zip(weights, leaves)) / total
      for leaves in zip(*map(_plain, values))
  ]
  for found, wanted in zip(output.result, expected):
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_state_and_measurements_are_those_of_the_mean():
  """Runs resume from checkpoints of a server that takes the dense mean."""
  process = _process()
  mean = tff.aggregators.MeanFactory(no_nan_division=True).create(
      process.next.type_signature.result['result'].member,
      tff.TensorType(np.float32),
  )
  assert process.initialize.type_signature == mean.initialize.type_signature
  for field in ('state', 'measurements'):
    found, expected = (
        p.next.type_signature.result[field] for p in (process, mean)
    )
    assert found == expected


def test_raises_on_values_of_another_form():
  with pytest.raises(TypeError, match='`value_type` must be'):
    factor_mean.FactorMeanFactory(SPEC, (1,)).create(
        TYPE, tff.TensorType(np.float32)
    )
