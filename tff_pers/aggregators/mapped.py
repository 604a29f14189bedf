"""Aggregates the results of a function of each client's value."""

from tff_pers import tff


def map_first(
    fn: tff.Computation, process: tff.templates.AggregationProcess
) -> tff.templates.AggregationProcess:
  """Returns the process that applies `fn` to every value, then `process`.

  Args:
    fn: (value -> V), without placements.
    process: Aggregates {V} with weights.
  """
  state_type, _, weight_type = process.next.type_signature.parameter

  @tff.federated_computation(
      state_type,
      tff.FederatedType(fn.type_signature.parameter, tff.CLIENTS),
      weight_type,
  )
  def next_fn(state, value, weight):
    return process.next(state, tff.federated_map(fn, value), weight)

  return tff.templates.AggregationProcess(process.initialize, next_fn)
