"""The aggregators of TFF: means, clipping, quantiles, compression, samples."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import aggregation
from tests.conformance import agree as agree_lib
from tests.conformance import cases

agree = agree_lib.agree
aggregators = tff.aggregators
rounds = aggregation.rounds


def _quantile(**kwargs):
  return aggregators.PrivateQuantileEstimationProcess.no_noise(
      initial_estimate=2.0, target_quantile=0.8, learning_rate=1.0, **kwargs
  )


def _measured():
  return aggregators.add_measurements(
      aggregators.MeanFactory(),
      client_measurement_fn=lambda value, weight: collections.OrderedDict(
          largest=tff.federated_max(
              tff.federated_map(_norm, value)
          ),
          weight=tff.federated_sum(weight),
      ),
      server_measurement_fn=lambda value: collections.OrderedDict(
          norm=tff.federated_map(_norm, value)
      ),
  )


@tff.tensorflow.computation(aggregation.VALUE)
def _norm(value):
  return tf.linalg.global_norm(tf.nest.flatten(value))


FACTORIES = {
    'sum': aggregators.SumFactory,
    'mean': aggregators.MeanFactory,
    'mean_no_nan': lambda: aggregators.MeanFactory(no_nan_division=True),
    'unweighted_mean': aggregators.UnweightedMeanFactory,
    'weighted_adapter': lambda: aggregators.as_weighted_aggregator(
        aggregators.UnweightedMeanFactory()
    ),
    'clipping': lambda: aggregators.clipping_factory(
        3.0, aggregators.MeanFactory()
    ),
    'adaptive_clipping': lambda: aggregators.clipping_factory(
        _quantile(), aggregators.UnweightedMeanFactory()
    ),
    'zeroing': lambda: aggregators.zeroing_factory(
        3.0, aggregators.MeanFactory()
    ),
    'adaptive_zeroing_l2': lambda: aggregators.zeroing_factory(
        _quantile(multiplier=2.0, increment=1.0), aggregators.SumFactory(),
        norm_order=2.0,
    ),
    'zeroing_and_clipping': lambda: aggregators.zeroing_factory(
        _quantile(), aggregators.clipping_factory(
            _quantile(), aggregators.MeanFactory()
        ),
    ),
    'concat': lambda: aggregators.concat_factory(aggregators.MeanFactory()),
    'measured': _measured,
    'hadamard': aggregators.HadamardTransformFactory,
    'hadamard_twice': lambda: aggregators.HadamardTransformFactory(
        aggregators.clipping_factory(3.0, aggregators.SumFactory()),
        num_repeats=2,
    ),
    'dft': aggregators.DiscreteFourierTransformFactory,
    'dft_twice': lambda: aggregators.DiscreteFourierTransformFactory(
        num_repeats=2
    ),
    'robust': tff.learning.robust_aggregator,
    'robust_debug': lambda: tff.learning.robust_aggregator(
        debug_measurements_fn=tff.learning.add_debug_measurements
    ),
    'robust_unweighted': lambda: tff.learning.robust_aggregator(
        zeroing=False, weighted=False
    ),
}


@pytest.mark.parametrize('name', cases.cases(FACTORIES, fast=[
    'sum', 'mean', 'unweighted_mean', 'adaptive_clipping',
    'adaptive_zeroing_l2', 'concat', 'measured', 'hadamard_twice', 'dft',
]))
def test_aggregators(name):
  outputs = rounds(FACTORIES[name]())
  assert any(np.any(leaf) for leaf in tf.nest.flatten(outputs[-1].result))


@pytest.mark.parametrize('name', [
    'mean', 'mean_no_nan', 'unweighted_mean', 'adaptive_clipping',
])
@pytest.mark.parametrize('num_clients', [0, 1])
def test_small_cohorts(name, num_clients):
  rounds(FACTORIES[name](), num_clients=num_clients, num_rounds=1)


def test_integers():
  value_type = tff.to_type(
      (tff.TensorType(np.int32, [3]), tff.TensorType(np.int64))
  )
  rounds(aggregators.SumFactory(), value_type)


def test_float64():
  value_type = tff.to_type((tff.TensorType(np.float64, [3]), np.float64))
  outputs = rounds(
      aggregators.UnweightedMeanFactory(), value_type, rtol=1e-12, atol=0
  )
  assert outputs[0].result[0].dtype == np.float64


def test_quantile_estimation():
  process = _quantile()
  state = agree(process.initialize)
  for k in range(3):
    agree(process.report, state)
    state = agree(process.next, state, [1.0, 2.0 * k, 5.0, 3.0])


def _encoded(**kwargs):
  return tff.aggregators.EncodedSumFactory.quantize_above_threshold(
      quantization_bits=8, threshold=4, **kwargs
  )


def _largest(values):
  return max(np.abs(v).max() for v in values)


# With the largest difference of two results. Values are rounded at random to
# 255 levels between their extremes, which are 2 max |x| apart.
COMPRESSION = {
    'encoded_sum': (_encoded, lambda values: 5 * 2 * _largest(values) / 255),
    # Clipped to norm 1 at first.
    'compression': (
        tff.learning.compression_aggregator, lambda values: 2 / 255
    ),
    'compression_unweighted': (
        lambda: tff.learning.compression_aggregator(
            weighted=False, zeroing=False, clipping=False
        ),
        lambda values: 2 * _largest(values) / 255,
    ),
}


@pytest.mark.parametrize('name', COMPRESSION)
def test_quantization(name):
  build, bound = COMPRESSION[name]
  factory = build()
  is_weighted = isinstance(factory, aggregators.WeightedAggregationFactory)
  types = (aggregation.VECTOR,) + (aggregation.WEIGHT,) * is_weighted
  process = factory.create(*types)
  values = aggregation.values(value_type=aggregation.VECTOR)
  arguments = (values,) + (aggregation.weights(),) * is_weighted
  state = agree_lib.on_native(process.initialize)
  native = agree_lib.on_native(process.next, state, *arguments)
  fused = agree_lib.on_fused(process.next, state, *arguments)
  atol = bound(values)
  agree_lib.assert_equal(fused.result, native.result, rtol=0, atol=atol)
  assert np.abs(native.result).max() > 4 * atol
  agree_lib.assert_equal(fused.measurements, native.measurements)


def test_reservoir_samples_everybody_of_a_small_cohort():
  process = aggregators.UnweightedReservoirSamplingFactory(10).create(
      aggregation.VECTOR
  )
  values = aggregation.values(value_type=aggregation.VECTOR)
  state = agree(process.initialize)
  for call in (agree_lib.on_native, agree_lib.on_fused):
    sample = call(process.next, state, values).result
    assert sample.shape == (5, 33)
    order = np.argsort(np.abs(sample).sum(1))
    np.testing.assert_array_equal(sample[order], np.stack(values))


def test_reservoir_samples_are_of_the_cohort():
  """Twenty draws of two of five clients: every client is drawn some time.

  A client is left out of all of them with probability 0.6^20 < 4e-5.
  """
  process = aggregators.UnweightedReservoirSamplingFactory(
      2, return_sampling_metadata=True
  ).create(tff.TensorType(np.int32))

  def draw():
    return [
        process.next((), [10, 11, 12, 13, 14]).result for _ in range(20)
    ]

  for call in (agree_lib.on_native, agree_lib.on_fused):
    samples = [np.asarray(r['samples']) for r in call(draw)]
    assert all(len(set(sample)) == 2 for sample in samples)
    assert set(np.concatenate(samples)) == {10, 11, 12, 13, 14}


def test_federated_sample():
  @tff.federated_computation(tff.FederatedType(
      tff.TensorType(np.float32, [2]), tff.CLIENTS
  ))
  def sampled(values):
    return aggregators.federated_sample(values, 10)

  values = [np.float32([k, -k]) for k in range(4)]
  for call in (agree_lib.on_native, agree_lib.on_fused):
    sample = call(sampled, values)
    np.testing.assert_array_equal(
        sample[np.argsort(sample[:, 0])], np.stack(values)
    )
