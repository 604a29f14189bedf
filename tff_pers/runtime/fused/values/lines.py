"""Evaluates pipelines that choose, order, map and batch rows, by arrays.

TensorFlow's iterator takes milliseconds to start, for every client in every
round. Here the row numbers are put in order, and then the rows are taken.
TensorFlow's own operations order the numbers, many clients in one call, so that
shuffles draw as on TFF's runtime, with seeds and without.
"""

import collections
import functools
from typing import Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.runtime.fused.values import pipelines

# One batch of all elements.
_ALL = 2**62


def segments(lines: Sequence[Optional[pipelines.Line]]) -> list:
  """Returns each client's segments of elements, see `reading.Reader.read`.

  None for a client without a line, or whose elements differ in shape.
  """
  found: list[Optional[list]] = [None] * len(lines)
  clients = {k: line for k, line in enumerate(lines) if line is not None}
  examples = _orders(
      [len(line.source[0]) for line in clients.values()],
      [line.examples.orderings for line in clients.values()],
  )
  batches = _orders(
      [_num_batches(*pair) for pair in zip(clients.values(), examples)],
      [line.batches.orderings for line in clients.values()],
  )
  for k, order, batch_order in zip(clients, examples, batches):
    try:
      found[k] = _joined(list(_segments(clients[k], order, batch_order)))
    except tf.errors.InvalidArgumentError:
      pass  # The iterator will read it, or report the error.
  return found


def _orders(counts, orderings) -> list:
  """Returns the remaining row numbers in their order, for each client.

  `counts` are the clients' numbers of rows.
  """
  found = [np.arange(count) for count in counts]
  groups = collections.defaultdict(list)
  for k, steps in enumerate(orderings):
    if steps:
      kinds = tuple((s.operation, s.reshuffles, len(s.numbers)) for s in steps)
      groups[kinds].append(k)
  for kinds, clients in groups.items():
    numbers = [
        [n for step in orderings[k] for n in step.numbers] for k in clients
    ]
    with tf.device('/CPU:0'):
      orders = _ordered(kinds)(
          tf.constant([counts[k] for k in clients], tf.int64),
          tf.constant(numbers, tf.int64),
      )
      rows, stops = orders.values.numpy(), orders.row_limits().numpy()
    for k, order in zip(clients, np.split(rows, stops[:-1])):
      found[k] = order
  return found


@functools.lru_cache(maxsize=64)
def _ordered(kinds):
  """Returns a function `(counts, numbers) -> ` ragged row numbers."""

  def order(client):
    count, numbers = client
    numbers = tf.unstack(numbers, sum(kind[2] for kind in kinds))
    dataset = tf.data.Dataset.range(count)
    for operation, reshuffles, size in kinds:
      dataset = _step(dataset, operation, reshuffles, numbers[:size])
      numbers = numbers[size:]
    # Without elements, a data set would have no batch.
    end = tf.data.Dataset.from_tensors(tf.constant(-1, tf.int64))
    return dataset.concatenate(end).batch(_ALL).get_single_element()[:-1]

  return tf.function(
      lambda counts, numbers: tf.map_fn(
          order, (counts, numbers),
          fn_output_signature=tf.RaggedTensorSpec([None], tf.int64, 0),
      ),
      autograph=False,
      input_signature=[
          tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, None], tf.int64)
      ],
  )


def _step(dataset, operation, reshuffles, numbers):
  """Returns `dataset`, a data set of row numbers, after one step."""
  if operation != 'ShuffleDatasetV3':
    use = {
        'RepeatDataset': dataset.repeat, 'ShardDataset': dataset.shard,
        'SkipDataset': dataset.skip, 'TakeDataset': dataset.take,
    }[operation]
    return use(*numbers)
  buffer_size, seed, seed2 = numbers
  shuffled = tf.raw_ops.ShuffleDatasetV3(
      input_dataset=tf.data.experimental.to_variant(dataset),
      buffer_size=buffer_size, seed=seed, seed2=seed2,
      seed_generator=tf.raw_ops.DummySeedGenerator(),
      output_types=[tf.int64], output_shapes=[[]],
      reshuffle_each_iteration=reshuffles,
  )
  return tf.data.experimental.from_variant(shuffled, dataset.element_spec)


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
