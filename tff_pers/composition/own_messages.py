"""Messages that differ from client to client: `send` of `compose`."""

import collections
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling
from tff_pers.composition import dispatch
from tff_pers.core import traces
from tff_pers import tff


class Row(NamedTuple):
  """Sends each client its own message, instead of a broadcast.

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
    # A row passes through a sequence, and TFF's worker fails at run time on a
    # sequence of structures whose fields are not sorted by name.
    fields = dispatch.fields_of(state, self.select(state, index))
    return collections.OrderedDict(sorted(fields.items()))


class OfCohort(NamedTuple):
  """Sends each client its own message, which depends on the whole cohort.

  Clients that deploy form no cohort: they are sent only the seed and the round.

  Attributes:
    prepare: `(S, cohort) -> V`, a TensorFlow function; the cohort is int32[m],
      the sorted indices of the clients that take part in the round.
    num_clients: Indices are 0..num_clients - 1.
    select: `(V, place) -> fields`, a TensorFlow function: the message of client
      cohort[place].
  """

  prepare: Callable[[Any, Any], Any]
  num_clients: int
  select: Callable[[Any, Any], Mapping[str, Any]] = lambda value, place: (
      tf.nest.map_structure(lambda rows: rows[place], value)
  )

  @property
  def of_cohort(self) -> bool:
    """See `dispatch.is_of_cohort`."""
    return True

  def message_type(self, state_type: tff.Type) -> tff.Type:
    """See `dispatch.Own`."""
    return self.build(state_type).type_signature.result.member

  def build(self, state_type: tff.Type) -> tff.Computation:
    """See `dispatch.Own`."""

    @traces.tensorflow_computation(
        state_type, tff.TensorType(np.int32, [None])
    )
    def prepared(state, keys):
      cohort = tf.sort(keys)
      return collections.OrderedDict(
          cohort=cohort, round=state['round'], seed=state['seed'],
          value=self.prepare(state, cohort),
      )

    def message(prepared, index):
      place = tf.searchsorted(prepared['cohort'], index[None])[0]
      fields = dispatch.fields_of(
          prepared, self.select(prepared['value'], place)
      )
      return collections.OrderedDict(sorted(fields.items()))  # As in `Row`.

    fetch = shuffling.build_fetch(
        prepared.type_signature.result, message, self.num_clients
    )
    as_row = tff.tensorflow.computation(lambda index: index[None], np.int32)

    @tff.federated_computation(
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(np.int32, tff.CLIENTS),
    )
    def dispatch_to_cohort(state, index):
      keys = shuffling.collect(
          tff.federated_map(as_row, index), self.num_clients
      )
      return fetch(tff.federated_map(prepared, (state, keys)), index)

    return dispatch_to_cohort


class Numbered(NamedTuple):
  """Sends the same fields to all, and a different number to each client.

  Attributes:
    fields: `S -> fields`, a TensorFlow function.
    number: Name of one of the fields, an int32 scalar: each client gets it plus
      its place in the cohort, 0 to m - 1, in the order of the indices.
    num_clients: Number of clients.
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
