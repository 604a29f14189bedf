"""What weights are, told by shapes and by Keras."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import keras
from tff_pers.models import layers

L = tf.keras.layers
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _told(weights):
  return [(w.name, w.kind) for w in weights]


def _model(**shapes) -> functional.FunctionalModel:
  """A model whose weights are a dictionary."""
  return dataclasses.replace(
      problems.tiny_model(),
      init=lambda seed: {k: tf.zeros(v) for k, v in shapes.items()},
  )


def test_dictionary_puts_the_bias_first():
  """Leaves come by sorted key; the vector of length 3 fits no kernel."""
  described = layers.describe(
      _model(a=[3], bias=[4], kernel=[3, 4], w=[3, 3, 4, 5], x=[5], y=[5])
  )
  assert _told(described) == [
      ('unknown_0/weight', 'unknown'), ('dense_2/bias', 'bias'),
      ('dense_2/kernel', 'dense'), ('conv_3/kernel', 'conv'),
      ('conv_3/bias', 'bias'), ('unknown_5/weight', 'unknown'),
  ]


def test_nested_dictionaries_of_layers_of_one_width():
  """A bias is of the layer that it is stored with, not of its neighbour."""
  shapes = dict(
      a=dict(bias=[4], kernel=[3, 4]), b=dict(bias=[4], kernel=[4, 4])
  )
  model = dataclasses.replace(
      problems.tiny_model(),
      init=lambda seed: {
          name: {k: tf.zeros(v) for k, v in layer.items()}
          for name, layer in shapes.items()
      },
  )
  assert _told(layers.describe(model)) == [
      ('dense_1/bias', 'bias'), ('dense_1/kernel', 'dense'),
      ('dense_3/bias', 'bias'), ('dense_3/kernel', 'dense'),
  ]


def test_raises_on_layers_of_another_model():
  told = layers.describe(problems.tiny_model())
  model = dataclasses.replace(_model(w=[3, 4]), layers=told)
  with pytest.raises(ValueError, match=r'must have the shapes .*\[\(3, 4\)\]'):
    layers.describe(model)


def _vision():
  return tf.keras.Sequential([
      L.InputLayer([8, 8, 3]),
      L.Conv2D(4, 3),
      L.DepthwiseConv2D(3),
      L.GroupNormalization(2),
      L.Conv2D(4, 1, groups=2, use_bias=False),
      L.Conv2DTranspose(3, 2),
      L.Flatten(),
      L.Dense(5),
      L.PReLU(),
      L.Dense(3, use_bias=False),
  ])


def _text():
  return tf.keras.Sequential([
      L.InputLayer([6], dtype=tf.int32),
      L.Embedding(20, 5),
      L.Bidirectional(L.LSTM(4, return_sequences=True)),
      L.GRU(3),
      L.LayerNormalization(),
      L.Dense(3),
  ])


VISION = [
    ('kernel', 'conv'), ('bias', 'bias'),
    ('depthwise_kernel', 'depthwise'), ('bias', 'bias'),
    ('gamma', 'norm'), ('beta', 'norm'), ('kernel', 'Conv2D'),
    ('kernel', 'Conv2DTranspose'), ('bias', 'bias'), ('kernel', 'dense'),
    ('bias', 'bias'), ('alpha', 'PReLU'), ('kernel', 'dense'),
]
CELL = [('kernel', 'dense'), ('recurrent_kernel', 'dense'), ('bias', 'bias')]
TEXT = [
    ('embeddings', 'embedding'), *CELL, *CELL, *CELL, ('gamma', 'norm'),
    ('beta', 'norm'), ('kernel', 'dense'), ('bias', 'bias'),
]


@pytest.mark.parametrize(
    'make, expected, left_alone',
    # Grouped and transposed convolution, its bias, and the activation's slope.
    [(_vision, VISION, [6, 7, 8, 11]), (_text, TEXT, [])],
)
def test_own_keras_model_is_adapted(make, expected, left_alone):
  """No adaptor changes anything at first, each can learn."""
  model = keras.from_keras(make, LOSS)
  described = layers.describe(model)
  assert [(w.name.split('/')[-1], w.kind) for w in described] == expected
  assert len({w.name for w in described}) == len(described)
  adapted = adaptors.floral(model, 2, adapt_norm=True, adapt_embedding=True)
  for i, line in enumerate(adapted.summary().split('\n')[1:-1]):
    assert line.startswith(described[i].name + ' ')
    assert ('left alone' in line) == (i in left_alone), line

  wrapped = adapted.as_model()
  weights = wrapped.initial_weights(0)
  rng = np.random.default_rng(0)
  shape = [4, *model.x_spec.shape[1:]]
  x = tf.constant(
      rng.integers(20, size=shape) if model.x_spec.dtype.is_integer
      else rng.standard_normal(shape), model.x_spec.dtype,
  )
  y, key = tf.constant([0, 1, 2, 0]), random.key(0)
  np.testing.assert_allclose(
      wrapped.predict(weights, x, False, key),
      model.predict(weights['base'], x, False, key), rtol=1e-5, atol=1e-6,
  )

  @tf.function
  def gradient():
    with tf.GradientTape() as tape:
      tape.watch(weights)
      losses = model.example_loss(y, wrapped.predict(weights, x, True, key))
    return tape.gradient(losses, weights)
  for slope in gradient()['adaptors']:
    moving = slope['u'] if isinstance(slope, dict) else slope
    assert np.abs(moving).max() > 1e-7


def test_biases_belong_to_layers_not_to_names():
  """Two layers of one name in nested models; a variable without a layer."""

  class Scaled(tf.keras.Model):

    def __init__(self):
      super().__init__()
      self.inner = tf.keras.Sequential(
          [L.InputLayer([2]), L.Dense(2, name='same')]
      )
      self.outer = L.Dense(2, name='same')
      self.scale = tf.Variable([1.0], name='scale')

    def call(self, inputs, training=False):
      return self.scale * self.outer(self.inner(inputs))

  model = keras.from_keras(Scaled, LOSS, x_spec=tf.TensorSpec([None, 2]))
  described = layers.describe(model)
  by_kind = {kind: [w.layer for w in described if w.kind == kind]
             for kind in ('dense', 'bias', 'Scaled')}
  assert by_kind['dense'] == by_kind['bias'] == ['same', 'same:2']
  assert len(by_kind['Scaled']) == 1
