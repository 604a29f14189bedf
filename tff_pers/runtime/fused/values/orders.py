"""Computes the order in which pipelines yield the rows of their source.

TensorFlow's own operations order the row numbers, many clients in one call, so
that shuffles draw as on TFF's runtime, with seeds and without.
"""

import collections
import functools
from typing import Sequence

import numpy as np
import tensorflow as tf

# One batch of all elements.
_ALL = 2**62


def of(counts: Sequence[int], orderings: Sequence[list]) -> list:
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
