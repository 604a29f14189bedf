"""Evaluates pipelines that choose, order, map and batch rows, by arrays.

TensorFlow's iterator takes milliseconds to start, for every client in every
round. Here the row numbers are put in order, and then the rows are taken.
"""

from typing import Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.runtime.fused.values import orders
from tff_pers.runtime.fused.values import pipelines


def segments(lines: Sequence[Optional[pipelines.Line]]) -> list:
  """Returns each client's segments of elements, see `reading.Reader.read`.

  None for a client without a line, or whose elements differ in shape.
  """
  found: list[Optional[list]] = [None] * len(lines)
  clients = {k: line for k, line in enumerate(lines) if line is not None}
  examples = orders.of(
      [len(line.source[0]) for line in clients.values()],
      [line.examples.orderings for line in clients.values()],
  )
  batches = orders.of(
      [_num_batches(*pair) for pair in zip(clients.values(), examples)],
      [line.batches.orderings for line in clients.values()],
  )
  for k, order, batch_order in zip(clients, examples, batches):
    try:
      found[k] = _joined(list(_segments(clients[k], order, batch_order)))
    except tf.errors.InvalidArgumentError:
      pass  # The iterator will read it, or report the error.
  return found


def _num_batches(line, order) -> int:
  if line.batch is None:
    return 0
  size, drops_rest = line.batch
  return len(order) // size if drops_rest else -(-len(order) // size)


def _segments(line, order, batch_order):
  """Yields segments: runs of elements of one shape."""
  arrays, ordered = line.source, bool(line.examples.orderings)
  if line.examples.functions:
    arrays = [array[order] for array in arrays] if ordered else arrays
    arrays = _mapped(line.examples, arrays)
    order, ordered = np.arange(len(order)), False
  if line.batch is None:
    yield [array[order] for array in arrays] if ordered else arrays
    return
  ordered = ordered or bool(line.batches.orderings)
  for rows in _runs(order, line.batch[0], batch_order):
    batches = [
        array[rows] if ordered else _slices(array, rows) for array in arrays
    ]
    yield _mapped(line.batches, batches)


def _mapped(level, arrays) -> list:
  if not len(arrays[0]):
    return []
  for function in level.functions:
    arrays = function(arrays)
  return arrays


def _runs(order, size, batch_order):
  """Yields the rows of consecutive batches of one size: [batches, size]."""
  full = len(order) // size
  whole, rest = order[:full * size].reshape([full, size]), order[full * size:]
  is_rest = batch_order == full
  changes = np.flatnonzero(np.diff(is_rest)) + 1
  for run in np.split(batch_order, changes):
    if len(run):
      yield np.tile(rest, [len(run), 1]) if run[0] == full else whole[run]


def _slices(array, rows):
  """Returns `array[rows]` for consecutive rows, without a copy."""
  flat = array[rows[0, 0]:rows[-1, -1] + 1]
  return flat.reshape([*rows.shape, *array.shape[1:]])


def _joined(found) -> list:
  """Returns non-empty segments, with neighbours of one shape joined."""
  joined: list[list] = []
  for segment in found:
    if not segment or not len(segment[0]):
      continue
    shapes = [array.shape[1:] for array in segment]
    if joined and shapes == [array.shape[1:] for array in joined[-1]]:
      joined[-1] = [np.concatenate(pair) for pair in zip(joined[-1], segment)]
    else:
      joined.append(segment)
  return joined
