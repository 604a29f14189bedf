"""The private mean: clipped as a whole, divided by m, and alone in a method."""

import numpy as np
import pytest
import tensorflow_federated as tff

from baselines import ditto
from baselines import fedavg
from baselines import scaffold
from tff_pers.aggregators import private_mean
from tff_pers.algorithms import floral
from tff_pers.config import methods
from tff_pers.testing import tiny

_TYPE = tff.to_type((tff.TensorType(np.float32, [2]), np.float32))


def _process(**options):
  rule = private_mean.PrivateMean(clients=4, **options)
  return private_mean.build_factory(rule.text).create(
      _TYPE, tff.TensorType(np.float32)
  )


def test_updates_are_clipped_as_a_whole_and_divided_by_the_cohort():
  process = _process(noise_multiplier=0.0, clip=1.0)
  values = [
      (np.float32([3, 0]), np.float32(4)), (np.float32([0.1, 0.2]), np.float32(0)),
      (np.float32([7, 7]), np.float32(7)),
  ]
  # The last one is absent; it counts in the denominator, as the fourth does.
  result = process.next(
      process.initialize(), values, [np.float32(w) for w in (9, 1, 0)]
  ).result
  np.testing.assert_allclose(result[0], [(0.6 + 0.1) / 4, 0.2 / 4], rtol=1e-6)
  np.testing.assert_allclose(result[1], 0.8 / 4, rtol=1e-6)


def test_without_a_norm_it_is_learned():
  """From 0.1, by exp(0.2 (1/2 - b)), b the share below it, here 0.

  b has noise of 1/20, the norm of 1 %: five of these.
  """
  process = _process(noise_multiplier=0.0)
  state, sums = process.initialize(), []
  for _ in range(2):
    output = process.next(
        state, [(np.float32([3, 0]), np.float32(4))] * 4, [np.float32(1)] * 4
    )
    state = output.state
    sums.append(float(output.result[1]))
  np.testing.assert_allclose(sums[0], 0.1 * 4 / 5, rtol=1e-6)
  np.testing.assert_allclose(sums[1], np.exp(0.1) * sums[0], rtol=0.05)


def test_noise_is_in_proportion_to_the_clipping_norm():
  """Of 600 draws the deviation is known to 3 %; five of these are 15 %."""
  wide = tff.to_type(tff.TensorType(np.float32, [600]))
  rule = private_mean.PrivateMean(noise_multiplier=2.0, clients=4, clip=0.5)
  process = private_mean.build_factory(rule.text).create(
      wide, tff.TensorType(np.float32)
  )
  result = process.next(
      process.initialize(), [np.zeros(600, np.float32)] * 4, [np.float32(1)] * 4
  ).result
  assert np.std(result) == pytest.approx(2.0 * 0.5 / 4, rel=0.15)


@pytest.mark.parametrize('module, takes', [
    (fedavg, True), (ditto, True), (scaffold, False), (floral, False),
])
def test_a_method_whose_mean_is_not_all_that_is_sent_is_known(module, takes):
  method = methods.get(module.__name__.rpartition('.')[2])
  rule = private_mean.PrivateMean(1.0, 5)
  process = method.build(tiny.task(), method.hyperparameters(aggregator=rule.text))
  assert private_mean.takes_all(process) is takes
