"""Sorts columns by a network of minima and maxima.

TensorFlow sorts along the last axis, row by row, which for many short columns
takes many times as long as this: a network compares whole rows with each other,
the same operations for all columns, independent of their values.

Sorting Networks and Their Applications
    Batcher. AFIPS 1968. The comparisons are those of merge exchange (Knuth, The
    Art of Computer Programming, vol. 3, algorithm 5.2.2M).
"""

from typing import Callable

import tensorflow as tf

# For fewer numbers TensorFlow's sort is faster than a network.
_SMALL = 2**16
# Largest number of rows whose network is unrolled in the graph, which takes
# seconds to trace; the loop over comparisons, for more rows or an unknown
# number, takes up to twice as long to run.
_WRITTEN_OUT = 128
# Number of columns that are sorted together: their rows fit into a cache, and
# the overhead of the loop stays small.
_BLOCK, _LOOP_BLOCK = 16384, 65536
# Comparisons per iteration of the loop, to share its overhead.
_TURN = 8

# (first, last + 1) -> float[last + 1 - first, b]: sorted rows of a block.
Rows = Callable[[int, int], tf.Tensor]


def reduce_sorted(
    x: tf.Tensor, reduce: Callable[[Rows], tf.Tensor]
) -> tf.Tensor:
  """Returns `reduce` of the sorted columns of x, float[d].

  Args:
    x: float[n, d], n >= 1; both may be unknown before run time.
    reduce: `rows -> float[b]`, where `rows(i, j)` are the i-th to (j-1)-th
      smallest numbers of b columns, float[j - i, b].
  """
  n = x.shape[0]
  if n is not None and n <= _WRITTEN_OUT:
    network = lambda: _by_blocks(x, _BLOCK, reduce, _written_out)
  else:
    pairs = _comparisons(tf.shape(x)[0])
    network = lambda: _by_blocks(
        x, _LOOP_BLOCK, reduce, lambda block: _loop(block, pairs)
    )

  def small():
    ordered = tf.transpose(tf.sort(tf.transpose(x), axis=1))
    return reduce(lambda i, j: ordered[i:j])

  return tf.cond(tf.size(x) <= _SMALL, small, network)


def _by_blocks(x, size: int, reduce, sort) -> tf.Tensor:
  """Returns `reduce` of the sorted columns, block by block."""
  num_columns = tf.shape(x)[1]
  num_blocks = -(-num_columns // size)

  def one(i, done):
    rows = sort(x[:, i * size : (i + 1) * size])
    return i + 1, done.write(i, reduce(rows))

  parts = tf.TensorArray(
      x.dtype, num_blocks, infer_shape=False, element_shape=[None]
  )
  # One block at a time, so that blocks do not compete for the cache.
  _, parts = tf.while_loop(
      lambda i, done: i < num_blocks, one, (tf.constant(0), parts),
      parallel_iterations=1,
  )
  return tf.ensure_shape(parts.concat(), [x.shape[1]])


def _written_out(block) -> Rows:
  """Returns the sorted rows of a block, one operation per comparison."""
  rows = tf.unstack(block)
  for i, j in _pairs(len(rows)):
    rows[i], rows[j] = (
        tf.minimum(rows[i], rows[j]), tf.maximum(rows[i], rows[j])
    )

  def ordered(first, stop):
    if isinstance(first, int) and isinstance(stop, int):
      return tf.stack(rows[first:stop])  # TensorFlow prunes the others.
    return tf.stack(rows)[first:stop]

  return ordered


def _pairs(n: int):
  """Yields the comparisons of n rows, (i, j) with i < j."""
  top = 1
  while 2 * top < n:
    top *= 2
  p = top
  while p and n > 1:
    q, r, d = top, 0, p
    while True:
      for i in range(n - d):
        if i & p == r:
          yield i, i + d
      if q == p:
        break
      q, r, d = q // 2, p, q - p
    p //= 2


def _loop(block, pairs) -> Rows:
  """Returns the sorted rows of a block; `pairs` are int32[m, 2]."""
  rows = tf.TensorArray(
      block.dtype, tf.shape(block)[0], clear_after_read=False,
      infer_shape=False, element_shape=[None],
  ).unstack(block)

  # A row that is compared with itself is unchanged.
  missing = -tf.shape(pairs)[0] % _TURN
  turns = tf.reshape(
      tf.concat([pairs, tf.zeros([missing, 2], tf.int32)], axis=0),
      [-1, _TURN, 2],
  )

  def compare(k, rows):
    for pair in tf.unstack(turns[k]):
      i, j = pair[0], pair[1]
      a, b = rows.read(i), rows.read(j)
      rows = rows.write(i, tf.minimum(a, b)).write(j, tf.maximum(a, b))
    return k + 1, rows

  _, rows = tf.while_loop(
      lambda k, rows: k < tf.shape(turns)[0], compare, (tf.constant(0), rows),
      parallel_iterations=1,
  )
  return lambda first, stop: rows.gather(tf.range(first, stop))


def _comparisons(n):
  """Returns the pairs of `_pairs` as int32[m, 2], for n known at run time."""
  _, top = tf.while_loop(
      lambda n, top: 2 * top < n, lambda n, top: (n, 2 * top),
      (n, tf.constant(1)),
  )

  def stage(p, q, r, d, pairs):
    i = tf.range(tf.maximum(n - d, 0))
    i = tf.boolean_mask(i, tf.equal(tf.bitwise.bitwise_and(i, p), r))
    pairs = tf.concat([pairs, tf.stack([i, i + d], axis=1)], axis=0)
    last = tf.equal(q, p)
    following = (p // 2, top, 0, p // 2), (p, q // 2, p, q - p)
    return *(tf.where(last, a, b) for a, b in zip(*following)), pairs

  found = tf.while_loop(
      lambda p, *_: p > 0, stage,
      (top, top, tf.constant(0), top, tf.zeros([0, 2], tf.int32)),
      shape_invariants=(tf.TensorShape([]),) * 4 + (
          tf.TensorShape([None, 2]),
      ),
  )
  return found[-1]
