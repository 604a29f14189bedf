"""A computation as a straight line, without what takes a detour."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_pers.runtime import line

_VALUES = tff.FederatedType(np.int32, tff.CLIENTS)
_SUMS = {
    'plain': lambda x: tff.federated_sum(x),
    'secure': lambda x: tff.federated_secure_sum(x, 9),
    'bits': lambda x: tff.federated_secure_sum_bitwidth(x, 9),
}


@pytest.mark.parametrize('name', _SUMS)
def test_the_only_aggregation_is_federated_aggregate(name):
  computation = tff.federated_computation(_SUMS[name], _VALUES)
  found = str(line.lowered(computation))
  assert 'federated_aggregate(' in found
  assert '_sum' not in found


def test_only_secure_sums_are_converted_twice(monkeypatch):
  """It would take as long again as all else."""
  computations = [
      tff.federated_computation(_SUMS[name], _VALUES)
      for name in ('plain', 'secure')
  ]
  converted = []
  replace = tff.backends.test.replace_secure_intrinsics_with_bodies
  monkeypatch.setattr(
      tff.backends.test, 'replace_secure_intrinsics_with_bodies',
      lambda x: converted.append(x) or replace(x),
  )
  for computation in computations:
    line.lowered(computation)
  assert converted == computations[1:]
