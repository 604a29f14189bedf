"""Functional models: what is trained on, and what is measured."""

import dataclasses

import numpy as np
import tensorflow as tf

from tests import problems
from tff_pers.data import client_data

_SEED = tf.constant([0, 1], tf.int64)


def _noisy(model):
  """Returns the model with predictions that are 0 in training."""
  return dataclasses.replace(
      model,
      predict=lambda weights, x, training, seed: (
          (0.0 if training else 1.0) * model.predict(weights, x, False, seed)
      ),
  )


def test_losses_of_half_precision_are_summed_in_float32():
  model = problems.tiny_model()
  halves = dataclasses.replace(
      model, metrics={},
      example_loss=lambda y, predictions: tf.fill([60_000], np.float16(2.5)),
  )
  data = problems.tiny_clients()[2]
  batch = client_data.Batch(
      *(tf.constant(data['examples'][name]) for name in 'xy'),
      tf.fill([60_000], True), _SEED,
  )
  sums = halves.metric_sums(model.initial_weights(0), batch)
  assert sums['loss'] == 150_000  # The largest float16 is 65,504.


def test_metrics_are_without_dropout():
  """Dropout is on in the loss of a step, and off in what is reported."""
  model = problems.tiny_model()
  weights, data = model.initial_weights(0), problems.tiny_clients()[2]
  x, y = data['examples']['x'], data['examples']['y']
  mask = np.array([True, True, False, True, False])
  batch = problems.batch(x, y, mask)
  sums = _noisy(model).metric_sums(weights, batch)
  losses = model.example_loss(y, model.predict(weights, x, False, _SEED))
  np.testing.assert_allclose(sums['loss'], np.sum(losses[mask]))
  np.testing.assert_allclose(
      _noisy(model).batch_loss(weights, batch), np.log(2)
  )
