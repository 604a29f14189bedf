"""Measures the dispersion of the clients' values in a round."""

import collections

import numpy as np
import tensorflow as tf

from tff_pers import tff


class DispersionFactory(tff.aggregators.WeightedAggregationFactory):
  """A weighted mean that also measures the dispersion of the values.

    dispersion = sum_k a_k ||x_k - x||^2 / sum_k a_k,   x = mean of the x_k

  where ||.|| is the l2 norm over all leaves together. It is computed as the
  mean of ||x_k||^2 minus ||x||^2, so that one pass over the clients is enough,
  with an error of about 1e-7 ||x||^2 in float32.

  `next`: <S@SERVER, {V}@CLIENTS, {float32}@CLIENTS> -> <state=S, result=V,
  measurements=<dispersion=float32, mean=M>>@SERVER, with S and M those of TFF's
  mean. Without any weight both are 0.
  """

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of what a client sends.
      weight_type: TFF type of its weight.
    """
    means = tff.aggregators.MeanFactory(no_nan_division=True)
    mean = means.create(value_type, weight_type)
    mean_of_scalars = means.create(tff.TensorType(np.float64), weight_type)

    @tff.tensorflow.computation(value_type)
    def squared_norm(value):
      return _squared_norm(value)

    @tff.tensorflow.computation(np.float64, value_type)
    def dispersion(mean_square, center):
      # If all values are equal, rounding may leave a small negative number.
      spread = tf.maximum(mean_square - _squared_norm(center), 0)
      return tf.cast(spread, tf.float32)

    @tff.federated_computation(
        mean.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      output = mean.next(state, value, weight)
      squares = tff.federated_map(squared_norm, value)
      mean_square = mean_of_scalars.next(
          mean_of_scalars.initialize(), squares, weight
      ).result
      measured = collections.OrderedDict(
          dispersion=tff.federated_map(
              dispersion, (mean_square, output.result)
          ),
          mean=output.measurements,
      )
      return tff.templates.MeasuredProcessOutput(
          output.state, output.result, tff.federated_zip(measured)
      )

    return tff.templates.AggregationProcess(mean.initialize, next_fn)


def _squared_norm(value):
  """Returns the sum of squares over all leaves, float64."""
  return tf.add_n([
      tf.reduce_sum(tf.square(tf.cast(leaf, tf.float64)))
      for leaf in tf.nest.flatten(value)
  ])
