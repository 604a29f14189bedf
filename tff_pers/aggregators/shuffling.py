"""Model shuffling as TFF building blocks: keyed fetch and keyed collection.

Personal models are neither broadcast nor averaged: a client fetches a row of a
table at the server by its key, and returns rows with their keys. This module is
independent of PERM; a row is any structure of tensors.
"""

import collections
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from tff_pers import tff

# Number of blocks for collected rows: appending to a single block would copy
# all rows at every client (and TFF's native runtime keeps all the copies). One
# block is enough if the rows are small in total.
_MAX_BLOCKS = 8
_SMALL_BYTES = 2**20


def build_fetch(
    server_type: tff.Type, select_row: Callable[[Any, tf.Tensor], Any],
    num_keys: int,
) -> tff.Computation:
  """Builds a keyed download: each client gets the row of its own key.

  Args:
    server_type: Type of the server's value (e.g. a table and a schedule).
    select_row: `(server value, key int32) -> row`, a TensorFlow function; a
      row is a structure whose named fields are sorted.
    num_keys: Keys are 0..num_keys - 1.

  Returns:
    A federated computation `(V@SERVER, {int32}@CLIENTS -> {row}@CLIENTS)`.
  """

  @tff.tensorflow.computation(server_type, np.int32)
  def select_fn(value, key):
    return select_row(value, key)

  row_type = select_fn.type_signature.result

  @tff.tensorflow.computation(np.int32)
  def as_keys(key):
    return tf.reshape(key, [1])

  @tff.tensorflow.computation(tff.SequenceType(row_type))
  def only_row(rows):
    return rows.get_single_element()

  @tff.tensorflow.computation
  def max_key():
    return tf.constant(num_keys, tf.int32)

  @tff.federated_computation(
      tff.FederatedType(server_type, tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def fetch(value, key):
    rows = tff.federated_select(
        tff.federated_map(as_keys, key),
        tff.federated_eval(max_key, tff.SERVER),
        value,
        select_fn,
    )
    return tff.federated_map(only_row, rows)

  return fetch


def fetch(
    value: Any, key: Any, select_row: Callable[[Any, tf.Tensor], Any],
    num_keys: int,
) -> Any:
  """Returns the row of each client's key, {row}@CLIENTS (while tracing).

  Args:
    value: V@SERVER.
    key: {int32}@CLIENTS.
    select_row: See `build_fetch`.
    num_keys: See `build_fetch`.
  """
  return build_fetch(value.type_signature.member, select_row, num_keys)(
      value, key
  )


class RowCollectionFactory(tff.aggregators.UnweightedAggregationFactory):
  """Collects the rows of all clients at the server.

  `next`: <()@SERVER, {V}@CLIENTS> -> <state=(), result=V', measurements=()>,
  where V is a structure of tensors with one leading dimension: a client sends
  zero, one or several rows (the same number in every leaf), keys among them,
  and V' holds the rows of all clients, in one order for all leaves. While
  collecting, a row is copied at most `max_rows / 8` times, plus once at the
  end.
  """

  def __init__(self, max_rows: int):
    """Initializes the factory.

    Args:
      max_rows: Rows expected from all clients together, >= 1; more is slow.

    Raises:
      ValueError: If `max_rows` < 1.
    """
    if max_rows < 1:
      raise ValueError(f'`max_rows` must be >= 1, found {max_rows}.')
    self._max_rows = max_rows

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type V of the rows that a client sends.

    Raises:
      TypeError: If a leaf of `value_type` is not a tensor of rank >= 1.
    """
    rows_type = _any_number_of_rows(value_type)
    num_blocks, block_rows = _layout(rows_type, self._max_rows)
    accumulator_type = tff.to_type(
        collections.OrderedDict(
            blocks=(rows_type,) * num_blocks, count=np.int32
        )
    )

    @tff.tensorflow.computation
    def zero():
      no_rows = tff.types.structure_from_tensor_type_tree(
          lambda t: tf.zeros([0] + list(t.shape)[1:], t.dtype), rows_type
      )
      return collections.OrderedDict(
          blocks=(no_rows,) * num_blocks, count=tf.constant(0)
      )

    @tff.tensorflow.computation(accumulator_type, rows_type)
    def accumulate(accumulator, value):
      count = accumulator['count']
      current = tf.minimum(count // block_rows, num_blocks - 1)
      blocks = [
          tf.cond(  # The other blocks pass through uncopied.
              tf.equal(current, i),
              lambda block=block: _joined(block, value),
              lambda block=block: block,
          )
          for i, block in enumerate(accumulator['blocks'])
      ]
      return collections.OrderedDict(
          blocks=tuple(blocks), count=count + _num_rows(value)
      )

    @tff.tensorflow.computation(accumulator_type, accumulator_type)
    def merge(a, b):
      return collections.OrderedDict(
          blocks=tuple(map(_concat, a['blocks'], b['blocks'])),
          count=a['count'] + b['count'],
      )

    @tff.tensorflow.computation(accumulator_type)
    def report(accumulator):
      first, *others = accumulator['blocks']
      if not others:
        return first
      return tf.cond(
          tf.equal(_num_rows(first), accumulator['count']),
          lambda: first,  # Merged from accumulators of few rows.
          lambda: _concat(first, *others),
      )

    @tff.tensorflow.computation(value_type)
    def as_rows(value):
      return value

    @tff.tensorflow.computation
    def nothing():
      return ()

    @tff.federated_computation
    def init_fn():
      return tff.federated_eval(nothing, tff.SERVER)

    @tff.federated_computation(
        init_fn.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
    )
    def next_fn(state, value):
      collected = tff.federated_aggregate(
          tff.federated_map(as_rows, value), zero(), accumulate, merge, report
      )
      return tff.templates.MeasuredProcessOutput(
          state, collected, tff.federated_eval(nothing, tff.SERVER)
      )

    return tff.templates.AggregationProcess(init_fn, next_fn)


def collect(rows: Any, max_rows: int) -> Any:
  """Returns the rows of all clients, V'@SERVER (while tracing).

  Args:
    rows: {V}@CLIENTS, see `RowCollectionFactory`.
    max_rows: See `RowCollectionFactory`.
  """
  process = RowCollectionFactory(max_rows).create(rows.type_signature.member)
  return process.next(process.initialize(), rows).result


def present(key: Any, num_keys: int) -> Any:
  """Returns bool[num_keys]@SERVER, the existing keys (while tracing).

  Args:
    key: {int32}@CLIENTS.
    num_keys: Keys are 0..num_keys - 1.
  """
  own = tff.federated_map(tff.tensorflow.computation(lambda k: k[None]), key)

  @tff.tensorflow.computation
  def as_mask(keys):
    return tf.tensor_scatter_nd_update(
        tf.zeros([num_keys], tf.bool), keys[:, None],
        tf.ones([tf.shape(keys)[0]], tf.bool),
    )

  return tff.federated_map(as_mask, collect(own, num_keys))


def _layout(rows_type, max_rows: int) -> tuple[int, int]:
  """Returns (number of blocks, rows per block)."""
  row_bytes = sum(
      np.dtype(leaf.dtype).itemsize
      * int(np.prod([size or 1 for size in leaf.shape[1:]]))
      for leaf in tff.structure.flatten(rows_type)
  )
  if row_bytes * max_rows <= _SMALL_BYTES:
    return 1, max_rows
  block_rows = -(-max_rows // _MAX_BLOCKS)
  return -(-max_rows // block_rows), block_rows


def _num_rows(rows):
  return tf.shape(tf.nest.flatten(rows)[0])[0]


def _joined(block, value):
  """Returns the rows of both; copies nothing if `block` is empty."""
  return tf.cond(
      tf.equal(_num_rows(block), 0),
      lambda: value,
      lambda: _concat(block, value),
  )


def _concat(*structures):
  """Concatenates structures of tensors along the leading dimension."""
  return tf.nest.map_structure(
      lambda *leaves: tf.concat(leaves, axis=0), *structures
  )


def scatter(table: Any, keys: tf.Tensor, rows: Any) -> Any:
  """Returns `table` with `rows` written at `keys`.

  Args:
    table: Structure of tensors [N, ...].
    keys: int32[M], distinct.
    rows: Structure like `table` of tensors [M, ...].

  Raises:
    tf.errors.InvalidArgumentError: If a key occurs twice, so that a row would
      be lost. In a graph, when it runs.
  """
  distinct = tf.debugging.assert_equal(
      tf.size(tf.unique(keys)[0]), tf.size(keys),
      '`keys` must be distinct, found one twice.',
  )
  # Graphs of TFF computations only run checks that results depend on.
  with tf.control_dependencies([] if distinct is None else [distinct]):
    keys = tf.identity(keys)

  def permuted():  # All rows are new: the table is not read.
    at = tf.math.invert_permutation(keys)
    # Not by a reshape of the rows: Grappler of TensorFlow 2.14 would infer that
    # there are always N keys, and use this branch for any number.
    at.set_shape(tf.nest.flatten(table)[0].shape[:1])
    return tf.nest.map_structure(lambda r: tf.gather(r, at), rows)

  def updated():
    return tf.nest.map_structure(
        lambda t, r: tf.tensor_scatter_nd_update(t, keys[:, None], r), table,
        rows,
    )

  if not keys.shape.is_compatible_with(tf.nest.flatten(table)[0].shape[:1]):
    return updated()  # Known to be fewer.
  return tf.cond(tf.equal(tf.size(keys), _num_rows(table)), permuted, updated)


def _any_number_of_rows(value_type) -> tff.Type:
  """Returns `value_type` with an unknown leading dimension in every leaf."""

  def convert(t):
    if not t.shape:
      raise TypeError(
          'Every leaf of `value_type` must be a tensor with a leading dimension'
          f' of rows, found {t} in {value_type}.'
      )
    return tff.TensorType(t.dtype, [None] + list(t.shape)[1:])

  return tff.to_type(
      tff.types.structure_from_tensor_type_tree(convert, value_type)
  )
