"""Clients of weight 0 are absent, in aggregators without weights too.

A client that was dropped, or that has no examples, still stands in the cohort
of TFF's federated computation. A weighted mean leaves it out by itself; an
unweighted one would count it, and make the step of the others smaller.
"""

import numpy as np
import tensorflow as tf

from tff_pers import tff


def leave_out_absent(
    factory: tff.aggregators.WeightedAggregationFactory
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns a weighted factory in which a client of weight 0 is absent.

  A weighted `factory` is returned as it is, because it deals with weights of 0
  itself. An unweighted one ignores the weights of those who are present.

  Where it divides by the number of clients (`UnweightedMeanFactory`, also
  inside of others, such as clipping), its result is multiplied by
  clients / clients present.

  For all others (sums, also with noise) sending zeros is to be absent. A rule
  that is no sum has to be a weighted factory, as those of `robust` are.

  Without anybody present the result is zero.

  One thing is out of reach. TFF's adaptive clipping and zeroing take the norms
  of all clients of the cohort into their estimate, weighted or not, so that the
  zeros of those who are absent or were dropped vote for a smaller bound. The
  fixed denominator of a differentially private mean does not shrink either.

  Args:
    factory: Any TFF aggregation factory.
  """
  if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
    return factory
  return _PresentOnlyFactory(factory)


def build_is_present(weight_type: tff.Type) -> tff.Computation:
  """Returns (weight -> int32): 1 if the client is present, else 0."""
  # A weight may be a vector, see `router`; any part counts as present.
  return tff.tensorflow.computation(
      lambda weight: tf.cast(tf.reduce_any(weight > 0), tf.int32), weight_type
  )


def divides_by_clients(process: tff.templates.AggregationProcess) -> bool:
  """Returns whether there is a mean over all clients of the cohort in it.

  TFF's factories do not say so. But `UnweightedMeanFactory` counts the clients,
  and measures what its count measures (nothing, for a plain sum); whatever
  wraps it passes its measurements on.
  """
  measured = process.next.type_signature.result.measurements.member
  return has_field(measured, 'mean_count')


def has_field(given: tff.Type, field: str) -> bool:
  """Returns whether a type has a field of this name, however deep."""
  return isinstance(given, tff.StructType) and any(
      name == field or has_field(member, field)
      for name, member in tff.structure.iter_elements(given)
  )


class _PresentOnlyFactory(tff.aggregators.WeightedAggregationFactory):
  """See `leave_out_absent`."""

  def __init__(self, inner: tff.aggregators.UnweightedAggregationFactory):
    self._inner = inner

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    inner = self._inner.create(value_type)
    divides = divides_by_clients(inner)
    is_present = build_is_present(weight_type)

    @tff.tensorflow.computation(value_type, np.int32)
    def message(value, present):
      return tf.nest.map_structure(
          lambda x: tf.where(present > 0, x, tf.zeros_like(x)), value
      )

    @tff.tensorflow.computation
    def one():
      return tf.constant(1)

    result_type = inner.next.type_signature.result['result'].member

    @tff.tensorflow.computation(result_type, np.int32, np.int32)
    def over_present(result, num_clients, num_present):
      return tf.nest.map_structure(
          lambda x: _rescale(x, num_clients, num_present), result
      )

    @tff.federated_computation(
        inner.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      present = tff.federated_map(is_present, weight)
      output = inner.next(state, tff.federated_map(message, (value, present)))
      result = output.result
      # The inner mean is sum / clients, in which the absent are counted but add
      # 0. This turns it into sum / clients present.
      if divides:
        num_clients = tff.federated_sum(tff.federated_eval(one, tff.CLIENTS))
        result = tff.federated_map(
            over_present, (result, num_clients, tff.federated_sum(present))
        )
      return tff.templates.MeasuredProcessOutput(
          output.state, result, output.measurements
      )

    return tff.templates.AggregationProcess(inner.initialize, next_fn)


def _rescale(x, num_clients, num_present):
  """Returns x * num_clients / num_present; unchanged if all are present."""
  if not x.dtype.is_floating:
    return x
  factor = tf.math.divide_no_nan(
      tf.cast(num_clients, tf.float64), tf.cast(num_present, tf.float64)
  )
  return x * tf.cast(factor, x.dtype)
