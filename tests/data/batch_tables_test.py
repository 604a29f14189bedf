"""Batches as a table of a shape that all clients of a cohort share."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.data import batch_tables
from tff_pers.data import client_data

CAPACITY = 11


@pytest.mark.parametrize('shuffle', [True, False])
@pytest.mark.parametrize(
    'budget, size',
    [(dict(num_steps=7), 7), (dict(num_epochs=1), 3), (dict(num_epochs=3), 9)],
    ids=['steps', 'pass', 'passes'],
)
def test_it_begins_with_the_batches_of_the_client(budget, size, shuffle):
  """And holds nothing else; clients with 0 to 11 examples."""
  options = dict(
      seed=random.key(3, 1), batch_size=4, shuffle=shuffle, **budget
  )

  @tf.function
  def both(count):
    return (
        batch_tables.batch_table(count, CAPACITY, **options),
        client_data.batch_rows(count, CAPACITY, **options),
    )

  for count in range(CAPACITY + 1):
    (rows, mask, taken), (expected, expected_mask) = both(tf.constant(count))
    assert rows.shape == mask.shape == (size, 4)
    assert taken == len(expected)
    np.testing.assert_array_equal(rows[:len(expected)], expected)
    np.testing.assert_array_equal(mask[:len(expected)], expected_mask)
    assert not mask[len(expected):].numpy().any()
    # Filler, too: what stands in padding is unknown.
    assert rows.numpy().min() >= 0
    if count or not shuffle:
      assert rows.numpy().max() < max(count, 1)


@pytest.mark.parametrize('budget', [dict(num_steps=3), dict(num_epochs=2)])
def test_where_there_is_no_row_there_is_no_step(budget):
  rows, mask, taken = tf.function(lambda x: batch_tables.batch_table(
      0, tf.shape(x)[0], seed=random.key(3), batch_size=4, **budget
  ))(tf.zeros([0, 2]))
  assert rows.shape == mask.shape == (0, 4) and taken == 0


def test_clients_of_several_sizes_have_them_together():
  """What the fused runtime does with clients that it stacks."""

  def table(count):
    return batch_tables.batch_table(
        count, CAPACITY, seed=random.key(5), batch_size=4, num_epochs=2
    )

  counts = tf.constant([3, 11, 0, 8])
  together = tf.function(
      lambda: tf.vectorized_map(table, counts, fallback_to_while_loop=True)
  )()
  for row, count in enumerate(counts):
    for found, expected in zip(together, table(count)):
      np.testing.assert_array_equal(found[row], expected)
