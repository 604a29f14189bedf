"""The server state S of a method, and how it is initialized.

S is `seed` (int64), `round` (int32), `aggregator` (the aggregator's own state),
then the method's fields.
"""

import collections
from typing import Any, Callable, Mapping, Optional

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import seeding
from tff_pers import tff


def own_fields(init: Callable[[Any], Mapping[str, Any]]) -> tff.Computation:
  """Returns (int64 -> fields), `init` as a computation."""
  return tff.tensorflow.computation(
      lambda seed: collections.OrderedDict(init(seed)), np.int64
  )


def state_type(
    fields: tff.Computation, aggregator_type: tff.Type = ()
) -> tff.StructType:
  """Returns S.

  Args:
    fields: See `own_fields`.
    aggregator_type: Type of the aggregator's state.
  """
  own = fields.type_signature.result
  return tff.to_type(
      collections.OrderedDict(
          seed=np.int64, round=np.int32, aggregator=aggregator_type,
          **dict(tff.structure.iter_elements(own)),
      )
  )


def build_initialize(
    init: Callable[[Any], Mapping[str, Any]],
    aggregation: Optional[tff.templates.AggregationProcess] = None,
) -> tff.Computation:
  """Returns `initialize_seeded`: (int64@SERVER -> S@SERVER).

  Args:
    init: `seed -> fields`, the method's own fields of S in order.
    aggregation: Its initial state is the field `aggregator`; None: `()`.
  """
  fields = own_fields(init)
  inner = () if aggregation is None else (
      aggregation.initialize.type_signature.result.member
  )

  @tff.tensorflow.computation(
      np.int64, inner, fields.type_signature.result
  )
  def assemble(seed, aggregator_state, own):
    return collections.OrderedDict(
        seed=seed,
        round=tf.constant(0, tf.int32),
        # TFF initializes aggregators without a seed, so it is added here.
        aggregator=seeding.seed_state(aggregator_state, seed),
        **own,
    )

  @tff.tensorflow.computation
  def empty():
    return ()

  @tff.federated_computation(tff.FederatedType(np.int64, tff.SERVER))
  def initialize_seeded(seed):
    aggregator_state = (
        tff.federated_eval(empty, tff.SERVER)
        if aggregation is None
        else aggregation.initialize()
    )
    return tff.federated_map(
        assemble, (seed, aggregator_state, tff.federated_map(fields, seed))
    )

  return initialize_seeded
