"""Values for attacked factories, and what a server receives of them."""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import attacks
from tff_pers.aggregators import shuffling
from tff_pers.numerics import attacks_adaptive

# Of a message <float32[2], float64[1]>.
UPDATE = tff.to_type([(np.float32, [2]), (np.float64, [1])])
WEIGHT = tff.TensorType(np.float32)


class Factory(tff.aggregators.WeightedAggregationFactory):
  """Its result are the updates [n, ...] and weights [n] that came, in order."""

  def create(self, value_type, weight_type):
    as_rows = tff.tensorflow.computation(
        lambda value, weight: tf.nest.map_structure(
            lambda x: x[None], (value, weight)
        ),
        value_type, weight_type,
    )
    collect = shuffling.RowCollectionFactory(8).create(
        as_rows.type_signature.result
    )

    @tff.federated_computation(
        collect.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      return collect.next(state, tff.federated_map(as_rows, (value, weight)))

    return tff.templates.AggregationProcess(collect.initialize, next_fn)


def value_type(update_type=UPDATE):
  return tff.to_type(collections.OrderedDict(
      update=update_type, byzantine=np.bool_, index=np.int32, place=np.float64
  ))


def create(text, factory=None, rule=attacks_adaptive.Mean(), window=0):
  """Returns the process of the attack with that text."""
  return attacks.attacked(
      factory or Factory(), attacks.parse(text), rule, window
  ).create(value_type(), WEIGHT)


def cohort(messages, byzantine, indices=None):
  """Returns the values of clients; message k is a float64[3]."""
  count = len(messages)
  indices = range(count) if indices is None else indices
  return [
      collections.OrderedDict(
          update=[
              np.array(message[:2], np.float32),
              np.array(message[2:], np.float64),
          ],
          byzantine=np.bool_(is_bad), index=np.int32(index), place=place,
      )
      for message, is_bad, index, place in zip(
          messages, byzantine, indices, places(byzantine)
      )
  ]


def places(byzantine):
  """Returns the places of attackers among them, as `attack.Sender` has them."""
  number = np.cumsum(byzantine)
  return (number - 0.5) / max(number[-1], 1)


def start(process, seed=5):
  """Returns the first state, with the key of a run."""
  state = process.initialize()
  state['seed'] = np.array([seed, 0], np.int64)
  return state


def rows(output):
  """Returns (float64[n, 3], weights) of the result of `Factory`."""
  (first, second), weights = output.result
  return np.concatenate([np.float64(first), second], axis=1), weights
