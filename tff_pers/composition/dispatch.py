"""Builds the messages that the server sends to the clients of a cohort.

A message is `seed` and `round`, from which a client derives the keys of its
draws, and the method's fields: the same for all clients, with a number that
differs between clients, or a separate row for each client.
"""

import collections
from typing import Any, Callable, Mapping, Protocol, Union

import numpy as np

from tff_pers import tff


class Own(Protocol):
  """Messages that differ from client to client, see `own_messages`."""

  def message_type(self, state_type: tff.Type) -> tff.Type:
    """Returns the type of what a client receives."""

  def build(self, state_type: tff.Type) -> tff.Computation:
    """Returns (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS)."""


Send = Union[Callable[[Any], Mapping[str, Any]], Own]


def is_of_cohort(send: Send) -> bool:
  """Whether messages depend on who else takes part in a round."""
  return getattr(send, 'of_cohort', False)


def build_broadcast(
    send: Callable[[Any], Mapping[str, Any]], state_type: tff.Type
) -> tff.Computation:
  """Returns (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS), equal for all.

  Args:
    send: `S -> fields`; the message is `seed`, `round` and these, sorted.
    state_type: S.
  """

  @tff.tensorflow.computation(state_type)
  def message(state):
    return fields_of(state, send(state))

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def broadcast(state, index):
    del index  # The same for all.
    return tff.federated_broadcast(tff.federated_map(message, state))

  return broadcast


def fields_of(state: Any, fields: Mapping[str, Any]) -> Mapping[str, Any]:
  """Returns the message: `<seed, round>` and the fields, sorted."""
  return collections.OrderedDict(
      seed=state['seed'], round=state['round'], **dict(sorted(fields.items()))
  )


def message_type(send: Any, state_type: tff.Type) -> tff.Type:
  """Returns the type of what a client receives."""
  if not callable(send):
    return send.message_type(state_type)
  return tff.tensorflow.computation(
      lambda state: fields_of(state, send(state)), state_type
  ).type_signature.result


def build_dispatch(send: Any, state_type: tff.Type) -> tff.Computation:
  """Returns (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS)."""
  if not callable(send):
    return send.build(state_type)
  return build_broadcast(send, state_type)


def one_by_one(dispatch: tff.Computation) -> tff.Computation:
  """Returns `dispatch` with one message per client, even if all are equal.

  If TFF knows that a value is equal at all clients, it returns one member
  rather than a list, which the next computation does not accept as one message
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
