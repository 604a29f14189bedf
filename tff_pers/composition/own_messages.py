"""Messages of which each client gets one of its own: `send` of `compose`."""

import collections
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling
from tff_pers.composition import dispatch


class Row(NamedTuple):
  """What is sent to each client alone, in the place of a broadcast.

  Attributes:
    select: `(S, index) -> message`, a TensorFlow function.
    num_clients: Indices are 0..num_clients - 1.
  """

  select: Callable[[Any, Any], Mapping[str, Any]]
  num_clients: int

  def message_type(self, state_type: tff.Type) -> tff.Type:
    """See `dispatch.Own`."""
    return tff.tensorflow.computation(
        self._message, state_type, np.int32
    ).type_signature.result

  def build(self, state_type: tff.Type) -> tff.Computation:
    """See `dispatch.Own`."""
    return shuffling.build_fetch(state_type, self._message, self.num_clients)

  def _message(self, state, index):
    # A row passes through a sequence, and TFF's worker fails at run time on
    # structures in a sequence whose fields are not sorted by name.
    fields = dispatch.fields_of(state, self.select(state, index))
    return collections.OrderedDict(sorted(fields.items()))


class Numbered(NamedTuple):
  """What is sent to all, and to each client a number that it shares with none.

  Attributes:
    fields: `S -> fields`, a TensorFlow function.
    number: Name of one of the fields, an int32 scalar: each client gets it plus
      its own place in the cohort, 0 to m - 1, in the order of the indices.
    num_clients: How many clients there are.
  """

  fields: Callable[[Any], Mapping[str, Any]]
  number: str
  num_clients: int

  def message_type(self, state_type: tff.Type) -> tff.Type:
    """See `dispatch.Own`."""
    return dispatch.message_type(self.fields, state_type)

  def build(self, state_type: tff.Type) -> tff.Computation:
    """See `dispatch.Own`."""
    broadcast = dispatch.build_broadcast(self.fields, state_type)
    message_type = broadcast.type_signature.result.member
    collect = shuffling.RowCollectionFactory(self.num_clients).create(
        tff.TensorType(np.int32, [1])
    )

    @tff.tensorflow.computation(np.int32)
    def as_row(index):
      return index[None]

    @tff.tensorflow.computation(
        message_type, np.int32,
        collect.next.type_signature.result['result'].member,
    )
    def numbered(message, index, everybody):
      place = tf.reduce_sum(tf.cast(everybody < index, tf.int32))
      return collections.OrderedDict(
          message, **{self.number: message[self.number] + place}
      )

    @tff.federated_computation(
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(np.int32, tff.CLIENTS),
    )
    def number(state, index):
      rows = collect.next(
          collect.initialize(), tff.federated_map(as_row, index)
      ).result
      return tff.federated_map(
          numbered,
          (broadcast(state, index), index, tff.federated_broadcast(rows)),
      )

    return number
