"""Keras models as functional models."""

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.models import keras

L = tf.keras.layers
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _cnn():
  return tf.keras.Sequential([
      L.InputLayer([8, 8, 1]),
      L.Conv2D(4, 3, activation='relu', kernel_regularizer='l2'),
      L.MaxPool2D(),
      L.SpatialDropout2D(0.25),
      L.GroupNormalization(2),
      L.Flatten(),
      L.Dropout(0.5),
      L.Dense(3),
  ])


def _attention():
  inputs = tf.keras.Input([5, 4])
  x = L.MultiHeadAttention(2, 3, dropout=0.3)(inputs, inputs)
  x = L.GaussianNoise(0.1)(L.LayerNormalization()(x + inputs))
  return tf.keras.Model(inputs, L.Dense(3)(L.GlobalAveragePooling1D()(x)))


def _text():
  return tf.keras.Sequential([
      L.InputLayer([6], dtype=tf.int32),
      L.Embedding(20, 5, mask_zero=True),
      L.SimpleRNN(4, dropout=0.3),
      L.Dense(3),
  ])


def _shared():
  layer = L.Dense(4, activation='tanh')
  inputs = tf.keras.Input([4])
  return tf.keras.Model(inputs, L.Dense(3)(layer(layer(inputs))))


def _batch(model, num_rows=5):
  rng = np.random.default_rng(0)
  shape = [num_rows, *model.x_spec.shape[1:]]
  if model.x_spec.dtype.is_integer:
    x = rng.integers(20, size=shape)
  else:
    x = rng.normal(size=shape)
  return problems.batch(
      tf.constant(x, model.x_spec.dtype),
      rng.integers(3, size=num_rows).astype(np.int32),
  )


@pytest.mark.parametrize('make', [_cnn, _attention, _text, _shared])
def test_predicts_with_the_given_weights(make):
  network, other = make(), make()
  model = keras.from_keras(network, LOSS)
  before = [v.numpy() for v in network.variables]
  batch = _batch(model)
  np.testing.assert_allclose(
      model.predict(
          tuple(v.numpy() for v in other.trainable_variables), batch.x, False,
          batch.seed,
      ),
      other.predict(batch.x, verbose=0), rtol=1e-5, atol=1e-6,
  )
  for variable, value in zip(network.variables, before):
    np.testing.assert_array_equal(variable, value)


@pytest.mark.parametrize('make', [_cnn, _attention, _text])
def test_dropout_follows_the_seed_in_training_only(make):
  model = keras.from_keras(make(), LOSS)
  weights, x = model.init(random.key(0)), _batch(model).x
  predict = lambda training, s: model.predict(
      weights, x, training, random.key(s)
  ).numpy()
  np.testing.assert_array_equal(predict(True, 1), predict(True, 1))
  assert np.any(predict(True, 1) != predict(True, 2))
  np.testing.assert_array_equal(predict(False, 1), predict(False, 2))


def test_dropout_layers_draw_apart():
  x = tf.ones([1, 1000])
  same = L.Dense(1000, kernel_initializer='identity', use_bias=False)
  network = tf.keras.Sequential(
      [L.InputLayer([1000]), L.Dropout(0.5), L.Dropout(0.5), same]
  )
  model = keras.from_keras(network, 'mse', y_spec=tf.TensorSpec([None, 1000]))
  kept = model.predict(model.init(random.key(0)), x, True, random.key(3)) > 0
  # Independent masks keep 1/4, one mask twice 1/2; 4 standard errors: 0.055.
  np.testing.assert_allclose(np.mean(kept), 0.25, atol=0.055)


def test_weight_regularizers_are_the_penalty():
  network = _cnn()
  model = keras.from_keras(network, LOSS)
  weights = model.init(random.key(0))
  np.testing.assert_allclose(
      model.penalty(weights), tf.add_n(network.losses), rtol=1e-6
  )
  # 'l2' is 0.01 ||w||^2: twice the weights, four times the penalty.
  np.testing.assert_allclose(
      model.penalty(tf.nest.map_structure(lambda w: 2 * w, weights)),
      4 * tf.add_n(network.losses), rtol=1e-6,
  )


def test_constructor_draws_initial_weights_from_the_seed():
  model = keras.from_keras(_cnn, LOSS)
  first, again, other = (model.init(random.key(s)) for s in (0, 0, 1))
  for a, b in zip(first, again):
    np.testing.assert_array_equal(a, b)
  assert np.abs(first[0] - other[0]).max() > 0.01
  assert np.abs(first[-2] - other[-2]).max() > 0.01


def test_a_subclassed_model_needs_a_spec():
  """With one: `architectures_test`."""
  network = type('Own', (tf.keras.Model,), {})()
  with pytest.raises(ValueError, match='`x_spec` must be given'):
    keras.from_keras(network, LOSS)


class _Adding(L.Layer):
  """Adds a loss on what it passes on."""

  def call(self, x):
    self.add_loss(tf.reduce_mean(tf.square(x)))
    return x


class _Counting(L.Layer):
  """Counts its calls: state outside the weights."""

  def build(self, shape):
    self.count = self.add_weight(name='count', shape=[], trainable=False)

  def call(self, x):
    self.count.assign_add(1.0)
    return x


@pytest.mark.parametrize(
    'layer, message',
    [
        (
            lambda: L.BatchNormalization(renorm=True),
            'BatchNormalization itself, without renorm, or freeze the layer',
        ),
        (lambda: L.Dense(4, activity_regularizer='l2'), 'no activity regular'),
        (lambda: L.Lambda(tf.random.shuffle), 'pure function .*RandomShuffle'),
        (_Counting, r'must not write its variables .* \(_Counting\), which writes'),
        (_Adding, 'must add no losses in its layers, .* found one in layer'),
        (
            lambda: L.Dense(4, kernel_constraint='non_neg'),
            'no weight constraints, .* found NonNeg on .dense',
        ),
        (
            lambda: L.Lambda(lambda x: x - tf.reduce_mean(x, 0)),
            'must predict every row independently',
        ),
        (lambda: L.Dense(4, dtype=tf.float64), "dtypes .'float32', 'float64'"),
        (
            lambda: L.SpectralNormalization(L.Dense(4)),
            r'must run as a graph.*layer .* \(type SpectralNormalization\)',
        ),
        (
            lambda: L.Lambda(lambda x: tf.ensure_shape(tf.numpy_function(
                np.negative, [x], tf.float32
            ), [None, 4])), "pure function .*'PyFunc'.* no NumPy",
        ),
    ],
)
def test_raises_on_layer(layer, message):
  network = tf.keras.Sequential([L.InputLayer([4]), layer(), L.Dense(3)])
  with pytest.raises(ValueError, match=message):
    keras.from_keras(network, LOSS)


def _texts():
  inputs = tf.keras.Input([2], dtype=tf.string)
  return tf.keras.Model(inputs, L.Dense(3)(
      L.Flatten()(L.Embedding(5, 2)(L.Hashing(5)(inputs)))
  ))


@pytest.mark.parametrize('network, loss, message', [
    (
        lambda: tf.keras.Sequential(
            [L.InputLayer([5, 4], batch_size=2), L.LSTM(3, stateful=True)]
        ), LOSS, 'no stateful layers, found layer .lstm',
    ),
    (
        lambda: tf.keras.Sequential([L.InputLayer([4]), L.Flatten()]), LOSS,
        'must have weights.*found 0',
    ),
    (_texts, LOSS, 'must take numbers, .* hold no texts'),
    # The gradient of a sum is as many times larger as a batch has rows.
    (
        lambda: tf.keras.Sequential([L.InputLayer([4]), L.Dense(3)]),
        tf.keras.losses.SparseCategoricalCrossentropy(reduction='sum'),
        'mean over examples.*reduction="sum"',
    ),
])
def test_raises_on_model(network, loss, message):
  with pytest.raises(ValueError, match=message):
    keras.from_keras(network(), loss)


@pytest.mark.parametrize('step', ['train_step', 'compute_loss'])
def test_raises_on_a_model_that_trains_in_its_own_way(step):
  model_class = type('Own', (tf.keras.Sequential,), {
      step: lambda self, *arguments: {}
  })
  network = model_class([L.InputLayer([4]), L.Dense(3)])
  with pytest.raises(ValueError, match=f'no `{step}` of its own.* in Own'):
    keras.from_keras(network, LOSS)


class _Traced(tf.keras.Model):
  """Its methods are functions of TensorFlow, as in many tutorials."""

  def __init__(self):
    super().__init__()
    self.hidden, self.norm = L.Dense(5), L.BatchNormalization()
    self.classifier = L.Dense(3)

  @tf.function
  def encode(self, x, training):
    return tf.tanh(self.norm(self.hidden(x), training=training))

  @tf.function
  def call(self, x, training=False):
    for _ in tf.range(2):
      x = 2 * x
    return self.classifier(self.encode(x, training))


def test_functions_of_tensorflow_take_the_weights_of_each_call():
  """Their traces would hold those of the first; Keras' own stay as they are."""
  tf.keras.utils.set_random_seed(0)
  network = _Traced()
  rng = np.random.default_rng(0)
  x = rng.normal(size=[4, 4]).astype(np.float32)
  y = np.array([0, 1, 2, 1], np.int32)
  model = keras.from_keras(network, LOSS, x_spec=tf.TensorSpec([None, 4]))
  weights = model.initial_weights(tf.constant(0, tf.int64))
  batch = problems.batch(x, y)
  for _ in range(2):
    _, moves = model.loss_and_gradient(weights, batch)
    weights = [
        w - (1.0 if moves_alone else 0.1) * move
        for w, move, moves_alone in zip(weights, moves, model.statistics)
    ]
  network.compile(tf.keras.optimizers.SGD(0.1), LOSS)
  for _ in range(2):
    network.train_on_batch(x, y)
  pairs = zip(
      weights, [*network.trainable_variables, *network.non_trainable_variables],
      strict=True,
  )
  for ours, theirs in pairs:
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


class _Integers(tf.keras.Model):
  """Fails on floats."""

  def __init__(self):
    super().__init__()
    self.classifier = L.Dense(3)

  def call(self, x):
    return self.classifier(tf.reduce_sum(tf.one_hot(x, 9), 1))


def test_a_subclassed_model_is_built_by_what_it_takes():
  spec = tf.TensorSpec([None, 2], tf.int32)
  model = keras.from_keras(_Integers, LOSS, x_spec=spec)
  assert model.num_parameters == 9 * 3 + 3
