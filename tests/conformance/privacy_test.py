"""Differentially private aggregators.

Without noise (multiplier 0) all numbers agree; with noise those that no noise
reaches, and the noise has the right scale. (`tff.learning.ddp_secure_aggregator`
is not here: its computation is too deep for TFF's own secure sums, "Error
parsing message".)
"""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from tests.conformance import aggregation
from tests.conformance import agree as agree_lib

DP = tff.aggregators.DifferentiallyPrivateFactory
NOISELESS = {
    'gaussian_fixed': lambda: DP.gaussian_fixed(0.0, 5, 3.0),
    'gaussian_adaptive': lambda: DP.gaussian_adaptive(
        0.0, 5, initial_l2_norm_clip=3.0, clipped_count_stddev=0.0
    ),
    'sum_query': lambda: DP(
        tfp.GaussianSumQuery(l2_norm_clip=3.0, stddev=0.0)
    ),
    'query_of_quantile': lambda: DP(tfp.NormalizedQuery(
        tfp.QuantileAdaptiveClipSumQuery(
            noise_multiplier=0.0, initial_l2_norm_clip=3.0,
            target_unclipped_quantile=0.7, learning_rate=0.5,
            clipped_count_stddev=0.0, expected_num_records=5,
            geometric_update=True,
        ), denominator=5,
    )),
}


@pytest.mark.parametrize('name', NOISELESS)
def test_without_noise(name):
  aggregation.rounds(NOISELESS[name]())


def _noise_in_result(factory, call):
  """Returns the result, float32[1000], for clients that send zeros."""
  process = factory.create(tff.TensorType(np.float32, [1000]))
  state = agree_lib.on_native(process.initialize)
  zeros = [np.zeros([1000], np.float32)] * 4
  return [call(process.next, state, zeros) for _ in range(2)]


def test_gaussian_noise():
  """Standard deviation multiplier * clip / clients; new in every round.

  1,000 draws: the relative error of the deviation is 1 / sqrt(2000) = 2.2 %,
  five of these are 11 %.
  """
  factory = DP.gaussian_fixed(2.0, 4, 3.0)
  for call in (agree_lib.on_native, agree_lib.on_fused):
    first, second = (
        output.result for output in _noise_in_result(factory, call)
    )
    for noise in (first, second):
      assert abs(noise.std() / (2.0 * 3.0 / 4) - 1) < 0.11
      assert abs(noise.mean()) < 5 * (2.0 * 3.0 / 4) / np.sqrt(1000)
    assert not np.array_equal(first, second)


def test_adaptive_clipping_with_noise():
  """What is zeroed has no noise in it."""
  process = tff.learning.dp_aggregator(0.5, 50).create(aggregation.VALUE)
  state = agree_lib.agree(process.initialize)
  native, fused = (
      call(process.next, state, aggregation.values())
      for call in (agree_lib.on_native, agree_lib.on_fused)
  )
  for name in ('zeroing_norm', 'zeroed_count'):
    agree_lib.assert_equal(
        fused.measurements[name], native.measurements[name]
    )


@pytest.mark.slow
def test_tree_aggregation():
  """Its noise is a function of the seed in the state."""
  specs = tf.nest.map_structure(
      lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype),
      aggregation.values(1)[0],
  )
  aggregation.rounds(
      DP.tree_aggregation(1.0, 5, 3.0, record_specs=specs, noise_seed=7),
      num_rounds=3,
  )
