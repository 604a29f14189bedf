"""Means of an update whose fields have their own weights."""

from typing import Optional

from tff_pers import tff


class EntryWeightFactory(tff.aggregators.WeightedAggregationFactory):
  """Passes one entry of vector-valued client weights to a factory.

  In a `StructureFactory` all fields get the same weight. If a client has
  several, say a_k for its model and n_k for its statistics, they are sent as
  one vector, and each field uses its own entry:

      StructureFactory(dict(
          model=EntryWeightFactory(0), statistics=EntryWeightFactory(1)))

  `next`: <S@SERVER, {V}@CLIENTS, {float32[m]}@CLIENTS> -> that of the inner
  factory with the weights float32@CLIENTS.
  """

  def __init__(
      self,
      entry: int,
      inner: Optional[tff.aggregators.WeightedAggregationFactory] = None,
  ):
    """Initializes the factory.

    Args:
      entry: Index of the entry.
      inner: The weighted factory; None: a plain mean, zeros if all weights are
        0.
    """
    self._entry = entry
    self._inner = inner or tff.aggregators.MeanFactory(no_nan_division=True)

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of what a client sends.
      weight_type: TFF type of its weights, a vector of floats.

    Raises:
      TypeError: If the weights are not vectors with such an entry.
    """
    is_vector = (
        isinstance(weight_type, tff.TensorType) and len(weight_type.shape) == 1
    )
    if not is_vector or not 0 <= self._entry < weight_type.shape[0]:
      raise TypeError(
          f'`weight_type` must be a vector with an entry {self._entry}, found'
          f' {weight_type}.'
      )
    inner = self._inner.create(value_type, tff.TensorType(weight_type.dtype))

    @tff.tensorflow.computation(weight_type)
    def pick(weight):
      return weight[self._entry]

    @tff.federated_computation(
        inner.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      return inner.next(state, value, tff.federated_map(pick, weight))

    return tff.templates.AggregationProcess(inner.initialize, next_fn)
