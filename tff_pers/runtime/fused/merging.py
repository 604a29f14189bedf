"""Merges accumulators of single clients into the accumulator of all.

Used where accumulators grow, e.g. when rows are collected: folding M vectors of
length d one by one would move M^2 d / 2 numbers.
"""

from typing import Any, Callable, Optional

import tensorflow as tf

from tff_pers.runtime.fused import client_loop
from tff_pers.runtime.fused import singles as singles_lib
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import structure

_CONCATENATE, _ADD = 'ConcatV2', 'AddV2'


def merge(
    aggregate: client_loop.Aggregate, singles: Any, num_clients: Any
) -> Any:
  """Returns the accumulator of all clients.

  The singles are what clients change in the accumulators, see
  `client_loop.Aggregate.single`: `packing.Rows` or `packing.Pieces`;
  `num_clients` is an int32 scalar, > 0.
  """
  # Tensors that no client changes are the same for all.
  leaves = aggregate.whole(singles)
  joins = _joins(aggregate, leaves)
  if joins is None:
    return _tree(
        aggregate, structure.unflatten(aggregate.type, leaves), num_clients
    )
  joined = [_JOIN[join](leaf) for join, leaf in zip(joins, leaves)]
  return structure.unflatten(aggregate.type, joined)


def _concatenated(pieces: Any):
  """Returns the pieces, which are adjacent, as one tensor without copying."""
  if isinstance(pieces, tf.Tensor):
    return pieces  # No client has rows.
  count = tf.reduce_sum(pieces.shapes[:, :1], axis=0)
  shape = tf.concat([count, pieces.shape[1:]], 0)
  return tf.reshape(pieces.entries, shape)


_JOIN: dict[str, Callable[[Any], tf.Tensor]] = {
    _CONCATENATE: _concatenated,
    _ADD: lambda rows: tf.reduce_sum(rows.tensor, axis=0),
}


def _joins(aggregate, leaves) -> Optional[list]:
  """Returns how `merge` joins each leaf, or None if it does anything else."""
  types = structure.leaves(aggregate.type)
  if any(None in (t.shape or [None])[1:] for t in types):
    return None
  inputs, outputs = singles_lib.traced(
      aggregate.merge, aggregate.type, aggregate.type, types * 2
  )
  found = list(map(_join, outputs, inputs, inputs[len(types):]))
  fits = [_is_joined_by(leaf, join) for join, leaf in zip(found, leaves)]
  return found if all(fits) else None


def _is_joined_by(leaf, join: Optional[str]) -> bool:
  """Returns whether `join` can join the tensors of all clients at once."""
  if isinstance(leaf, packing.Pieces):
    return join == _CONCATENATE
  if isinstance(leaf, packing.Rows):
    return join == _ADD
  has_no_rows = leaf.shape.rank != 0 and leaf.shape[:1] == [0]
  return join == _CONCATENATE and has_no_rows


def _join(output, left: str, right: str) -> Optional[str]:
  """Returns how `output` joins the tensors of these names, or None."""
  op = singles_lib.copied(output).op
  names = [singles_lib.copied(t).name for t in op.inputs]
  if op.type == _ADD and names == [left, right]:
    return _ADD
  if op.type == _CONCATENATE and names[:-1] == [left, right]:
    return _CONCATENATE if tf.get_static_value(op.inputs[2]) == 0 else None
  return None


def _tree(aggregate, singles, num_clients):
  """Merges neighbours level by level, which moves M d log2(M) numbers."""
  types = structure.leaves(aggregate.type)

  def array(size):
    return [
        tf.TensorArray(
            t.dtype, size, infer_shape=False, element_shape=t.shape
        )
        for t in types
    ]

  def read(arrays, i):
    values = [a.read(i) for a in arrays]
    for value, t in zip(values, types):
      value.set_shape(t.shape)
    return structure.unflatten(aggregate.type, values)

  def write(arrays, i, value):
    return [
        a.write(i, leaf)
        for a, leaf in zip(arrays, structure.flatten(value, aggregate.type))
    ]

  def fill(i, arrays):
    return i + 1, write(arrays, i, layout.at(singles, i))

  _, level = tf.while_loop(
      lambda i, _: i < num_clients, fill, (tf.constant(0), array(num_clients))
  )

  def next_level(count, level):
    half = (count + 1) // 2

    def pair(j, arrays):
      merged = tf.cond(
          2 * j + 1 < count,
          lambda: structure.flatten(
              aggregate.merge((read(level, 2 * j), read(level, 2 * j + 1))),
              aggregate.type,
          ),
          lambda: structure.flatten(read(level, 2 * j), aggregate.type),
      )
      return j + 1, write(
          arrays, j, structure.unflatten(aggregate.type, merged)
      )

    return half, tf.while_loop(
        lambda j, _: j < half, pair, (tf.constant(0), array(half))
    )[1]

  _, level = tf.while_loop(
      lambda count, _: count > 1, next_level, (num_clients, level),
      parallel_iterations=1,
  )
  return read(level, 0)
