"""The aggregation of clients that send nothing."""

from tff_pers import tff


class NothingFactory(tff.aggregators.WeightedAggregationFactory):
  """Aggregates empty values; TFF's own factories refuse them."""

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process.

    Raises:
      TypeError: If the values are not empty.
    """
    if tff.structure.flatten(value_type):
      raise TypeError(f'`value_type` must be empty, found {value_type}.')

    @tff.federated_computation
    def init_fn():
      return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
        init_fn.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      del value, weight  # Both are unused.
      return tff.templates.MeasuredProcessOutput(
          state,
          tff.federated_value((), tff.SERVER),
          tff.federated_value((), tff.SERVER),
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)
