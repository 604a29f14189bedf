"""Random federated computations, drawn by hypothesis while TFF traces them."""

import collections
import functools

from hypothesis import strategies as st
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.conformance import drawn_values

_DTYPES = (np.float32, np.float64, np.int32, np.int64, np.bool_, np.str_)
_SHAPES = ([], [2], [None], [2, None], [0])
# Sums of these are exact, so that their order does not matter.
_GRID = np.arange(-8, 9) / 4
_NUM_ROWS = 3


def tensor_types():
  return st.builds(
      tff.TensorType, st.sampled_from(_DTYPES), st.sampled_from(_SHAPES)
  )


def member_types():
  """Tensors, and structs in each other, with unsorted names or without."""
  def structs(children):
    named = st.lists(
        st.tuples(st.sampled_from('zyxba'), children),
        min_size=1, max_size=3, unique_by=lambda field: field[0],
    ).map(collections.OrderedDict)
    unnamed = st.lists(children, max_size=3).map(tuple)
    return st.one_of(named, unnamed).map(tff.to_type)
  return st.recursive(tensor_types(), structs, max_leaves=4)


def sequence_types():
  """Sequences of a tensor or of a pair with sorted names."""
  tensor = st.builds(
      tff.TensorType,
      st.sampled_from([np.float32, np.int32, np.str_]),
      st.sampled_from([[], [None], [None, 2], [None, None]]),
  )
  pair = st.builds(
      lambda x, y: tff.to_type(collections.OrderedDict(x=x, y=y)),
      tensor, tensor,
  )
  return st.one_of(tensor, pair).map(tff.SequenceType)


def value(data, part, length=None):
  """Draws a value of a type; `length` is for dimensions that it leaves open."""
  if isinstance(part, tff.SequenceType):
    return _elements(data, part.element)
  if isinstance(part, tff.StructType):
    items = [value(data, t, length) for t in part.children()]
    names = tff.structure.name_list(part)
    return collections.OrderedDict(zip(names, items)) if names else tuple(items)
  if length is None:
    length = data.draw(st.integers(0, 3))
  shape = [length if d is None else d for d in part.shape]
  rng = np.random.default_rng(data.draw(st.integers(0, 99)))
  sample = rng.choice(_GRID, shape)
  if part.dtype == np.str_:
    text = np.vectorize(lambda x: f'{x}'.encode(), [object])(sample)
    return text[()] if np.size(sample) else np.zeros(shape, object)
  return np.asarray(4 * sample, part.dtype)[()]


def _elements(data, part):
  """Draws a list of elements, or a data set of elements of many shapes."""
  count = data.draw(st.integers(0, 3))
  if count and data.draw(st.booleans()):
    elements = [
        tf.data.Dataset.from_tensors(value(data, part, k % 3 + 1))
        for k in data.draw(st.permutations(range(count)))
    ]
    return functools.reduce(tf.data.Dataset.concatenate, elements)
  # TFF makes no data set of a list where others than the last differ.
  usual, last = (data.draw(st.integers(0, 3)) for _ in range(2))
  elements = [
      value(data, part, usual if k < count - 1 else last) for k in range(count)
  ]
  dataset = drawn_values.data_set(data, part, elements)
  if dataset is not None:
    return dataset
  return [_reordered(data, element) for element in elements]


def _reordered(data, element):
  """Returns an element with its fields in some order: their names count."""
  if not isinstance(element, dict):
    return element
  names = data.draw(st.permutations(list(element)))
  container = data.draw(st.sampled_from([dict, collections.OrderedDict]))
  return container((name, element[name]) for name in names)


def computation(data, client_types, server_types, num_steps):
  """Draws a computation of these arguments, `num_steps` long."""
  parameters = [
      *(tff.FederatedType(t, tff.CLIENTS) for t in client_types),
      *(tff.FederatedType(t, tff.SERVER) for t in server_types),
  ]

  @tff.federated_computation(parameters)
  def drawn(arguments):
    pool = [arguments[i] for i in range(len(parameters))]
    for _ in range(num_steps):
      operand = pool[data.draw(st.integers(0, len(pool) - 1))]
      step = data.draw(st.sampled_from(_steps(operand, pool)))
      pool.append(step(data, operand, pool))
    # Sequences of clients are not results.
    results = [v for v in pool if not _has_sequence(v.type_signature)]
    return tuple(results)

  return drawn


def _steps(operand, pool):
  """Returns what can be done with `operand`."""
  part = operand.type_signature
  member = part.member
  if isinstance(member, tff.SequenceType):
    return [_fold, _shorten, _filter]
  if _has_sequence(member):
    return [_first_field]
  at_clients = part.placement is tff.CLIENTS
  leaves = tff.structure.flatten(member) if isinstance(
      member, tff.StructType
  ) else [member]
  steps = [_map, _zip]
  if isinstance(member, tff.StructType) and len(member):
    steps.append(_first_field)
  steps.append(_evaluate if at_clients else _broadcast)
  if not at_clients:
    return steps + [_select] * bool(_keys(pool))
  steps.append(_collect)
  if leaves and all(_is_number(t) and _is_static(t) for t in leaves):
    steps += [_sum, _extremes]
    if all(np.issubdtype(t.dtype, np.floating) for t in leaves):
      steps += [_mean, _weighted_mean]
  return steps


def _has_sequence(part) -> bool:
  return tff.types.contains(part, lambda t: isinstance(t, tff.SequenceType))


def _is_number(part) -> bool:
  return np.issubdtype(part.dtype, np.number)


def _is_static(part) -> bool:
  return None not in part.shape


def _keys(pool) -> list:
  """Returns what can be keys of a selection."""
  wanted = tff.TensorType(np.int32, [2])
  return [
      v for v in pool
      if v.type_signature.placement is tff.CLIENTS
      and v.type_signature.member == wanted
  ]


def _changed(tensor):
  """Returns a function of a tensor, of its type."""
  if tensor.dtype == tf.bool:
    return tf.logical_not(tensor)
  if tensor.dtype == tf.string:
    return tf.strings.join([tensor, '!'])
  return 1 - 2 * tensor


def _summary(tensor):
  """Returns a float32 scalar."""
  if tensor.dtype == tf.string:
    tensor = tf.strings.length(tensor)
  return tf.reduce_sum(tf.cast(tensor, tf.float32))


def _queued(x):
  """Returns x by a queue that keeps -x."""
  queue = tf.queue.FIFOQueue(100, x.dtype, [[]])
  with tf.control_dependencies([queue.enqueue_many([tf.stack([x, -x])])]):
    return queue.dequeue()


def _stacked(x):
  """Returns x by a stack that keeps -x."""
  stack = tf.raw_ops.StackV2(max_size=100, elem_type=x.dtype)
  with tf.control_dependencies([tf.raw_ops.StackPushV2(handle=stack, elem=-x)]):
    pushed = tf.raw_ops.StackPushV2(handle=stack, elem=x)
  with tf.control_dependencies([pushed]):
    found = tf.raw_ops.StackPopV2(handle=stack, elem_type=x.dtype)
  return tf.ensure_shape(found, [])


_THROUGH = {'sum': lambda x: x, 'stack': _stacked, 'queue': _queued}


def _map(data, operand, pool):
  """Changes every leaf, doubles lengths, or sums up, by whatever means."""
  del pool  # Unused.
  kind = data.draw(st.sampled_from(
      ['change', 'grow', 'sum', 'swap', 'stack', 'queue']
  ))

  def local(x):
    leaves = tf.nest.flatten(x)
    if kind == 'change':
      return tf.nest.map_structure(_changed, x)
    if kind == 'grow':
      return tf.nest.map_structure(
          lambda t: tf.concat([t, t], -1) if t.shape.rank else t, x
      )
    if kind == 'swap':
      return tuple(reversed(leaves)), tf.constant('constant')
    total = tf.add_n([tf.constant(0.5)] + [_summary(t) for t in leaves])
    return _THROUGH[kind](total)

  return _applied(local, operand)


def _applied(local, operand):
  return tff.federated_map(
      tff.tensorflow.computation(local, operand.type_signature.member),
      operand,
  )


def _zip(data, operand, pool):
  placement = operand.type_signature.placement
  others = [
      v for v in pool
      if v.type_signature.placement is placement
      and not _has_sequence(v.type_signature)
  ]
  other = data.draw(st.sampled_from(others))
  return tff.federated_zip(collections.OrderedDict(q=operand, p=(other,)))


def _first_field(data, operand, pool):
  del data, pool  # Unused.
  return operand[0]


def _broadcast(data, operand, pool):
  del data, pool  # Unused.
  return tff.federated_broadcast(operand)


def _evaluate(data, operand, pool):
  """Constants of all placements, beside the operand."""
  del pool  # Unused.
  constant = data.draw(st.integers(-3, 3))

  @tff.tensorflow.computation
  def made():
    return tf.constant(constant), tf.fill([2], tf.cast(constant, tf.float64))

  return tff.federated_zip((
      operand, tff.federated_eval(made, tff.CLIENTS),
      tff.federated_value(constant, tff.CLIENTS),
  ))


def _sum(data, operand, pool):
  del data, pool  # Unused.
  return tff.federated_sum(operand)


def _extremes(data, operand, pool):
  del pool  # Unused.
  return data.draw(
      st.sampled_from([tff.federated_min, tff.federated_max])
  )(operand)


def _mean(data, operand, pool):
  del data, pool  # Unused.
  return tff.federated_mean(operand)


def _weighted_mean(data, operand, pool):
  del data, pool  # Unused.

  def weight(x):
    total = tf.add_n([_summary(t) for t in tf.nest.flatten(x)])
    return 1 + tf.abs(total)

  return tff.federated_mean(operand, _applied(weight, operand))


def _collect(data, operand, pool):
  """Concatenates a number and a text of every client, in their order."""
  del data, pool  # Unused.

  def message(x):
    leaves = tf.nest.flatten(x)
    total = tf.add_n([tf.constant(0.0)] + [_summary(t) for t in leaves])
    return total, tf.strings.as_string(total, precision=3)

  messages = _applied(message, operand)
  rows = tff.to_type(
      (tff.TensorType(np.float32, [None]), tff.TensorType(np.str_, [None]))
  )

  @tff.tensorflow.computation
  def zero():
    return tf.zeros([0]), tf.zeros([0], tf.string)

  @tff.tensorflow.computation(rows, messages.type_signature.member)
  def accumulate(total, row):
    return tuple(tf.concat([t, r[None]], 0) for t, r in zip(total, row))

  @tff.tensorflow.computation(rows, rows)
  def merge(x, y):
    return tuple(tf.concat([a, b], 0) for a, b in zip(x, y))

  @tff.tensorflow.computation(rows)
  def report(total):
    return total

  return tff.federated_aggregate(messages, zero(), accumulate, merge, report)


def _select(data, operand, pool):
  """Fetches two rows of a table that is made of the operand."""
  keys = data.draw(st.sampled_from(_keys(pool)))

  def table(x):
    total = tf.add_n([tf.constant(0.0)] + [
        _summary(t) for t in tf.nest.flatten(x)
    ])
    return total + tf.range(_NUM_ROWS, dtype=tf.float32)

  rows = _applied(table, operand)

  @tff.tensorflow.computation(rows.type_signature.member, np.int32)
  def row(x, key):
    return x[tf.math.floormod(key, _NUM_ROWS)]

  # Keys must not be negative.
  positive = _applied(lambda k: tf.math.floormod(k, _NUM_ROWS), keys)
  selected = tff.federated_select(
      positive, tff.federated_value(_NUM_ROWS, tff.SERVER), rows, row
  )
  return _fold(data, selected, pool)


def _fold(data, operand, pool):
  """Reduces a sequence in its order."""
  del data, pool  # Unused.

  def local(elements):
    return elements.reduce(
        tf.constant(0.0),
        lambda s, e: 0.5 * s + tf.add_n(
            [_summary(t) for t in tf.nest.flatten(e)]
        ),
    )

  return _applied(local, operand)


def _filter(data, operand, pool):
  """Leaves out elements by what they contain."""
  del data, pool  # Unused.

  def is_small(*element):
    total = tf.add_n([_summary(t) for t in tf.nest.flatten(element)])
    return tf.less(total, 3.0)

  return _applied(lambda d: d.filter(is_small), operand)


def _shorten(data, operand, pool):
  del pool  # Unused.
  count = data.draw(st.integers(0, 2))
  use = data.draw(st.sampled_from(['take', 'skip', 'repeat']))
  return _applied(lambda d: getattr(d, use)(count), operand)
