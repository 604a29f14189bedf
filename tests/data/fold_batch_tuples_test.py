"""Several independent batches per step."""

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.data import client_data

_SEEDS = (random.key(0, 1), random.key(0, 2))


def _labels(data, seeds, **budget):
  """Returns the labels seen, an array [steps, uses, batch], masked ones -1."""
  seen = tf.TensorArray(tf.int32, 0, dynamic_size=True)

  def step(state, batches):
    t, seen = state
    labels = tf.stack([tf.where(b.mask, b.y, -1) for b in batches])
    return t + 1, seen.write(t, labels)

  _, seen = client_data.fold_batch_tuples(
      data, step, (tf.constant(0), seen), seeds=seeds, **budget
  )
  return seen.stack().numpy()


def test_every_use_visits_what_fold_batches_visits_under_its_key():
  data = client_data.dense(0, np.zeros([7, 1]), np.arange(7, dtype=np.int32))
  budget = dict(batch_size=3, num_epochs=2)
  together = _labels(data, _SEEDS, **budget)
  assert together.shape == (6, 2, 3)
  for use, seed in enumerate(_SEEDS):
    alone = _labels(data, (seed,), **budget)
    np.testing.assert_array_equal(together[:, use], alone[:, 0])
  assert not np.array_equal(together[:, 0], together[:, 1])


def test_datasets_give_consecutive_batches():
  data = tf.data.Dataset.from_tensor_slices(
      (np.zeros([6, 1]), np.arange(6, dtype=np.int32))
  ).batch(2)

  def step(seen, batches):
    return tf.concat([seen, *[b.y for b in batches]], 0)

  seen = lambda **budget: client_data.fold_batch_tuples(
      data, step, tf.zeros([0], tf.int32), seeds=_SEEDS, **budget
  )
  # Two steps of two batches: the fourth batch is the first one again.
  np.testing.assert_array_equal(seen(num_steps=2), [0, 1, 2, 3, 4, 5, 0, 1])
  # One epoch has as many steps as batches.
  np.testing.assert_array_equal(seen(num_epochs=1), [*range(6), *range(6)])
