"""Tables of models: independent starts, and what their mixtures predict."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.models import keras
from tff_pers.models import mixtures
from tff_pers.models import zoo

_VECTOR = tf.TensorSpec([None, 5], tf.float32)


def _given_logits(num_outputs):
  """A model that outputs its weights, whatever x is."""
  model = zoo.build('mlp_20', _VECTOR, num_outputs, dtype=tf.float64)
  return dataclasses.replace(
      model, init=lambda seed: (tf.zeros([num_outputs], tf.float64),),
      predict=lambda w, x, training, seed: tf.tile(
          w[0][None], [tf.shape(x)[0], 1]
      ),
  )


def _outputs(model, mix, mixing, logits):
  mixed = mixtures.mixture(model, len(mixing), mix)
  weights = dict(
      mixing=tf.constant(mixing, tf.float64),
      models=(tf.constant(logits, tf.float64),),
  )
  return mixed.predict(weights, tf.zeros([1, 5]), False, random.key(0))[0]


def test_probabilities_and_logits_may_disagree():
  """Baselines B19, 4.3: argmin example, pi = (.4, .6)."""
  model, pi = _given_logits(3), [0.4, 0.6]
  logits = [[4.0, 0, 0], [0, 3, 2.9]]
  by_logits = tf.nn.softmax(_outputs(model, 'logits', pi, logits))
  np.testing.assert_allclose(
      by_logits, [0.296588, 0.362254, 0.341158], rtol=0, atol=1e-6
  )
  log_p = _outputs(model, 'probabilities', pi, logits)
  np.testing.assert_allclose(
      tf.exp(log_p), [0.401148, 0.314032, 0.284820], rtol=0, atol=1e-6
  )
  np.testing.assert_allclose(tf.nn.softmax(log_p), tf.exp(log_p), rtol=1e-12)


def test_probabilities_of_one_logit_are_mixed_as_odds():
  model = _given_logits(2)
  z = np.array([[2.0], [-1.0]])
  p = 0.3 / (1 + np.exp(-2)) + 0.7 / (1 + np.exp(1))
  np.testing.assert_allclose(
      _outputs(model, 'probabilities', [0.3, 0.7], z), [np.log(p / (1 - p))],
      rtol=1e-12,
  )


@pytest.mark.parametrize('activation, loss, y_spec, outputs', [
    ('softmax', 'sparse_categorical_crossentropy',
     tf.TensorSpec([None], tf.int32), 3),
    ('sigmoid', 'binary_crossentropy', tf.TensorSpec([None], tf.int32), 1),
    (None, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
     tf.TensorSpec([None], tf.int32), 3),
    (None, tf.keras.losses.BinaryCrossentropy(from_logits=True),
     tf.TensorSpec([None, 3], tf.int32), 3),
])
def test_what_keras_models_predict_is_mixed_as_what_it_is(
    activation, loss, y_spec, outputs
):
  """The loss of the mixture is -log sum_c pi_c p_c, whatever comes out."""
  network = tf.keras.Sequential([tf.keras.layers.Dense(
      outputs, activation, input_shape=(5,), bias_initializer='normal'
  )])
  model = keras.from_keras(network, loss, y_spec=y_spec)
  rng = np.random.default_rng(0)
  x = rng.normal(size=[4, 5]).astype(np.float32)
  kernels = rng.normal(size=[2, 5, outputs]).astype(np.float32)
  bias = np.zeros([2, outputs], np.float32)
  mixed = mixtures.mixture(model, 2, 'probabilities')
  y = rng.integers(2, size=[4, *y_spec.shape[1:]]).astype(np.int32)
  found = mixed.example_loss(y, mixed.predict(
      dict(mixing=tf.constant([0.3, 0.7]), models=(kernels, bias)), x, False,
      random.key(0),
  ))
  z = np.float64(x) @ kernels
  if outputs == 3 and len(y_spec.shape) == 1:
    p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
    p = np.take_along_axis(p, y[None, :, None].repeat(2, 0), -1)
  else:
    p = 1 / (1 + np.exp(-z))
    p = np.where(y.reshape(4, -1), p, 1 - p)
  p = 0.3 * p[0] + 0.7 * p[1]
  np.testing.assert_allclose(found, -np.log(p).mean(-1), rtol=1e-4)


def test_regression_is_mixed_by_prediction():
  model = zoo.build('linear_regression', _VECTOR, 0)
  models = (tf.ones([2, 5, 1]) * [[[1.0]], [[3.0]]], tf.zeros([2, 1]))
  for mix in ('logits', 'probabilities'):
    mixed = mixtures.mixture(model, 2, mix)
    weights = dict(mixing=tf.constant([0.25, 0.75]), models=models)
    batch = problems.batch(np.ones([1, 5], np.float32), np.float32([0]))
    loss = mixed.batch_loss(weights, batch)
    np.testing.assert_allclose(loss, (5 * 0.25 + 15 * 0.75) ** 2, rtol=1e-6)


@pytest.mark.parametrize('name', ['mlp_20', 'logistic_regression'])
def test_initial_models_are_distinct_and_the_first_is_the_run_s(name):
  """Floral trap 6; also where the model itself starts at zero."""
  model = zoo.build(name, _VECTOR, 3)
  models = mixtures.initial_models(model, 3, 7)
  for leaf, first in zip(models, model.initial_weights(7)):
    np.testing.assert_array_equal(leaf[0], first)
  kernel, bias = models[0].numpy(), models[1].numpy()
  for a, b in ((0, 1), (0, 2), (1, 2)):
    assert np.abs(kernel[a] - kernel[b]).max() > 0.1
  np.testing.assert_array_equal(bias, np.zeros_like(bias))
  # Uniform up to 1 / sqrt(5), or Glorot's sqrt(6 / (5 + 20)).
  assert np.abs(kernel).max() <= 0.5
  again = mixtures.initial_models(model, 3, 7)
  np.testing.assert_array_equal(again[0], models[0])
  other = mixtures.initial_models(model, 3, 8)
  assert not np.array_equal(other[0][1], models[0][1])


def test_another_attempt_draws_all_models_anew():
  model = zoo.build('logistic_regression', _VECTOR, 3)
  kernels = np.concatenate([
      mixtures.initial_models(model, 2, 7, attempt)[0] for attempt in (0, 1)
  ])
  for i, a in enumerate(kernels):
    assert all(np.abs(a - b).max() > 0.1 for b in kernels[:i])
  assert np.any(kernels[2])  # Not the run's w^0, which is zero here.


def test_models_without_matrices_are_perturbed_too():
  model = problems.s2(start=3.0).model
  table = mixtures.initial_models(model, 3, 0)[0].numpy()
  assert table[0] == 3.0 and len(set(table[:, 0].tolist())) == 3
  assert np.all(np.abs(table - 3) <= 1)
