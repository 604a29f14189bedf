"""Means of products of factors: checks A8 and A13 of FedHM."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import aggregators
from tff_pers.numerics import factorization

_KERNEL = (3, 2, 4, 5)


def _float(*shape):
  return tff.TensorType(np.float64, list(shape))


def _type(**fields):
  return tff.to_type(collections.OrderedDict(
      factors=((), (_float(3, 1, 4, None), _float(1, 2, None, 5))),
      **fields,
      weights=(_float(5), _float(None, 2, 4, 5)),
  ))


def _value(kernel, bias, rank=0, **fields):
  """Returns what a client sends: factors, or with rank 0 the kernel."""
  factors = factorization.factorize(tf.constant(kernel), rank)
  return collections.OrderedDict(
      factors=((), tuple(factor.numpy() for factor in factors)),
      **fields,
      weights=(bias, kernel[:0] if rank else kernel),
  )


@pytest.fixture(scope='module', name='process')
def _process():
  return aggregators.LowRankMeanFactory().create(
      _type(), tff.TensorType(np.float32)
  )


def _mean(process, values, weights):
  weights = [np.float32(weight) for weight in weights]
  output = process.next(process.initialize(), values, weights)
  return output.result


def _normal(shape, seed=0):
  return np.random.default_rng(seed).standard_normal(shape)


def test_products_are_averaged_not_factors(process):
  """A8: of (A, B) and (-A, -B) the mean is A B; of the factors it is 0."""
  kernel = factorization.recover(
      factorization.factorize(tf.constant(_normal(_KERNEL)), 3)
  ).numpy()
  value = _value(kernel, np.zeros(5), rank=3)
  negative = collections.OrderedDict(
      value, factors=((), tuple(-f for f in value['factors'][1]))
  )
  found = _mean(process, [value, negative], [1, 1])['weights'][1]
  np.testing.assert_allclose(found, kernel, atol=1e-12)


def test_mean_over_ranks_and_full_kernels(process):
  """Weighted, of what each stands for; one client has the kernel itself."""
  kernels = [_normal(_KERNEL, seed) for seed in range(4)]
  biases = [_normal(5, seed) for seed in range(4)]
  ranks, weights = (0, 3, 1, 3), np.array([1.0, 2.0, 0.5, 0.0])
  values = [_value(*each) for each in zip(kernels, biases, ranks)]
  kept = [
      kernel if rank == 0 else factorization.recover(
          factorization.factorize(tf.constant(kernel), rank)
      )
      for kernel, rank in zip(kernels, ranks)
  ]
  found = _mean(process, values, weights)['weights']
  shares = weights / weights.sum()
  np.testing.assert_allclose(found[0], np.tensordot(shares, biases, 1))
  np.testing.assert_allclose(
      found[1], np.tensordot(shares, np.stack(kept), 1), atol=1e-7
  )


def test_any_mean_of_whole_models_can_be_inside():
  inner = tff.aggregators.as_weighted_aggregator(
      tff.aggregators.UnweightedMeanFactory()
  )
  process = aggregators.LowRankMeanFactory(inner).create(
      _type(), tff.TensorType(np.float32)
  )
  kernels = [_normal(_KERNEL, seed) for seed in range(2)]
  values = [_value(kernel, np.zeros(5)) for kernel in kernels]
  found = _mean(process, values, [1, 3])['weights'][1]
  np.testing.assert_allclose(found, (kernels[0] + kernels[1]) / 2)


def test_rows_of_classes_are_means_over_their_owners():
  """A13: weights are renormalised per class; a row of no client is 0."""
  process = aggregators.LowRankMeanFactory(head=(0,)).create(
      _type(owned=tff.TensorType(np.float32, [5])), tff.TensorType(np.float32)
  )
  owned = np.float32([[1, 1, 0, 0, 1], [0, 1, 1, 0, 1]])
  biases = np.array([[1.0, 2, 3, 4, 5], [10.0, 20, 30, 40, 50]])
  kernel = _normal(_KERNEL)
  values = [
      _value(kernel, biases[k], rank=2 * k, owned=owned[k]) for k in range(2)
  ]
  result = _mean(process, values, [1, 3])
  np.testing.assert_allclose(
      result['weights'][0], [1, (2 + 60) / 4, 30, 0, (5 + 150) / 4]
  )
  np.testing.assert_allclose(result['owned'], [0.25, 1, 0.75, 0, 1])
  other = factorization.recover(factorization.factorize(tf.constant(kernel), 2))
  np.testing.assert_allclose(
      result['weights'][1], kernel / 4 + 0.75 * other.numpy(), atol=1e-7
  )


@pytest.mark.parametrize('value_type, message', [
    (tff.to_type([np.float32]), 'structure <factors, weights>'),
    (_type(owned=np.float32), 'structure <factors, weights>'),
    (
        tff.to_type(collections.OrderedDict(
            factors=((),), weights=(_float(5), _float(5))
        )), 'must have an entry for each leaf',
    ),
    (
        tff.to_type(collections.OrderedDict(
            factors=((_float(4, None), _float(None, 3)),),
            weights=(_float(None, 5),),
        )), 'of a kernel',
    ),
])
def test_raises_on_other_types(value_type, message):
  with pytest.raises(TypeError, match=message):
    aggregators.LowRankMeanFactory().create(
        value_type, tff.TensorType(np.float32)
    )
