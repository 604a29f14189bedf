"""Secure sums: the reference is TFF's test context.

The native runtime puts the bodies of `tff.backends.test` in place of secure
sums, as TFF's test context does (one process of TFF is enough for the tests).
"""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.conformance import aggregation
from tests.conformance import agree as agree_lib
from tests.conformance import cases
from tff_pers.runtime import errors

agree = agree_lib.agree
aggregators = tff.aggregators
INTEGERS = tff.to_type(collections.OrderedDict(
    b=tff.TensorType(np.int32, [3]), a=np.int32
))


def _quantile():
  return aggregators.PrivateQuantileEstimationProcess.no_noise(
      initial_estimate=2.0, target_quantile=0.8, learning_rate=1.0,
      secure_estimation=True,
  )


FLOATS = {
    'sum': lambda: aggregators.SecureSumFactory(8.0, -8.0),
    'sum_symmetric': lambda: aggregators.SecureSumFactory(8.0),
    'sum_adaptive': lambda: aggregators.SecureSumFactory(_quantile()),
    'mean': lambda: aggregators.MeanFactory(
        aggregators.SecureSumFactory(50.0), aggregators.SecureSumFactory(16.0)
    ),
    'secure_aggregator': tff.learning.secure_aggregator,
}


@pytest.mark.parametrize('name', cases.cases(
    FLOATS, fast=['sum', 'sum_symmetric', 'sum_adaptive']
))
def test_sums_of_floats(name):
  aggregation.rounds(FLOATS[name]())


SUMS_OF_INTEGERS = {
    'sum': lambda: aggregators.SecureSumFactory(500, -500),
    'modular': lambda: aggregators.SecureModularSumFactory(64),
    'modular_symmetric': lambda: aggregators.SecureModularSumFactory(64, True),
}


@pytest.mark.parametrize('num_clients', [0, 1, 5])
@pytest.mark.parametrize('name', SUMS_OF_INTEGERS)
def test_sums_of_integers(name, num_clients):
  """Values beyond the bounds are clipped, or wrap around."""
  aggregation.rounds(
      SUMS_OF_INTEGERS[name](), INTEGERS, num_rounds=1,
      num_clients=num_clients,
  )


def test_intrinsics():
  @tff.federated_computation(tff.FederatedType(INTEGERS, tff.CLIENTS))
  def computation(values):
    return (
        tff.federated_secure_sum(values, 1000),
        tff.federated_secure_sum_bitwidth(values.a, 12),
    )

  values = [((1, 2, 3), 4), ((0, 999, 5), 7)]
  agree(computation, values)
  too_large = [((1000, 1001, 2000), 5000)]
  with pytest.raises(errors.ComputationError, match='larger than maximum'):
    agree(computation, too_large)


def test_quantized_sum():
  @tff.federated_computation(
      tff.FederatedType(aggregation.VECTOR, tff.CLIENTS)
  )
  def computation(values):
    return aggregators.secure_quantized_sum(
        values, np.float32(-3.0), np.float32(3.0)
    )

  agree(computation, aggregation.values(value_type=aggregation.VECTOR))
