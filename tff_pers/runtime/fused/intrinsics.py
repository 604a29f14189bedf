"""What TFF's intrinsics compute at one place: the server, or one client."""

from typing import Any, Callable

import tensorflow as tf

from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import sequences
from tff_pers import tff

AGGREGATE = 'federated_aggregate'
_SELECT = ('federated_select', 'federated_secure_select')
# These return their argument; only the placement in its type changes.
_PASS = (
    'federated_broadcast', 'federated_value_at_server',
    'federated_value_at_clients', 'federated_zip_at_server',
    'federated_zip_at_clients',
)
_APPLY = ('federated_map', 'federated_map_all_equal', 'federated_apply')
_EVAL = ('federated_eval_at_server', 'federated_eval_at_clients')


def function(block: tff.framework.Intrinsic) -> Callable[[Any], Any]:
  """Returns what an intrinsic computes at one place.

  Raises:
    Unsupported: If the intrinsic is unknown.
  """
  uri = block.uri
  if uri in _PASS:
    return lambda value: value
  if uri in _APPLY:
    return lambda argument: argument[0](argument[1])
  if uri in _EVAL:
    return lambda function: function()
  if uri in _SELECT:
    key_type = block.type_signature.parameter[0].member
    result = block.type_signature.result.member
    return lambda argument: _select(argument, key_type, result.element)
  if uri in ('sequence_map', 'sequence_reduce'):
    types = block.type_signature
    return lambda argument: _SEQUENCE[uri](argument, types)
  raise sequences.Unsupported(
      f'The fused runtime does not know the intrinsic {uri}.'
  )


def _select(argument, key_type, element_type):
  """Returns the sequence of the slices at the keys, int32[k]."""
  keys, _, value, function = argument  # The second only bounds the keys.
  if None in key_type.shape:
    raise sequences.Unsupported('The number of selected keys must be static.')
  slices = [
      sequences.flatten(function((value, keys[j])), element_type)
      for j in range(key_type.shape[0])
  ]
  segment = tuple(packing.Rows(tf.stack(column)) for column in zip(*slices))
  return sequences.Sequence((segment,), element_type)


def _sequence_map(argument, types):
  function, sequence = argument
  element = types.parameter[1].element
  out = types.result.element
  dataset = sequence.dataset.map(
      lambda *e: tuple(sequences.flatten(
          function(sequences.unflatten(e, element)), out
      ))
  )
  return sequences.Sequence(
      None, out, tf.data.experimental.to_variant(dataset)
  )


def _sequence_reduce(argument, types):
  sequence, zero, step = argument
  element, state_type = types.parameter[0].element, types.parameter[1]

  def flat_step(state, e):
    return sequences.flatten(
        step((
            sequences.unflatten(state, state_type),
            sequences.unflatten(e, element),
        )),
        state_type,
    )

  state = sequence.reduce(
      sequences.flatten(zero, state_type), flat_step,
      [tf.TensorShape(t.shape) for t in sequences.flat_types(state_type)],
  )
  return sequences.unflatten(state, state_type)


_SEQUENCE = {'sequence_map': _sequence_map, 'sequence_reduce': _sequence_reduce}
