"""Runs the clients of a stage: in a loop, vectorized, or with XLA."""

import contextlib
import os
from typing import Any, Sequence

import tensorflow as tf

from tff_pers.runtime.fused import adding
from tff_pers.runtime.fused import client_loop
from tff_pers.runtime.fused import merging
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused import side_by_side
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import structure

_ON_A_GPU = 10  # The default of TensorFlow's loops.


def run(
    schedule: schedule_lib.Schedule,
    loop: client_loop.ClientLoop,
    num_clients: Any,
    devices: Sequence[str],
) -> dict:
  """Returns the values of a stage's bindings by name.

  `num_clients` is an int32 scalar, > 0; all devices share the clients.
  """
  shards = []
  for k, device in enumerate(devices):
    with tf.device(device):
      start = num_clients * k // len(devices)
      stop = num_clients * (k + 1) // len(devices)
      shards.append(_run_range(schedule, loop, start, stop, device))
  with tf.device(devices[0]):
    return _joined(loop, shards, num_clients)


def empty(loop: client_loop.ClientLoop) -> dict:
  """Returns the values of a stage without clients."""
  rows = [_no_rows(member) for member in loop.demands.values()]
  return loop.results(
      rows, [a.zero for a in loop.folds], [a.zero for a in loop.grows]
  )


def _no_rows(member):
  return structure.unflatten(member, [
      packing.Rows(tf.zeros([0, *(d or 0 for d in t.shape)], t.dtype))
      for t in structure.leaves(member)
  ])


def _run_range(schedule, loop, start, stop, device):
  """Returns contributions of clients start..stop-1: (collected, folded)."""
  if schedule.strategy == 'vectorized':
    return _vectorized(loop, start, stop, schedule.clients_at_once)
  if schedule.strategy == 'xla':
    client = tf.function(loop.client, jit_compile=True, autograph=False)
  else:
    client = lambda i: loop.client(i, is_loop=True)
  # A GPU runs one operation after another: overlap only hides the start of each
  # operation, and takes memory. If memory is short, clients run one by one.
  most = max(2, os.cpu_count() or 2) if 'CPU' in device else _ON_A_GPU
  parallel = schedule.clients_at_once or most
  if loop.has_races and 'CPU' in device:
    parallel = 1
  return _looped(loop, client, start, stop, parallel)


def _joined(loop, shards, num_clients) -> dict:
  """Returns the values by name from the contributions of the shards."""
  rows = (structure.flatten(own, loop.collected_type) for own, _ in shards)
  collected = structure.unflatten(
      loop.collected_type, [_concatenated(parts) for parts in zip(*rows)]
  )
  folded = shards[0][1]
  for _, more in shards[1:]:
    folded = [
        _matched(a.merge((x, y)), a.type)
        for a, x, y in zip(loop.folds, folded, more)
    ]
  demanded, singles = collected[:len(loop.demands)], collected[len(loop.demands):]
  merged = [
      merging.merge(a, single, num_clients)
      for a, single in zip(loop.grows, singles)
  ]
  return loop.results(demanded, folded, merged)


def _concatenated(parts):
  """Returns the rows or pieces of all shards."""
  if len(parts) == 1:
    return parts[0]
  if isinstance(parts[0], packing.Rows):
    return packing.Rows(tf.concat([p.tensor for p in parts], 0))
  return packing.Pieces.pack(
      tf.concat([p.entries for p in parts], 0),
      tf.concat([p.shapes for p in parts], 0),
      parts[0].shape,
  )


def _looped(loop, client, start, stop, parallel):
  """Runs clients in one loop of the graph; iterations overlap."""
  member = loop.collected_type
  arrays = [_Collection(t, stop - start) for t in structure.leaves(member)]
  zeros = [_matched(a.zero, a.type) for a in loop.folds]

  def body(i, states, handles):
    demanded, messages, singles = client(i)
    states = [
        _matched(a.accumulate((state, message)), a.type)
        for a, state, message in zip(loop.folds, states, messages)
    ]
    values = structure.flatten((*demanded, *singles), member)
    handles = [
        array.write(handle, i - start, value)
        for array, handle, value in zip(arrays, handles, values)
    ]
    return i + 1, states, handles

  with _any_order() if loop.is_private else contextlib.nullcontext():
    _, folded, handles = tf.while_loop(
        lambda i, *_: i < stop,
        body,
        (start, zeros, [array.start for array in arrays]),
        parallel_iterations=parallel,
        maximum_iterations=stop - start,
    )
  stacks = [a.read(handle) for a, handle in zip(arrays, handles)]
  return structure.unflatten(member, stacks), folded


@contextlib.contextmanager
def _any_order():
  """Lets iterations overlap though they have variables, each its own.

  TensorFlow would make an iteration wait for all side effects of the last one.
  """
  graph = tf.compat.v1.get_default_graph()
  before = graph._add_control_dependencies  # pylint: disable=protected-access
  graph._add_control_dependencies = False  # pylint: disable=protected-access
  try:
    yield
  finally:
    graph._add_control_dependencies = before  # pylint: disable=protected-access


def _vectorized(loop, start, stop, at_once):
  """Runs clients together; messages are summed, or folded one by one.

  Operations that `vectorized_map` cannot vectorize run client by client.
  """
  member = loop.collected_type
  arrays = [_Collection(t, stop - start) for t in structure.leaves(member)]
  zeros = [_matched(a.zero, a.type) for a in loop.folds]

  def chunk(first, states, handles):
    last = tf.minimum(stop, first + at_once) if at_once else stop
    with side_by_side.converted():
      demanded, messages, singles = tf.vectorized_map(
          lambda i: tf.nest.map_structure(tf.identity, loop.client(i)),
          tf.range(first, last), fallback_to_while_loop=True, warn=False,
      )
    states = [
        _folded(a, state, message, last - first)
        for a, state, message in zip(loop.folds, states, messages)
    ]
    values = structure.flatten((*demanded, *singles), member)
    handles = [
        array.scatter(handle, tf.range(first - start, last - start), value)
        for array, handle, value in zip(arrays, handles, values)
    ]
    return last, states, handles

  _, folded, handles = tf.while_loop(
      lambda first, *_: first < stop,
      chunk,
      (start, zeros, [array.start for array in arrays]),
      parallel_iterations=1,
  )
  stacks = [a.read(handle) for a, handle in zip(arrays, handles)]
  return structure.unflatten(member, stacks), folded


def _folded(aggregate, state, messages, count):
  """Returns the accumulator after `count` stacked messages."""
  total = adding.added(aggregate, state, messages)
  if total is not None:
    return _matched(total, aggregate.type)
  rows = structure.unflatten(aggregate.message_type, [
      packing.Rows(t) for t in structure.flatten(messages, aggregate.message_type)
  ])

  def body(i, state):
    state = aggregate.accumulate((state, layout.at(rows, i)))
    return i + 1, _matched(state, aggregate.type)

  return tf.while_loop(
      lambda i, _: i < count, body, (tf.constant(0), state)
  )[1]


class _Collection:
  """Collects one tensor of every client within a loop."""

  def __init__(self, tensor_type, num_clients):
    self._shape = tuple(tensor_type.shape)
    self._is_static = None not in self._shape
    self.start: tuple[tf.TensorArray, ...]
    if self._is_static:
      self.start = (tf.TensorArray(
          tensor_type.dtype, num_clients, element_shape=self._shape
      ),)
    else:
      self.start = (
          tf.TensorArray(
              tensor_type.dtype, num_clients, infer_shape=False,
              element_shape=[None],
          ),
          tf.TensorArray(
              tf.int64, num_clients, element_shape=[len(self._shape)]
          ),
      )

  def write(self, arrays, i, value):
    if self._is_static:
      return (arrays[0].write(i, value),)
    return (
        arrays[0].write(i, tf.reshape(value, [-1])),
        arrays[1].write(i, tf.shape(value, tf.int64)),
    )

  def scatter(self, arrays, indices, rows):
    """Writes the equally shaped `rows` of several clients."""
    if self._is_static:
      return (arrays[0].scatter(indices, rows),)
    count = tf.shape(rows)[0]
    shape = tf.shape(rows, tf.int64)[1:]
    return (
        arrays[0].scatter(indices, tf.reshape(rows, [count, -1])),
        arrays[1].scatter(indices, tf.tile(shape[tf.newaxis], [count, 1])),
    )

  def read(self, arrays):
    if self._is_static:
      return packing.Rows(arrays[0].stack())
    return packing.Pieces.pack(arrays[0].concat(), arrays[1].stack(), self._shape)


def _matched(value, type_signature):
  """Returns `value` with the shapes of the type."""
  values = []
  for leaf, t in zip(
      structure.flatten(value, type_signature), structure.leaves(type_signature)
  ):
    leaf = tf.identity(leaf)  # The same tensor must not leave a loop twice.
    leaf.set_shape(t.shape)
    values.append(leaf)
  return structure.unflatten(type_signature, values)
