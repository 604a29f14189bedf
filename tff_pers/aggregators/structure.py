"""One aggregation factory for each field of the clients' values."""

import collections
from typing import Mapping, Union

from tff_pers.aggregators import absence
from tff_pers import tff

Factory = Union[
    tff.aggregators.UnweightedAggregationFactory,
    tff.aggregators.WeightedAggregationFactory,
]


class StructureFactory(tff.aggregators.WeightedAggregationFactory):
  """Combines the fields of an update by different rules.

  `next`: <S@SERVER, {V}@CLIENTS, {weight}@CLIENTS> -> <state=S, result=V',
  measurements=M>@SERVER, where V, V', S and M have the fields of the factories.
  All fields get the same weight; an unweighted rule ignores clients of weight 0
  (see `absence`).
  """

  def __init__(self, factories: Mapping[str, Factory]):
    """Initializes the factory.

    Args:
      factories: The rule of every field of the value, weighted or not.

    Raises:
      ValueError: If there are none.
    """
    if not factories:
      raise ValueError('`factories` must have a field, found none.')
    self._factories = collections.OrderedDict(
        (name, absence.leave_out_absent(factory))
        for name, factory in factories.items()
    )

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process.

    Raises:
      TypeError: If the fields of `value_type` are not those of the factories.
    """
    names = (
        tff.structure.name_list(value_type)
        if isinstance(value_type, tff.StructType)
        else []
    )
    if sorted(names) != sorted(self._factories):
      raise TypeError(
          '`value_type` must have the fields'
          f' {", ".join(sorted(self._factories))}, found {value_type}.'
      )
    processes = collections.OrderedDict(
        (name, factory.create(value_type[name], weight_type))
        for name, factory in self._factories.items()
    )

    @tff.federated_computation
    def init_fn():
      return tff.federated_zip(
          collections.OrderedDict(
              (name, process.initialize())
              for name, process in processes.items()
          )
      )

    @tff.federated_computation(
        init_fn.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      outputs = collections.OrderedDict(
          (name, process.next(state[name], value[name], weight))
          for name, process in processes.items()
      )
      return tff.templates.MeasuredProcessOutput(
          *(
              tff.federated_zip(
                  collections.OrderedDict(
                      (name, getattr(output, part))
                      for name, output in outputs.items()
                  )
              )
              for part in ('state', 'result', 'measurements')
          )
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)
