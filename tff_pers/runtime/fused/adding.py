"""Fuses the accumulation of a vectorized batch of clients into one sum.

Folding messages one by one reads and writes the accumulator for each of them.
If an accumulator only adds messages up, this is one sum over the stacked
messages; if it adds products of two factors, one product of stacked factors.
"""

from typing import Any, Callable, Optional

import tensorflow as tf

from tff_pers.runtime.fused import client_loop
from tff_pers.runtime.fused import singles
from tff_pers.runtime.fused.values import structure
from tff_pers import tff


# What is added to a tensor of the accumulator: the position, in the message, of
# the tensor that is added, or the positions of v and u if v^T u is added.
_Term = tuple[int, ...]


def added(
    aggregate: client_loop.Aggregate, state: Any, messages: Any
) -> Optional[Any]:
  """Returns the accumulator after all messages; None if it is not just a sum.

  The messages of at least one client are stacked, in the structure of the
  aggregate's message type, and `state` is the accumulator before them.
  """
  terms = _terms(aggregate.accumulate, aggregate.type, aggregate.message_type)
  if terms is None:
    return None
  rows = structure.flatten(messages, aggregate.message_type)
  totals = [
      total + _sum([rows[leaf] for leaf in term])
      for total, term in zip(structure.flatten(state, aggregate.type), terms)
  ]
  return structure.unflatten(aggregate.type, totals)


def adds_products(accumulate: Callable[[Any], Any], types: tff.Type) -> bool:
  """Whether an accumulator adds up products of factors that clients send.

  `types` is the TFF type of the argument, (accumulator, message).
  """
  terms = _terms(accumulate, types[0], types[1])
  return terms is not None and any(len(term) > 1 for term in terms)


def _sum(rows):
  """Returns the sum of rows [clients, ...], or of products of v and u."""
  if len(rows) == 1:
    return tf.reduce_sum(rows[0], axis=0)
  v, u = (
      tf.reshape(leaf, [-1, leaf.shape[-1] or tf.shape(leaf)[-1]])
      for leaf in rows
  )
  return tf.matmul(v, u, transpose_a=True)


def _terms(accumulate, state_type, message_type) -> Optional[list[_Term]]:
  """Returns what `accumulate` adds to each tensor, None if it does not add."""
  types = [*structure.leaves(state_type), *structure.leaves(message_type)]
  if any(t.shape is None for t in types):
    return None
  inputs, outputs = singles.traced(accumulate, state_type, message_type, types)
  found = [
      _term(output, inputs, position, len(outputs))
      for position, output in enumerate(outputs)
  ]
  terms = [term for term in found if term is not None]
  return terms if len(terms) == len(found) else None


def _term(output, names, position: int, count: int) -> Optional[_Term]:
  """Returns what is added to tensor `position`, or None if not a sum."""
  op = singles.copied(output).op
  if op.type not in ('Add', 'AddV2'):
    return None
  state, term = map(singles.copied, op.inputs)
  # Equal shapes, so that adding does not broadcast a message.
  if state.name != names[position] or term.shape != state.shape:
    return None
  factors = [term]
  if term.op.type == 'MatMul':
    if not term.op.get_attr('transpose_a') or term.op.get_attr('transpose_b'):
      return None
    factors = list(map(singles.copied, term.op.inputs))
  messages = {name: leaf for leaf, name in enumerate(names[count:])}
  if any(t.name not in messages for t in factors):
    return None
  return tuple(messages[t.name] for t in factors)
