"""LSTM layers of Keras models compute what Keras computes."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.models import keras
from tff_pers.models import keras_recurrent

layers = tf.keras.layers
LENGTH, TOKENS, UNITS = 6, 9, 5


def _network(lstm, masked=False, steps=()):
  """Keras cuts a sequence into those of `steps`, and masks them, by itself."""
  model = tf.keras.Sequential([
      layers.InputLayer([LENGTH], dtype=tf.int32),
      *(layers.Reshape([-1, size]) for size in steps),
      layers.Embedding(TOKENS, 4, mask_zero=masked), lstm,
      layers.Flatten(), layers.Dense(1),
  ])
  rng = np.random.default_rng(0)
  model.set_weights([
      w + 0.3 * rng.normal(size=w.shape) for w in model.get_weights()
  ])
  return model


def _x():
  x = np.random.default_rng(1).integers(0, TOKENS, [8, LENGTH])
  x[:4, 3:] = 0  # Masked, where the model masks.
  return tf.constant(x, tf.int32)


NETWORKS = dict(
    last=lambda: _network(layers.LSTM(UNITS)),
    sequences=lambda: _network(layers.LSTM(UNITS, return_sequences=True)),
    each_of_many=lambda: _network(
        layers.TimeDistributed(layers.LSTM(UNITS)), masked=True, steps=[3]
    ),
    masked=lambda: _network(layers.LSTM(UNITS), masked=True),
    backwards=lambda: _network(layers.LSTM(UNITS, go_backwards=True)),
    both_ways=lambda: _network(layers.Bidirectional(layers.LSTM(UNITS))),
    relu=lambda: _network(layers.LSTM(UNITS, activation='relu')),
    no_bias=lambda: _network(layers.LSTM(UNITS, use_bias=False)),
)


@pytest.mark.parametrize('name', NETWORKS)
def test_outputs_and_gradients(name):
  network = NETWORKS[name]()
  model = keras.from_keras(
      network, 'mean_absolute_error', y_spec=tf.TensorSpec([None, 1])
  )
  weights = [tf.constant(w) for w in network.get_weights()]
  with tf.GradientTape() as tape:
    expected = network(_x())
    loss = tf.reduce_sum(tf.sin(expected))
  expected_gradients = tape.gradient(loss, network.trainable_variables)
  with tf.GradientTape() as tape:
    tape.watch(weights)
    found = model.predict(weights, _x(), True, random.key(0))
    loss = tf.reduce_sum(tf.sin(found))
  np.testing.assert_allclose(found, expected, atol=1e-6)
  for own, other in zip(tape.gradient(loss, weights), expected_gradients):
    np.testing.assert_allclose(
        tf.convert_to_tensor(own), tf.convert_to_tensor(other), atol=1e-5
    )
  # What Keras has is as it was.
  np.testing.assert_array_equal(network(_x()), expected)


@pytest.mark.parametrize('layer,is_ours', [
    (layers.LSTM(UNITS), True),
    (layers.LSTM(UNITS, return_sequences=True), True),
    (layers.LSTM(UNITS, dropout=0.5), False),
    (layers.LSTM(UNITS, recurrent_dropout=0.5), False),
    (layers.LSTM(UNITS, go_backwards=True), False),
    (layers.LSTM(UNITS, activation='relu'), False),
    (layers.LSTM(UNITS, use_bias=False), False),
    (type('OwnLSTM', (layers.LSTM,), {})(UNITS), False),
    (layers.GRU(UNITS), False),
])
def test_which_layers(layer, is_ours):
  assert bool(keras_recurrent.calls([layer])) == is_ours
