"""LSTM layers and embeddings are those of Keras."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import zoo

LENGTH, NUM_TOKENS = 7, 12


def _keras():
  layers = tf.keras.layers
  return tf.keras.Sequential([
      layers.Embedding(NUM_TOKENS, 16, input_length=LENGTH),
      layers.LSTM(32, return_sequences=True), layers.Dense(16),
      layers.Dense(NUM_TOKENS),
  ])


@pytest.fixture(name='both', scope='module')
def _both():
  """Returns (Keras' model, ours, weights of both)."""
  keras = _keras()
  keras.build([None, LENGTH])
  rng = np.random.default_rng(0)
  keras.set_weights([
      w + 0.1 * rng.normal(size=w.shape) for w in keras.get_weights()
  ])
  model = zoo.build(
      'lstm_small', tf.TensorSpec([None, LENGTH], tf.int32), NUM_TOKENS
  )
  return keras, model, tuple(map(tf.constant, keras.get_weights()))


def _x():
  return tf.random.stateless_uniform(
      [5, LENGTH], [0, 1], 0, NUM_TOKENS, tf.int32
  )


def test_outputs(both):
  keras, model, weights = both
  np.testing.assert_allclose(
      model.predict(weights, _x(), False, random.key(0)), keras(_x()),
      atol=1e-6,
  )
