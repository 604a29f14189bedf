"""Makes clients of weight 0 absent, also in unweighted aggregators.

A client that was dropped or has no examples is still part of the cohort in
TFF's federated computation. A weighted mean ignores it, but an unweighted one
would count it and so shrink the step of the others.
"""

import numpy as np
import tensorflow as tf

from tff_pers import tff


def leave_out_absent(
    factory: tff.aggregators.WeightedAggregationFactory
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns a weighted factory in which a client of weight 0 is absent.

  A weighted `factory` is returned unchanged, because it handles weights of 0
  itself. An unweighted one ignores the weights of the clients that are present.

  If it divides by the number of clients (`UnweightedMeanFactory`, also inside
  others, such as clipping), its result is multiplied by
  clients / clients present.

  For all others (sums, also with noise), sending zeros is equivalent to being
  absent. A rule that is not a sum must be a weighted factory, as those of
  `robust` are. If no client is present, the result is zero.

  One limitation: TFF's adaptive clipping and zeroing estimate bounds from the
  norms of all clients of the cohort, weighted or not, so zeros of absent or
  dropped clients lower the bound. The fixed denominator of a differentially
  private mean does not shrink either.

  Args:
    factory: Any TFF aggregation factory.
  """
  if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
    return factory
  return _PresentOnlyFactory(factory)


def build_is_present(weight_type: tff.Type) -> tff.Computation:
  """Returns (weight -> int32): 1 if the client is present, else 0."""
  # A weight may be a vector, see `router`; any positive entry means present.
  return tff.tensorflow.computation(
      lambda weight: tf.cast(tf.reduce_any(weight > 0), tf.int32), weight_type
  )


def divides_by_clients(process: tff.templates.AggregationProcess) -> bool:
  """Returns whether the process contains a mean over all clients.

  TFF's factories do not tell. But `UnweightedMeanFactory` counts the clients
  and reports the measurements of this count (empty, for a plain sum), and
  factories that wrap it pass its measurements on.
  """
  measured = process.next.type_signature.result.measurements.member
  return has_field(measured, 'mean_count')


def has_field(given: tff.Type, field: str) -> bool:
  """Returns whether a type has a field of this name at any depth."""
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
      # The inner mean is sum / clients, where absent clients count but add 0.
      # This turns it into sum / clients present.
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
