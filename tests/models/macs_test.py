"""Multiply-accumulates of models: closed forms and published numbers."""

import dataclasses

import pytest
import tensorflow as tf

from tff_pers.models import factorized
from tff_pers.models import keras
from tff_pers.models import macs
from tff_pers.models import zoo

COLOR = tf.TensorSpec([None, 32, 32, 3], tf.float32)
VECTOR = tf.TensorSpec([None, 5], tf.float32)


def _share(counts, *stages):
  found = sum(n for name, n in counts.items() if name.startswith(stages))
  return 100 * found / sum(counts.values())


@pytest.mark.parametrize(
    'name, num_classes, side, width, millions',
    [
        ('resnet18', 10, 32, 1.0, 555.42),
        ('resnet34', 100, 32, 1.0, 1159.45),
        ('resnet18', 10, 32, 0.35, 67.99),
        ('resnet34', 200, 64, 1.0, 4637.69),
        ('resnet18', 10, 32, 0.62, 214.52),
        ('resnet18', 10, 32, 0.5, 139.30),
        ('resnet34', 100, 32, 0.64, 476.26),
        ('resnet34', 100, 32, 0.5, 290.32),
        ('resnet34', 100, 32, 0.4, 186.32),
        ('resnet34', 200, 64, 0.64, 1904.96),
        ('resnet34', 200, 64, 0.5, 1161.22),
        ('resnet34', 200, 64, 0.4, 745.22),
    ],
)
def test_published_macs(name, num_classes, side, width, millions):
  """Check A2 of FedHM, to 0.01 M."""
  x_spec = tf.TensorSpec([None, side, side, 3])
  model = zoo.build(name, x_spec, num_classes, width=width)
  counts = macs.count(model)
  assert sum(counts.values()) / 1e6 == pytest.approx(millions, abs=0.01)
  if (name, width) == ('resnet34', 1.0):
    # Figure 7: stages 3 and 4 have 55.7 % of the MACs.
    assert _share(counts, 'stage3/', 'stage4/') == pytest.approx(55.7, abs=0.3)


@pytest.mark.parametrize(
    'name, num_classes, side, ratio, millions',
    [
        ('resnet18', 10, 32, 1 / 2, 259.72),
        ('resnet18', 10, 32, 1 / 4, 171.64),
        ('resnet18', 10, 32, 1 / 8, 127.60),
        ('resnet34', 100, 32, 1 / 2, 744.21),
        ('resnet34', 100, 32, 1 / 4, 630.97),
        ('resnet34', 100, 32, 1 / 8, 574.34),
        ('resnet34', 100, 32, 1 / 12, 555.17),
        ('resnet34', 100, 32, 1 / 64, 524.80),
        ('resnet34', 200, 64, 1 / 2, 2976.75),
        ('resnet34', 200, 64, 1 / 4, 2523.76),
        ('resnet34', 200, 64, 1 / 8, 2297.27),
    ],
)
def test_published_macs_of_tiers(name, num_classes, side, ratio, millions):
  """Check A2 of FedHM, to 0.01 M."""
  model = zoo.build(name, tf.TensorSpec([None, side, side, 3]), num_classes)
  hybrid = factorized.Factorization(model, ratio).model
  assert macs.total(hybrid) / 1e6 == pytest.approx(millions, abs=0.01)


@pytest.mark.parametrize(
    'name, share', [('resnet34', 93.5), ('resnet18', 93.9)]
)
def test_most_parameters_are_in_the_last_stages(name, share):
  """Check A2 of FedHM, Figure 7: stages 3 and 4."""
  model = zoo.build(name, COLOR, dict(resnet34=100, resnet18=10)[name])
  sizes = {
      weight.name: tf.TensorShape(weight.shape).num_elements()
      for weight in model.layers
  }
  assert _share(sizes, 'stage3/', 'stage4/') == pytest.approx(share, abs=0.3)


def test_layers_of_a_cnn():
  # 5 x 5 windows at 28 x 28, 3 x 3 at 12 x 12; then 4 x 4 x 64 inputs.
  assert macs.count(zoo.build('floral_cnn', COLOR, 10)) == {
      'conv_0': 28 * 28 * 32 * 75, 'conv_1': 12 * 12 * 64 * 9 * 32,
      'dense_2': 1024 * 64, 'dense_3': 640,
  }
  # Without normalizations, activations and biases.
  assert macs.total(zoo.build('mlp_20', VECTOR, 3)) == 5 * 20 + 20 * 3


def test_keras_model():
  layers = tf.keras.layers
  network = tf.keras.Sequential([
      layers.Input([8, 8, 2]), layers.Conv2D(4, 3, strides=2, use_bias=False),
      layers.DepthwiseConv2D(3, use_bias=False), layers.Flatten(),
      layers.Dense(3),
  ])
  model = keras.from_keras(network, 'sparse_categorical_crossentropy')
  counts = macs.count(model)
  assert list(counts.values()) == [9 * 4 * 18, 1 * 4 * 9, 4 * 3]


@pytest.mark.parametrize('layer, expected', [
    # Each of 4 x 4 x 2 inputs is spread over 3 x 3 x 5 outputs.
    (tf.keras.layers.Conv2DTranspose(5, 3, strides=2), 4 * 4 * 2 * 9 * 5),
    (tf.keras.layers.Conv2D(5, (3, 2), dilation_rate=2, padding='same'),
     4 * 4 * 5 * 6 * 2),
    # Positions 0, 2 and 1, 3 of both axes: outputs of 2 x 2.
    (tf.keras.layers.Conv2D(5, 2, dilation_rate=2), 2 * 2 * 5 * 4 * 2),
])
def test_transposed_and_dilated_convolutions(layer, expected):
  network = tf.keras.Sequential([
      tf.keras.layers.Input([4, 4, 2]), layer,
      tf.keras.layers.GlobalAveragePooling2D(),
  ])
  model = keras.from_keras(network, 'mse', y_spec=tf.TensorSpec([None, 5]))
  assert macs.total(model) == expected


def test_products_of_activations_belong_to_no_layer():
  base = zoo.build('mlp_20', VECTOR, 3)

  def predict(weights, x, training, seed):
    logits = base.predict(weights, x, training, seed)
    return tf.reduce_sum(tf.einsum('bi,bj->bij', logits, x), axis=2)

  model = dataclasses.replace(base, predict=predict)
  assert macs.count(model)[''] == 3 * 5


def test_products_of_weights_alone_are_not_per_example():
  base = zoo.build('logistic_regression', VECTOR, 3)

  def predict(weights, x, training, seed):
    kernel = tf.matmul(weights[0], tf.eye(3))
    return base.predict((kernel, weights[1]), x, training, seed)

  model = dataclasses.replace(base, predict=predict)
  assert macs.count(model) == {'dense_0': 15}


def test_functions_that_are_called_count():
  base = zoo.build('mlp_20', VECTOR, 3)
  model = dataclasses.replace(
      base, predict=lambda weights, x, training, seed: tf.function(
          lambda weights, x: base.predict(weights, x, training, seed)
      )(weights, x)
  )
  assert macs.count(model) == macs.count(base)


def test_raises_on_loops():
  network = tf.keras.Sequential(
      [tf.keras.layers.Input([4, 2]), tf.keras.layers.LSTM(3)]
  )
  model = keras.from_keras(network, 'mse', y_spec=tf.TensorSpec([None, 3]))
  with pytest.raises(ValueError, match='MACs .* without loops, found'):
    macs.count(model)
