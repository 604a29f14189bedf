"""Support: aggregation processes on both runtimes, round by round."""

import collections

import numpy as np
import tensorflow_federated as tff

from tests.conformance import agree as agree_lib

VALUE = tff.to_type(collections.OrderedDict(
    b=tff.TensorType(np.float32, [3]),
    a=(tff.TensorType(np.float32, [2, 4]), np.float32),
))
WEIGHT = tff.TensorType(np.float32)
VECTOR = tff.TensorType(np.float32, [33])


def values(num_clients=5, value_type=VALUE, seed=0):
  """Returns a value for every client, each about twice the one before."""
  rng = np.random.default_rng(seed)

  def value(scale):
    def draw(t):
      sample = scale * rng.normal(size=t.shape)
      if np.issubdtype(t.dtype, np.integer):
        sample = 10 * sample
      return np.asarray(sample, t.dtype)[()]
    return tff.types.structure_from_tensor_type_tree(draw, value_type)

  return [value(2.0**k) for k in range(num_clients)]


def weights(num_clients=5):
  return [np.float32(k + 1) for k in range(num_clients)]


def rounds(factory, value_type=VALUE, num_rounds=2, num_clients=5, **tolerances):
  """Aggregates for some rounds, each from the native state.

  Args:
    factory: Any aggregation factory of TFF.
    value_type: Of the clients' values.
    num_rounds: Number of rounds.
    num_clients: Size of the cohort.
    **tolerances: Of `agree`.

  Returns:
    The native outputs of all rounds.
  """
  is_weighted = isinstance(factory, tff.aggregators.WeightedAggregationFactory)
  types = (value_type, WEIGHT) if is_weighted else (value_type,)
  process = factory.create(*types)
  # Some states start from the clock.
  state = agree_lib.on_native(process.initialize)
  outputs = []
  for k in range(num_rounds):
    arguments = [values(num_clients, value_type, seed=k)]
    if is_weighted:
      arguments.append(weights(num_clients))
    output = agree_lib.agree(process.next, state, *arguments, **tolerances)
    state = output.state
    outputs.append(output)
  return outputs
