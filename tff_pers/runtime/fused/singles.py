"""Finds accumulator tensors that one client passes through or leaves unchanged.

An accumulator that collects rows may keep them in several blocks, so that
appending does not copy all of them. After one client, one block has its rows
and the others are still empty. A tensor that is passed on from the message is
taken from there; an unchanged tensor is the same for all clients and need not
be collected from any.
"""

from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf
# Not exported by TensorFlow: values and branches that are known in a graph.
from tensorflow.python.framework import smart_cond
from tensorflow.python.ops import cond_v2

from tff_pers.runtime.fused.values import structure
from tff_pers import tff

# `If`, with side effects, may hold an assertion that must not be skipped.
_CONDITIONAL = 'StatelessIf'
# Size limit of tensors of `zero` that may be counters and decide branches.
_FEW_NUMBERS = 16


class Source(NamedTuple):
  """Where a tensor of an accumulator comes from.

  Attributes:
    is_message: Whether it is a tensor of the message, not the accumulator's
      previous tensor at this position.
    leaf: Its position among the tensors of the message, or the accumulator.
  """

  is_message: bool
  leaf: int


def sources(
    accumulate: Callable[[Any], Any], zero: Any, state_type: tff.Type,
    message_type: tff.Type,
) -> list[Optional[Source]]:
  """Returns the sources of the tensors of `accumulate((zero, message))`.

  `zero`, tensors of a graph, is the accumulator before the first client. The
  source of a tensor that is computed is None.
  """
  start = structure.flatten(zero, state_type)
  if structure.has_sequence(message_type):
    return [None] * len(start)
  message_types = structure.leaves(message_type)
  known = [
      # A tensor without entries decides nothing; as a constant, it would not be
      # recognized where it is passed on.
      None if tensor.shape.num_elements() == 0 else _known(tensor)
      for tensor in start
  ]

  def accumulated(argument):
    state, message = argument
    # As constants, they decide which branch of a conditional is taken.
    return accumulate((_with_values(state, state_type, known), message))

  inputs, outputs = traced(
      accumulated, state_type, message_type, [*start, *message_types]
  )
  leaf_of = {name: leaf for leaf, name in enumerate(inputs)}
  found = [_origin(tensor) for tensor in outputs]
  return [
      _source(
          None if tensor is None else leaf_of.get(tensor.name), place,
          len(start),
      )
      for place, tensor in enumerate(found)
  ]


def within(zero: Any, state_type: tff.Type) -> Any:
  """Returns `zero` with known values as constants of the loop's body.

  Other tensors from outside are carried through every iteration.
  """
  start = structure.flatten(zero, state_type)
  return _with_values(zero, state_type, map(_known, start))


def _with_values(state, state_type, known) -> Any:
  """Returns an accumulator with constants where a value is not None."""
  return structure.unflatten(state_type, [
      tensor if value is None else tf.constant(value, tensor.dtype)
      for tensor, value in zip(structure.flatten(state, state_type), known)
  ])


def traced(
    function: Callable[[Any], Any], first: tff.Type, second: tff.Type,
    like: Sequence[Any],
) -> tuple[list[str], list[tf.Tensor]]:
  """Returns the names of the inputs of a traced function, and its outputs.

  The function is from a pair of values of the types `first` and `second` to one
  of the type `first`; `like` has shape and dtype of each tensor of the pair.
  """
  count = len(structure.leaves(first))

  @tf.function(autograph=False)
  def flat(*tensors):
    pair = (
        structure.unflatten(first, tensors[:count]),
        structure.unflatten(second, tensors[count:]),
    )
    return structure.flatten(function(pair), first)

  concrete = flat.get_concrete_function(
      *(tf.TensorSpec(t.shape, t.dtype) for t in like)
  )
  # Captured tensors, if any, come last.
  names = [tensor.name for tensor in concrete.inputs[:len(like)]]
  return names, concrete.outputs


def copied(tensor: tf.Tensor) -> tf.Tensor:
  """Returns the tensor of which `tensor` is a copy."""
  while tensor.op.type == 'Identity':
    tensor = tensor.op.inputs[0]
  return tensor


def _source(leaf: Optional[int], place: int, count: int) -> Optional[Source]:
  """Returns the source of the tensor at `place`, given input `leaf`."""
  if leaf is None:
    return None
  if leaf >= count:
    return Source(True, leaf - count)
  return Source(False, leaf) if leaf == place else None


def _known(tensor: tf.Tensor) -> Optional[Any]:
  """Returns the value of a small tensor, None if it is not known."""
  entries = tensor.shape.num_elements()
  if entries == 0:
    return np.zeros(tensor.shape, tensor.dtype.as_numpy_dtype)
  if entries is None or entries > _FEW_NUMBERS:
    return None
  return smart_cond.smart_constant_value(tensor)


def _origin(tensor: tf.Tensor) -> Optional[tf.Tensor]:
  """Returns the tensor of the same graph of which `tensor` is a copy.

  Returns:
    None if it is computed, is in a branch of which it is unknown whether it is
    taken, or waits for something, such as an assertion.
  """
  while True:
    if tensor.op.control_inputs:
      return None
    if tensor.op.type == 'Identity':
      tensor = tensor.op.inputs[0]
    elif tensor.op.type == _CONDITIONAL:
      condition, *given = tensor.op.inputs
      is_true = smart_cond.smart_constant_value(condition)
      if is_true is None:
        return None
      branch = cond_v2.get_func_graphs(tensor.op)[0 if is_true else 1]
      inner = _origin(branch.outputs[tensor.value_index])
      outside = {t.name: g for t, g in zip(branch.inputs, given)}
      if inner is None or inner.name not in outside:
        return None
      tensor = outside[inner.name]
    else:
      return tensor
