"""Keras models as people have them, against Keras' own training step."""

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.models import keras

L = tf.keras.layers
_RATE = 0.1
_ROWS = 3
_CLASSES = 3
_LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _sequential(shape, *layers, dtype=None):
  return tf.keras.Sequential([
      L.Input(shape, dtype=dtype), *layers, L.Dense(_CLASSES)
  ])


def _functional(shape, compute):
  inputs = tf.keras.Input(shape)
  return tf.keras.Model(inputs, L.Dense(_CLASSES)(compute(inputs)))


def _pooled(x):
  return L.GlobalAveragePooling2D()(x)


def _residual(x):
  y = L.BatchNormalization()(L.Conv2D(4, 3, padding='same', use_bias=False)(x))
  x = L.Conv2D(4, 1)(x)
  return _pooled(L.ReLU()(L.Add()([x, y])))


def _inception(x):
  towers = [
      L.Conv2D(2, size, padding='same', activation='relu')(x)
      for size in (1, 3, 5)
  ]
  return _pooled(L.Concatenate()(towers))


def _separable(x):
  x = L.BatchNormalization(scale=False)(L.SeparableConv2D(4, 3)(x))
  return _pooled(L.ReLU(6.0)(L.DepthwiseConv2D(3)(x)))


def _squeeze_excite(x):
  x = L.Conv2D(4, 3, activation='swish')(x)
  gate = L.Dense(4, 'sigmoid')(_pooled(x))
  return _pooled(L.Multiply()([x, L.Reshape([1, 1, 4])(gate)]))


def _dense_block(x):
  for _ in range(2):
    x = L.Concatenate()([x, L.Conv2D(2, 3, padding='same')(L.ReLU()(
        L.BatchNormalization()(x)
    ))])
  return _pooled(x)


def _attention(x):
  x = L.Add()([x, L.MultiHeadAttention(2, 3)(x, x)])
  x = L.LayerNormalization()(x)
  return L.GlobalAveragePooling1D()(L.Dense(5, 'gelu')(x))


def _shared(x):
  shared = L.Dense(4, 'tanh', name='shared')
  return shared(shared(x))


def _frozen(shape):
  network = _functional(shape, _residual)
  for layer in network.layers:
    layer.trainable = not isinstance(layer, L.BatchNormalization)
  return network


def _nested(shape):
  backbone = _functional(shape, _residual)
  return tf.keras.Sequential([L.Input(shape), backbone, L.Dense(_CLASSES)])


class _Subclassed(tf.keras.Model):
  """A model whose layers are attributes, with a normalization between."""

  def __init__(self):
    super().__init__()
    self.hidden, self.norm = L.Dense(6), L.BatchNormalization()
    self.classifier = L.Dense(_CLASSES)

  def call(self, x, training=None):
    return self.classifier(tf.nn.relu(self.norm(self.hidden(x), training)))


def _subclassed(shape):
  network = _Subclassed()
  network.build([None, *shape])
  return network


_IMAGE, _STEPS, _VECTOR = [8, 8, 2], [6, 4], [5]
ARCHITECTURES = dict(
    logistic=(_VECTOR, _sequential),
    mlp=(_VECTOR, lambda s: _sequential(s, L.Dense(6, 'relu'))),
    mlp_batch_norm=(_VECTOR, lambda s: _sequential(
        s, L.Dense(6), L.BatchNormalization(), L.ReLU()
    )),
    batch_norm_first=(_VECTOR, lambda s: _sequential(
        s, L.BatchNormalization(center=False, momentum=0.5)
    )),
    layer_norm=(_VECTOR, lambda s: _sequential(
        s, L.Dense(6), L.LayerNormalization(), L.ELU()
    )),
    prelu_regularized=(_VECTOR, lambda s: _sequential(
        s, L.Dense(6, kernel_regularizer='l2'), L.PReLU()
    )),
    shared_layer=([4], lambda s: _functional(s, _shared)),
    subclassed=(_VECTOR, _subclassed),
    cnn=(_IMAGE, lambda s: _sequential(
        s, L.Conv2D(4, 3, activation='relu'), L.MaxPool2D(), L.Flatten()
    )),
    cnn_group_norm=(_IMAGE, lambda s: _sequential(
        s, L.Conv2D(4, 3), L.GroupNormalization(2), L.ReLU(), L.Flatten()
    )),
    vgg_batch_norm=(_IMAGE, lambda s: _sequential(
        s, L.Conv2D(4, 3), L.BatchNormalization(), L.ReLU(), L.MaxPool2D(),
        L.Flatten(), L.Dense(6), L.BatchNormalization(), L.ReLU(),
    )),
    any_size=([None, None, 2], lambda s: _functional(s, _residual)),
    resnet=(_IMAGE, lambda s: _functional(s, _residual)),
    frozen_batch_norm=(_IMAGE, _frozen),
    nested_backbone=(_IMAGE, _nested),
    inception=(_IMAGE, lambda s: _functional(s, _inception)),
    mobilenet=(_IMAGE, lambda s: _functional(s, _separable)),
    squeeze_excite=(_IMAGE, lambda s: _functional(s, _squeeze_excite)),
    densenet=(_IMAGE, lambda s: _functional(s, _dense_block)),
    strided_transposed=(_IMAGE, lambda s: _sequential(
        s, L.Conv2D(3, 3, 2), L.Conv2DTranspose(2, 3), L.Flatten()
    )),
    temporal_convolution=(_STEPS, lambda s: _sequential(
        s, L.Conv1D(5, 3, padding='causal', dilation_rate=2),
        L.BatchNormalization(), L.ReLU(), L.GlobalMaxPooling1D(),
    )),
    time_distributed=(_STEPS, lambda s: _sequential(
        s, L.TimeDistributed(L.Dense(3)),
        L.TimeDistributed(L.BatchNormalization()), L.Flatten(),
    )),
    lstm=(_STEPS, lambda s: _sequential(s, L.LSTM(4))),
    gru_of_any_length=([None, 4], lambda s: _sequential(
        s, L.Bidirectional(L.GRU(3))
    )),
    transformer=(_STEPS, lambda s: _functional(s, _attention)),
)


_FAST = (
    'any_size', 'frozen_batch_norm', 'subclassed', 'temporal_convolution',
    'time_distributed', 'vgg_batch_norm',
)


def _examples(shape):
  rng = np.random.default_rng(0)
  known = [size or 8 for size in shape]
  x = rng.normal(1, 2, [_ROWS, *known]).astype(np.float32)
  return x, np.arange(_ROWS, dtype=np.int32) % _CLASSES


def _made(name):
  """Returns (network, its model, x, y)."""
  tf.keras.utils.set_random_seed(0)
  shape, build = ARCHITECTURES[name]
  network = build(shape)
  x, y = _examples(shape)
  spec = tf.TensorSpec([None, *shape])  # Subclassed models do not tell.
  return network, keras.from_keras(network, _LOSS, x_spec=spec), x, y


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=() if name in _FAST else pytest.mark.slow)
    for name in ARCHITECTURES
])
def test_a_step_is_that_of_keras(name):
  """With a row of filler, and what it predicts afterwards."""
  network, model, x, y = _made(name)
  filled = lambda array: np.concatenate([array, array[-1:]])
  batch = problems.batch(filled(x), filled(y), [True] * _ROWS + [False])
  weights = model.initial_weights(tf.constant(0, tf.int64))
  _, gradient = model.loss_and_gradient(weights, batch)
  own_rate = model.statistics or (False,) * len(gradient)
  weights = [
      w - (1.0 if moves_alone else _RATE) * g
      for w, g, moves_alone in zip(weights, gradient, own_rate)
  ]
  network.compile(tf.keras.optimizers.SGD(_RATE), _LOSS)
  network.train_on_batch(x, y)
  own = [*network.trainable_variables, *network.non_trainable_variables]
  for ours, theirs in zip(weights, own):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
  np.testing.assert_allclose(
      model.predict(tuple(weights), x, False, tf.zeros([2], tf.int64)),
      network(x, training=False), rtol=1e-4, atol=1e-5,
  )
