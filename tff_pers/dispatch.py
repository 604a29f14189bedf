"""What the server sends to the clients of a cohort.

A message is `seed` and `round`, which the keys of a client's draws come from,
and what the method adds: the same for all, with a number of the client's own,
or each client's own row.
"""

import collections
from typing import Any, Callable, Mapping, NamedTuple, Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling


class Row(NamedTuple):
  """What is sent to each client alone, in the place of a broadcast.

  Attributes:
    select: `(S, index) -> message`, a TensorFlow function.
    num_clients: Indices are 0..num_clients - 1.
  """

  select: Callable[[Any, Any], Mapping[str, Any]]
  num_clients: int


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


Send = Union[Callable[[Any], Mapping[str, Any]], Row, Numbered]


def build_broadcast(
    send: Callable[[Any], Mapping[str, Any]], state_type: tff.Type
) -> tff.Computation:
  """Returns (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS), alike for all.

  Args:
    send: `S -> fields`; the message is `seed`, `round` and these, sorted.
    state_type: S.
  """

  @tff.tensorflow.computation(state_type)
  def message(state):
    return _message(state, send(state))

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def broadcast(state, index):
    del index  # The same for all.
    return tff.federated_broadcast(tff.federated_map(message, state))

  return broadcast


def build_numbering(send: Numbered, state_type: tff.Type) -> tff.Computation:
  """Returns (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS).

  Args:
    send: What is sent, and which field is numbered.
    state_type: S.
  """
  broadcast = build_broadcast(send.fields, state_type)
  message_type = broadcast.type_signature.result.member
  collect = shuffling.RowCollectionFactory(send.num_clients).create(
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
        message, **{send.number: message[send.number] + place}
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


def _message(state, fields):
  """Returns `<seed, round>` and the fields, sorted."""
  return collections.OrderedDict(
      seed=state['seed'], round=state['round'], **dict(sorted(fields.items()))
  )


def _own_message(row: Row):
  """Returns `(S, index) -> message`, all fields sorted.

  A row passes through a sequence, and TFF's worker fails at run time on
  structures in a sequence whose fields are not sorted by name.
  """
  def select(state, index):
    fields = _message(state, row.select(state, index))
    return collections.OrderedDict(sorted(fields.items()))
  return select


def message_type(send: Any, state_type: tff.Type) -> tff.Type:
  """Returns the type of what a client receives."""
  if isinstance(send, Row):
    return tff.tensorflow.computation(
        _own_message(send), state_type, np.int32
    ).type_signature.result
  if isinstance(send, Numbered):
    send = send.fields
  return tff.tensorflow.computation(
      lambda state: _message(state, send(state)), state_type
  ).type_signature.result


def build_dispatch(send: Any, state_type: tff.Type) -> tff.Computation:
  """Returns (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS)."""
  if isinstance(send, Row):
    return shuffling.build_fetch(
        state_type, _own_message(send), send.num_clients
    )
  if isinstance(send, Numbered):
    return build_numbering(send, state_type)
  return build_broadcast(send, state_type)


def one_by_one(dispatch: tff.Computation) -> tff.Computation:
  """Returns `dispatch` with one message per client, also where all are equal.

  If TFF knows that a value is equal at all clients, it returns one member and
  not a list, and then the next computation does not accept it as one message
  per client. `next` uses `dispatch` itself, where the extra map would only copy
  the message once per client.
  """
  message_type = dispatch.type_signature.result.member

  @tff.tensorflow.computation(message_type, np.int32)
  def of_client(message, index):
    del index  # Makes the result the client's own.
    return message

  @tff.federated_computation(*dispatch.type_signature.parameter)
  def dispatch_to_each(state, index):
    return tff.federated_map(of_client, (dispatch(state, index), index))

  return dispatch_to_each
