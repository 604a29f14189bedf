"""Losses per example: by row, in chunks, with padding."""

import numpy as np
import tensorflow as tf

from tests import problems
from tff_pers.client_works import example_losses
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import mixtures


def _data(num_examples, num_rows):
  rng = np.random.default_rng(0)
  data = client_data.dense(
      3, rng.normal(size=[num_examples, 3]),
      rng.integers(0, 2, num_examples).astype(np.int32),
  )
  return tf.nest.map_structure(tf.constant, client_data.pad(data, num_rows))


def test_losses_stand_in_the_rows_of_their_examples():
  """More rows than fit into one pass, and padding."""
  model, data = problems.tiny_model(), _data(600, 607)
  models = mixtures.initial_models(model, 2, 1)
  losses = example_losses.compute(model, models, 2, data)
  assert losses.shape == [607, 2] and losses.dtype == tf.float64
  for c in range(2):
    logits = model.predict(
        mixtures.select(models, c), data['examples']['x'], False, None
    )
    expected = model.example_loss(data['examples']['y'], logits)
    np.testing.assert_allclose(losses[:600, c], expected[:600], rtol=1e-12)
  np.testing.assert_allclose(
      example_losses.mean_rows(data, losses),
      losses.numpy()[:600].mean(axis=0), rtol=1e-12,
  )


def test_batches_with_rows_are_those_of_fold_batches():
  data = _data(7, 9)
  options = dict(seed=random.key(5), batch_size=3, num_steps=5)
  def collect(state, batch):
    step, xs, masks, seeds = state
    return (
        step + 1, tf.tensor_scatter_nd_update(xs, [[step]], [batch.x]),
        tf.tensor_scatter_nd_update(masks, [[step]], [batch.mask]),
        tf.tensor_scatter_nd_update(seeds, [[step]], [batch.seed]),
    )
  def collect_rows(state, batch):
    x = tf.gather(data['examples']['x'], batch.rows)
    tf.debugging.assert_equal(x, batch.x)
    return collect(state, batch)
  start = (
      tf.constant(0), tf.zeros([5, 3, 3], tf.float64),
      tf.zeros([5, 3], tf.bool), tf.zeros([5, 2], tf.int64),
  )
  expected = client_data.fold_batches(data, collect, start, **options)
  found = example_losses.fold_rows(data, collect_rows, start, **options)
  for a, b in zip(found, expected):
    np.testing.assert_array_equal(a, b)


def test_without_examples_the_mean_is_zero():
  table = tf.ones([4, 2], tf.float64)
  data = dict(num_examples=tf.constant(0))
  np.testing.assert_array_equal(example_losses.mean_rows(data, table), [0, 0])
