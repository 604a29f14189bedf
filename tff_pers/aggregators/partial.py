"""The mean of each coordinate over the clients that have it.

HeteroFL: Computation and Communication Efficient Federated Learning for
Heterogeneous Clients
    Diao, Ding, Tarokh. ICLR 2021.
"""

from typing import Optional

import tensorflow as tf

from tff_pers import tff


class PartialMeanFactory(tff.aggregators.WeightedAggregationFactory):
  """Averages updates in which every client has only some coordinates.

  A value is `<kept, update>`, two structures of floats of the same shapes:
  `kept` is 1 where the client has a coordinate and 0 where it does not; there
  its update must be 0. The result is like `update`,

      sum_i a_i update_i[p] / sum_i a_i kept_i[p]    for every coordinate p

  and 0 where no client has it, so that a server that subtracts it leaves such a
  coordinate unchanged. If all clients have all coordinates, it is the inner
  mean.

  `next`: <S@SERVER, {V}@CLIENTS, {float32}@CLIENTS> -> <state=S, result=R,
  measurements=M>@SERVER, S and M those of the inner mean.
  """

  def __init__(
      self,
      mean_factory: Optional[
          tff.aggregators.WeightedAggregationFactory
      ] = None,
  ):
    """Initializes the factory.

    Args:
      mean_factory: A weighted mean of both fields. None: TFF's, zeros if all
        weights are 0.
    """
    self._mean_factory = mean_factory or tff.aggregators.MeanFactory(
        no_nan_division=True
    )

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of what a client sends, see the class.
      weight_type: TFF type of its weight.

    Raises:
      TypeError: If `value_type` does not have the form described above.
    """
    _check_type(value_type)
    mean = self._mean_factory.create(value_type, weight_type)
    result_type = mean.next.type_signature.result['result'].member

    @tff.tensorflow.computation(result_type)
    def over_owners(result):
      update, kept = result['update'], result['kept']
      return tf.nest.pack_sequence_as(update, list(map(
          tf.math.divide_no_nan, tf.nest.flatten(update), tf.nest.flatten(kept)
      )))

    @tff.federated_computation(
        mean.initialize.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      output = mean.next(state, value, weight)
      return tff.templates.MeasuredProcessOutput(
          output.state, tff.federated_map(over_owners, output.result),
          output.measurements,
      )

    return tff.templates.AggregationProcess(mean.initialize, next_fn)


def _check_type(value_type: tff.Type) -> None:
  """Raises the errors that `create` documents."""
  names = (
      tff.structure.name_list(value_type)
      if isinstance(value_type, tff.StructType) else []
  )
  # TFF treats lists and tuples of the same tensors as equal.
  if sorted(names) != ['kept', 'update'] or not (
      value_type['kept'].is_equivalent_to(value_type['update'])
  ):
    raise TypeError(
        '`value_type` must be a structure <kept, update> of two structures of'
        f' the same type, found {value_type}.'
    )
