"""Our functional models and TFF's, both ways."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import problems
from tff_pers.core import random
from tff_pers.models import loss_functions
from tff_pers.models import tff_models
from tff_pers.models import zoo

VECTOR = tf.TensorSpec([None, 3], tf.float32)
LABELS = tf.TensorSpec([None], tf.int32)
KERNEL = np.float32([[1, 0], [0, 2], [1, 1]])


def _softmax_regression(input_spec=(VECTOR, LABELS), trainable=(KERNEL,)):
  """x (kernel * offset) in TFF's form, with `offset` not trainable."""

  @tf.function
  def predict(weights, x, training):
    del training  # Unused.
    (kernel,), (offset,) = weights
    return tf.matmul(x, kernel) + offset

  def loss(output, label, sample_weight=None):
    del sample_weight  # Unused.
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(label, output)
    )

  return tff.learning.models.FunctionalModel(
      initial_weights=(trainable, (np.float32([0, 3]),)),
      predict_on_batch_fn=predict, loss_fn=loss, input_spec=input_spec,
  )


def _rows():
  rng = np.random.default_rng(0)
  x = rng.normal(size=[4, 3]).astype(np.float32)
  return x, rng.integers(2, size=4).astype(np.int32)


def test_from_tff_computes_the_same():
  model = tff_models.from_tff_functional_model(_softmax_regression())
  x, y = _rows()
  weights = model.init(random.key(0))
  np.testing.assert_array_equal(weights[0], KERNEL)
  logits = model.predict(weights, x, True, random.key(0))
  np.testing.assert_allclose(logits, x @ KERNEL + [0, 3], rtol=1e-6)
  expected = loss_functions.sparse_categorical_crossentropy(y, logits)
  np.testing.assert_allclose(
      model.example_loss(y, logits), expected, rtol=1e-5
  )
  assert list(model.metrics) == ['accuracy'] and model.probabilities is False
  assert model.labels.first_wrong(np.int32([0, 1, 2])) == (2, 2)


def test_from_tff_has_the_masked_gradient_in_a_tff_computation():
  """The loss of a short last batch counts its unmasked rows only."""
  model = tff_models.from_tff_functional_model(_softmax_regression())
  x, y = _rows()
  mask = np.array([True, True, True, False])

  @tff.tensorflow.computation(model.weights_type)
  def gradient(weights):
    return model.loss_and_gradient(weights, problems.batch(x, y, mask))[1]

  logits = x[mask] @ KERNEL + [0, 3]
  shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
  expected = x[mask].T @ (shares - np.eye(2)[y[mask]]) / 3
  np.testing.assert_allclose(
      gradient((KERNEL,))[0], expected, rtol=1e-5, atol=1e-6
  )


@pytest.mark.parametrize('said, expected', [(None, True), (False, False)])
def test_from_tff_knows_probabilities(said, expected):
  """TFF's model does not say so; the oracle is Keras."""

  @tf.function
  def predict(weights, x, training):
    del training  # Unused.
    return tf.sigmoid(tf.matmul(x, weights[0][0]))

  column = tf.TensorSpec([None, 1], tf.int32)
  model = tff_models.from_tff_functional_model(
      tff.learning.models.FunctionalModel(
          initial_weights=((KERNEL[:, :1],), ()), predict_on_batch_fn=predict,
          loss_fn=lambda output, label, sample_weight=None: tf.reduce_mean(
              tf.keras.losses.binary_crossentropy(label, output)
          ), input_spec=(VECTOR, column),
      ), metrics=['accuracy'], probabilities=said,
  )
  x, y = _rows()
  p = model.predict(model.init(random.key(0)), x, False, random.key(0))
  hits = tf.keras.metrics.binary_accuracy(y[:, None], p)
  assert 0 < np.mean(hits) < 1 and model.probabilities is expected
  found = model.metrics['accuracy'](y[:, None], p)
  assert np.array_equal(found, hits) is expected


@pytest.mark.parametrize(
    'arguments, message',
    [
        (dict(input_spec=((VECTOR, VECTOR), LABELS)), '`x` must be a single'),
        (dict(input_spec=(VECTOR, [LABELS])), '`y` must be a single tensor'),
        (dict(trainable=()), 'must have trainable weights, found none'),
    ],
)
def test_from_tff_raises_on(arguments, message):
  with pytest.raises(ValueError, match=message):
    tff_models.from_tff_functional_model(_softmax_regression(**arguments))


def test_to_tff_raises_on_penalty():
  with pytest.raises(ValueError, match='no penalty.*found one in mlp.*l2=0'):
    tff_models.to_tff_functional_model(zoo.build('mlp', VECTOR, 3, l2=0.1))


def test_to_tff_trains_in_tff_learning():
  """One round of TFF's FedAvg from zero is one step of softmax regression."""
  model = zoo.build('logistic_regression', VECTOR, 3)
  x, y = _rows()
  process = tff.learning.algorithms.build_weighted_fed_avg(
      tff_models.to_tff_functional_model(model),
      client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5),
  )
  dataset = tf.data.Dataset.from_tensor_slices(
      collections.OrderedDict(x=x, y=y)
  ).batch(4)
  output = process.next(process.initialize(), [dataset])
  kernel, bias = process.get_model_weights(output.state).trainable
  residual = np.full([4, 3], 1 / 3) - np.eye(3)[y]
  np.testing.assert_allclose(kernel, -0.5 * x.T @ residual / 4, rtol=1e-5)
  np.testing.assert_allclose(bias, -0.5 * residual.mean(axis=0), rtol=1e-5)
  metrics = output.metrics['client_work']['train']
  np.testing.assert_allclose(metrics['loss'], np.log(3), rtol=1e-5)
  np.testing.assert_allclose(metrics['accuracy'], np.mean(y == 0))


def test_to_tff_draws_fresh_dropout():
  spec = tf.TensorSpec([None, 8, 8, 1], tf.float32)
  model = tff_models.to_tff_functional_model(zoo.build('emnist_cnn', spec, 3))
  x = np.ones([2, 8, 8, 1], np.float32)
  predict = lambda training: model.predict_on_batch(
      model.initial_weights, x, training
  ).numpy()
  assert np.any(predict(True) != predict(True))
  np.testing.assert_array_equal(predict(False), predict(False))
