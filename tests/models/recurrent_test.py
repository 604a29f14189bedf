"""LSTM layers and embeddings are those of Keras."""

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import zoo

LENGTH, NUM_TOKENS = 7, 12


def test_outputs():
  layers = tf.keras.layers
  keras = tf.keras.Sequential([
      layers.Embedding(NUM_TOKENS, 16, input_length=LENGTH),
      layers.LSTM(32, return_sequences=True), layers.Dense(16),
      layers.Dense(NUM_TOKENS),
  ])
  keras.build([None, LENGTH])
  rng = np.random.default_rng(0)
  keras.set_weights([
      w + 0.1 * rng.normal(size=w.shape) for w in keras.get_weights()
  ])
  model = zoo.build(
      'lstm_small', tf.TensorSpec([None, LENGTH], tf.int32), NUM_TOKENS
  )
  x = rng.integers(NUM_TOKENS, size=[5, LENGTH]).astype(np.int32)
  np.testing.assert_allclose(
      model.predict(tuple(keras.get_weights()), x, False, random.key(0)),
      keras(x), atol=1e-6,
  )
