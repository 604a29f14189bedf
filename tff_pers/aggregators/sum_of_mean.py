"""Turns a robust estimate of a mean into a sum."""

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import absence
from tff_pers import tff


class SumOfMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """Multiplies a mean by the number of clients that are present.

  Robust rules estimate the mean of the honest clients. For a server that sums
  what clients send (Scaffold's variates), this gives an estimate of the sum.

  `next`: <S@SERVER, {V}@CLIENTS, {weight}@CLIENTS> -> <state=S, result=V,
  measurements=M>@SERVER with S and M of the inner factory.
  """

  def __init__(self, mean_factory: tff.aggregators.WeightedAggregationFactory):
    """Initializes the factory.

    Args:
      mean_factory: Estimates the mean; a client of weight 0 is absent.
    """
    self._mean_factory = mean_factory

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process."""
    mean = self._mean_factory.create(value_type, weight_type)
    is_present = absence.build_is_present(weight_type)
    result_type = mean.next.type_signature.result['result'].member

    @tff.tensorflow.computation(result_type, np.int32)
    def times(result, count):
      return tf.nest.map_structure(
          lambda x: x * tf.cast(count, x.dtype), result
      )

    @tff.federated_computation(
        mean.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      output = mean.next(state, value, weight)
      count = tff.federated_sum(tff.federated_map(is_present, weight))
      return tff.templates.MeasuredProcessOutput(
          output.state, tff.federated_map(times, (output.result, count)),
          output.measurements,
      )

    return tff.templates.AggregationProcess(mean.initialize, next_fn)
