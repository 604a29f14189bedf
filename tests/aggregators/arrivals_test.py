"""Messages that arrive together: their sum, and how old the oldest is."""

import collections

import numpy as np
import tensorflow_federated as tff

from tff_pers.aggregators import arrivals

_TYPE = tff.to_type(collections.OrderedDict(
    weights=((np.float32, [2]), np.float64), version=np.int32,
))


def test_sums_are_of_those_present_and_the_version_is_the_oldest():
  """Client 1 is absent, though its version is older than all others."""
  rng, versions = np.random.default_rng(0), [5, 1, 3, 4]
  vectors = rng.normal(size=[4, 2]).astype(np.float32)
  numbers, weights = rng.normal(size=4), np.float32([2, 0, 1, 0.5])
  process = arrivals.ArrivalsFactory().create(_TYPE, tff.TensorType(np.float32))
  result = process.next(
      process.initialize(), [
          collections.OrderedDict(weights=(a, b), version=np.int32(c))
          for a, b, c in zip(vectors, numbers, versions)
      ], list(weights),
  ).result
  vector, number = result['sum']['weights']
  np.testing.assert_allclose(vector, weights @ vectors, rtol=1e-6)
  np.testing.assert_allclose(number, weights @ numbers, rtol=1e-12)
  assert (result['weight'], result['count'], result['version']) == (3.5, 3, 3)
