"""The local gradient, and the work that PERM's lines take (perm check 14)."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.data import client_data
from tff_pers.models import keras
from tff_pers.models import zoo

_SEED = tf.constant([3, 4], tf.int64)


def _model(x_spec=tf.TensorSpec([None, 2], tf.float64)):
  return zoo.build('logistic_regression', x_spec, 2, dtype=tf.float64)


def _client(num_examples):
  rng = np.random.default_rng(num_examples)
  return client_data.dense(
      0, rng.standard_normal((num_examples, 2)),
      rng.integers(0, 2, num_examples).astype(np.int32),
  )


def _count_examples(model, counted):
  """Returns `model`; examples whose loss is computed are added to `counted`."""

  def example_loss(y, predictions):
    def count(labels):
      counted.append(len(labels))
      return labels
    y = tf.ensure_shape(tf.numpy_function(count, [y], tf.int32), y.shape)
    return model.example_loss(y, predictions)

  return dataclasses.replace(model, example_loss=example_loss)


def test_one_row_of_a_convolution():
  """Of an empty half, TensorFlow has no gradient there."""
  network = tf.keras.Sequential([
      tf.keras.layers.Conv2D(2, 2), tf.keras.layers.Flatten(),
      tf.keras.layers.Dense(2),
  ])
  model = keras.from_keras(
      network, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      x_spec=tf.TensorSpec([None, 3, 3, 1], tf.float32),
  )
  weights = model.init(_SEED)
  data = client_data.dense(
      0, np.ones((1, 3, 3, 1), np.float32), np.zeros(1, np.int32)
  )
  found = tf.function(lambda: local_gradient.compute(
      model, weights, tf.nest.map_structure(tf.constant, data), seed=_SEED
  ))()
  with tf.GradientTape() as tape:
    tape.watch(weights)
    predictions = model.predict(weights, data['examples']['x'], False, _SEED)
    loss = -tf.nn.log_softmax(predictions)[0, 0]
  assert (found.num_rows, found.variance) == (1, 0)
  np.testing.assert_allclose(found.loss, loss, rtol=1e-6)
  for one, other in zip(found.gradient, tape.gradient(loss, weights)):
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


def test_gradient_evaluations():
  """perm check 14: K minibatches per visit, n_i / B more for the gradient."""
  num_examples, num_steps, batch_size = 100, 20, 20
  counted = []
  model = _count_examples(_model(), counted)
  weights = model.init(_SEED)
  data = tf.nest.map_structure(tf.constant, _client(num_examples))
  tf.function(lambda: local_sgd.train(
      model, weights, data, learning_rate=0.1, seed=_SEED,
      batch_size=batch_size, num_steps=num_steps,
  ))()
  assert sum(counted) == num_steps * batch_size
  del counted[:]
  tf.function(
      lambda: local_gradient.compute(model, weights, data, seed=_SEED)
  )()
  assert sum(counted) == num_examples


def test_chunks_do_not_change_the_gradient():
  """600 examples in three chunks, with a penalty, against one big batch."""
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 2], tf.float64), 2,
      dtype=tf.float64, l2=0.3,
  )
  weights = (tf.constant([[0.4], [-1.0]], tf.float64),
             tf.constant([0.2], tf.float64))
  data = _client(600)
  found = local_gradient.compute(
      model, weights, tf.nest.map_structure(tf.constant, data), seed=_SEED
  )
  batch = client_data.Batch(
      tf.constant(data['examples']['x']), tf.constant(data['examples']['y']),
      tf.ones([600], tf.bool), _SEED,
  )
  loss, gradient = model.loss_and_gradient(weights, batch, training=False)
  np.testing.assert_allclose(found.loss, loss, rtol=1e-12)
  for actual, expected in zip(found.gradient, gradient):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-14)


def test_dropout_is_off():
  """perm trap 7: all gradients at one point, in one mode."""
  plain = _model()

  def predict(weights, x, training, seed):
    if training:  # As dropout of a rate of a half does.
      keep = tf.random.stateless_uniform(tf.shape(x), seed, dtype=x.dtype) < 0.5
      x = tf.where(keep, 2 * x, tf.zeros_like(x))
    return plain.predict(weights, x, training, seed)

  weights = tf.nest.map_structure(tf.ones_like, plain.init(_SEED))
  data = tf.nest.map_structure(tf.constant, _client(20))
  found, expected = (
      local_gradient.compute(model, weights, data, seed=_SEED)
      for model in (dataclasses.replace(plain, predict=predict), plain)
  )
  for a, b in zip(found.gradient, expected.gradient):
    np.testing.assert_array_equal(a, b)
  assert found.loss == expected.loss and found.variance == expected.variance


def test_one_example_has_a_gradient_and_no_variance():
  model = _model()
  found = local_gradient.compute(
      model, model.init(_SEED), _client(1), seed=_SEED
  )
  assert found.num_rows == 1 and found.variance == 0
  assert np.any(found.gradient[0] != 0)


@pytest.mark.parametrize('num_examples', [2, 3])
def test_variance_is_that_of_two_halves(num_examples):
  """||g_A - g_B||^2 / (1/n_A + 1/n_B); A has two of three rows, any two."""
  model, data = _model(), _client(num_examples)
  weights = model.init(_SEED)
  x, y = (data['examples'][name] for name in 'xy')
  # From zero weights every probability is one half.
  of_rows = (0.5 - y)[:, None] * np.column_stack([x, np.ones(len(x))])
  expected = []
  for alone in range(num_examples):
    others = np.delete(of_rows, alone, axis=0)
    apart = np.sum((others.mean(0) - of_rows[alone]) ** 2)
    expected.append(apart / (1 + 1 / len(others)))
  found = local_gradient.compute(model, weights, data, seed=_SEED)
  assert np.isclose(found.variance, expected, rtol=1e-9).any()


def test_no_example_has_no_gradient():
  model = _model()
  found = local_gradient.compute(
      model, model.init(_SEED), _client(0), seed=_SEED
  )
  assert found.num_rows == 0 and found.loss == 0
  assert all(np.all(g == 0) for g in found.gradient)
