"""How a stage goes over the clients: in a loop, vectorized, or with XLA."""

import os

import tensorflow as tf

from tff_pers.runtime import layout
from tff_pers.runtime import stages

STRATEGIES = ('loop', 'vectorized', 'xla')


def run(strategy: str, loop, num_clients) -> dict:
  """Returns the values of a stage's bindings by name.

  Args:
    strategy: One of `STRATEGIES`.
    loop: What a client does, see `stages`.
    num_clients: int32 scalar.
  """
  if strategy == 'vectorized':
    return _vectorized(loop, num_clients)
  client = loop.client
  if strategy == 'xla':
    client = tf.function(client, jit_compile=True, autograph=False)
  return _looped(loop, client, num_clients)


def empty(loop) -> dict:
  """Returns the values of a stage without clients."""
  kept = [_no_rows(member) for _, member in loop.demands]
  return loop.results(
      kept, [a.zero for a in loop.folds], [a.zero for a in loop.grows]
  )


def _no_rows(member):
  return _pack(member, iter([
      layout.Rows(tf.zeros([0, *(d or 0 for d in t.shape)], t.dtype))
      for t in stages.leaves(member)
  ]))


def _looped(loop, client, num_clients) -> dict:
  """One loop in the graph; iterations overlap."""
  collected = [
      *(member for _, member in loop.demands), *(a.type for a in loop.grows)
  ]
  arrays = [
      _Collection(t, num_clients) for m in collected for t in stages.leaves(m)
  ]
  zeros = [_matched(a.zero, a.type) for a in loop.folds]

  def body(i, states, handles):
    kept, messages, singles = client(i)
    states = [
        _matched(a.accumulate((state, message)), a.type)
        for a, state, message in zip(loop.folds, states, messages)
    ]
    values = [
        value
        for member, item in zip(collected, [*kept, *singles])
        for value in _leaves(item, member)
    ]
    handles = [
        array.write(handle, i, value)
        for array, handle, value in zip(arrays, handles, values)
    ]
    return i + 1, states, handles

  _, folded, handles = tf.while_loop(
      lambda i, *_: i < num_clients,
      body,
      (tf.constant(0), zeros, [array.start for array in arrays]),
      parallel_iterations=_parallel_iterations(),
      maximum_iterations=num_clients,
  )
  stacks = iter([a.read(handle) for a, handle in zip(arrays, handles)])
  kept = [_pack(member, stacks) for _, member in loop.demands]
  merged = [
      _merge(a, _pack(a.type, stacks), num_clients) for a in loop.grows
  ]
  return loop.results(kept, folded, merged)


def _vectorized(loop, num_clients) -> dict:
  """All clients at once; only what they send is folded one by one."""
  kept, messages, singles = tf.vectorized_map(
      loop.client, tf.range(num_clients), fallback_to_while_loop=False
  )
  rows = lambda value: tf.nest.map_structure(layout.Rows, value)
  kept = [rows(value) for value in kept]
  folded = []
  for aggregate, message in zip(loop.folds, messages):
    message = rows(message)

    def body(i, state, aggregate=aggregate, message=message):
      state = aggregate.accumulate((state, layout.at(message, i)))
      return i + 1, _matched(state, aggregate.type)

    folded.append(tf.while_loop(
        lambda i, _: i < num_clients,
        body,
        (tf.constant(0), _matched(aggregate.zero, aggregate.type)),
    )[1])
  merged = [
      _merge(a, rows(single), num_clients)
      for a, single in zip(loop.grows, singles)
  ]
  return loop.results(kept, folded, merged)


class _Collection:
  """Collects one tensor of every client within a loop."""

  def __init__(self, tensor_type, num_clients):
    self._shape = tuple(tensor_type.shape)
    self._is_static = None not in self._shape
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

  def read(self, arrays):
    if self._is_static:
      return layout.Rows(arrays[0].stack())
    return layout.Pieces(arrays[0].concat(), arrays[1].stack(), self._shape)


def _merge(aggregate, singles, num_clients):
  """Merges accumulators in a balanced tree, neighbours first.

  Joining M vectors of length d then moves M d log2(M) numbers, not M^2 d / 2.
  """
  types = stages.leaves(aggregate.type)

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
    return _pack(aggregate.type, iter(values))

  def write(arrays, i, value):
    return [
        a.write(i, leaf)
        for a, leaf in zip(arrays, _leaves(value, aggregate.type))
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
          lambda: _leaves(
              aggregate.merge((read(level, 2 * j), read(level, 2 * j + 1))),
              aggregate.type,
          ),
          lambda: _leaves(read(level, 2 * j), aggregate.type),
      )
      return j + 1, write(arrays, j, _pack(aggregate.type, iter(merged)))

    return half, tf.while_loop(
        lambda j, _: j < half, pair, (tf.constant(0), array(half))
    )[1]

  _, level = tf.while_loop(
      lambda count, _: count > 1, next_level, (num_clients, level),
      parallel_iterations=1,
  )
  return read(level, 0)


def _matched(value, type_signature):
  """Returns `value` with the shapes of the type."""
  values = []
  for leaf, t in zip(
      _leaves(value, type_signature), stages.leaves(type_signature)
  ):
    leaf = tf.identity(leaf)  # No tensor may leave a loop twice.
    leaf.set_shape(t.shape)
    values.append(leaf)
  return _pack(type_signature, iter(values))


def _leaves(value, type_signature) -> list:
  """Returns the tensors of nested tuples."""
  children = getattr(type_signature, 'children', None)
  if children is None or not isinstance(value, tuple):
    return [value]
  return [
      leaf for v, t in zip(value, children()) for leaf in _leaves(v, t)
  ]


def _pack(type_signature, values):
  """Returns nested tuples of the next `values`."""
  import tensorflow_federated as tff  # pylint: disable=g-import-not-at-top
  if isinstance(type_signature, tff.StructType):
    return tuple(_pack(t, values) for t in type_signature.children())
  return next(values)


def _parallel_iterations() -> int:
  return max(2, os.cpu_count() or 2)
