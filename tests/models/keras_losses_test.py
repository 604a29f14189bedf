"""Losses and metrics of Keras models, against Keras and NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.core import random
from tff_pers.models import example_values
from tff_pers.models import keras
from tff_pers.models import keras_losses

L = tf.keras.layers
K = tf.keras.losses
Y = tf.constant([1.0, 2, -1])
ONE_OUTPUT = tf.constant([[3.0], [2], [0.5]])
LABELS = tf.TensorSpec([None], tf.int32)
# Before the others: Keras' objects draw a name at their first use.
SPARSE = K.SparseCategoricalCrossentropy(from_logits=True)
BINARY = K.BinaryCrossentropy(from_logits=True)
SCALE = tf.Variable(2.0)


class _Pinball(K.Loss):

  def call(self, y, p):
    return tf.reduce_mean(tf.maximum(0.5 * (y - p), 0.5 * (p - y)), axis=-1)


def _network(outputs, activation=None, **options):
  return tf.keras.Sequential(
      [L.InputLayer([4]), L.Dense(outputs, activation, **options)]
  )


def _trial(y_spec, outputs):
  return example_values.trial(y_spec, tf.TensorSpec([None, *outputs]))


@pytest.mark.parametrize('loss, expected', [
    ('mse', [4, 0, 2.25]),
    (K.mean_squared_error, [4, 0, 2.25]),
    (K.MeanSquaredError(), [4, 0, 2.25]),
    ('mae', [2, 0, 1.5]),
    (K.Huber(1.0), [1.5, 0, 1]),
    (lambda y, p: tf.abs(y - p), [2, 0, 1.5]),
    (lambda y, p: tf.reduce_mean(tf.abs(y - p), -1), [2, 0, 1.5]),
    (lambda y, p: tf.abs(y - p[:, 0]), [2, 0, 1.5]),
    (lambda y, p: tf.abs(tf.reshape(p, [-1]) - tf.squeeze(y)), [2, 0, 1.5]),
    (_Pinball(), [1, 0, 0.75]),
])
def test_labels_do_not_broadcast_with_one_output(loss, expected):
  model = keras.from_keras(
      _network(1), loss, y_spec=tf.TensorSpec([None], tf.float32)
  )
  np.testing.assert_allclose(model.example_loss(Y, ONE_OUTPUT), expected)


def test_metrics_do_not_broadcast_with_one_output_either():
  network = _network(1, 'sigmoid')
  labels = np.array([0, 1, 1, 0, 1])
  x = np.random.default_rng(0).normal(size=[5, 4]).astype(np.float32)
  metrics = dict(
      hits=tf.keras.metrics.binary_accuracy,
      error=tf.keras.metrics.mean_absolute_error,
      own=lambda y, p: tf.equal(p > 0.5, y > 0),
  )
  model = keras.from_keras(
      network, 'binary_crossentropy', y_spec=LABELS, metrics=metrics
  )
  p = network(x)[:, 0].numpy()
  sums = model.metric_sums(
      model.init(random.key(0)), problems.batch(x, labels.astype(np.int32))
  )
  hits = np.sum((p > 0.5) == labels)
  np.testing.assert_allclose(
      [sums[name] for name in metrics],
      [hits, np.abs(p - labels).sum(), hits], rtol=1e-6,
  )


@pytest.mark.parametrize('y_spec, outputs, loss, activation, expected', [
    (LABELS, 3, SPARSE, None, ('accuracy', 2 / 3)),
    (tf.TensorSpec([None, 1], tf.int32), 3, SPARSE, None, ('accuracy', 2 / 3)),
    (LABELS, 1, 'binary_crossentropy', 'sigmoid', ('accuracy', 1 / 3)),
    (LABELS, 1, 'mse', 'sigmoid', ('accuracy', 1 / 3)),
    (LABELS, 1, BINARY, None, ('accuracy', 2 / 3)),
    (tf.TensorSpec([None, 2], tf.int32), 2, BINARY, None,
     ('binary_accuracy', 4 / 6)),
    (tf.TensorSpec([None, 3], tf.int32), 3, 'categorical_crossentropy',
     'softmax', ('categorical_accuracy', 1 / 3)),
    (tf.TensorSpec([None], tf.float32), 1, 'mse', None, None),
    (LABELS, 1, 'mse', None, None),
    (tf.TensorSpec([None, 3], tf.int32), 3, 'mse', None, None),
])
def test_default_metrics_fit_the_labels(
    y_spec, outputs, loss, activation, expected
):
  model = keras.from_keras(_network(outputs, activation), loss, y_spec=y_spec)
  if expected is None:
    assert not model.metrics
    return
  y = np.array({
      (): [0, 1, 0] if outputs == 1 else [2, 1, 0],
      (1,): [[2], [1], [0]],
      (2,): [[0, 1], [1, 1], [0, 0]],
      (3,): np.eye(3)[[2, 0, 2]],
  }[tuple(y_spec.shape[1:])])
  predictions = {
      1: [[0.3], [0.7], [-0.2]] if activation is None else
         [[0.6], [0.7], [0.8]],
      2: [[-0.5, 0.2], [0.2, -0.5], [-1, 2]],
      3: [[0.1, 0.2, 0.7], [0.1, 0.8, 0.1], [0.2, 0.5, 0.3]],
  }[outputs]
  name, value = expected
  assert list(model.metrics) == [name]
  found = model.metrics[name](
      tf.constant(y, tf.int32), tf.constant(predictions)
  )
  assert found.shape == [3]
  np.testing.assert_allclose(np.mean(found), value)


@pytest.mark.parametrize('steps', [3, 256])
def test_accuracy_of_a_sequence_is_the_mean_over_its_steps(steps):
  network = tf.keras.Sequential([L.Embedding(5, 4, input_length=steps),
                                 L.Dense(5)])
  model = keras.from_keras(
      network, SPARSE, y_spec=tf.TensorSpec([None, steps], tf.int32)
  )
  rng = np.random.default_rng(0)
  y, scores = rng.integers(5, size=[steps, steps]), rng.normal(
      size=[steps, steps, 5]
  )
  np.testing.assert_allclose(
      model.metrics['accuracy'](tf.constant(y), tf.constant(scores)),
      (scores.argmax(-1) == y).mean(axis=1), rtol=1e-6,
  )


@pytest.mark.parametrize('size', range(1, 10))
def test_rows_of_a_trial_differ(size):
  """Also those of labels: a loss that compares them must not pass."""
  several = _trial(tf.TensorSpec([None, size], tf.int32), [size])
  steps = _trial(tf.TensorSpec([None, size], tf.int32), [size, 3])
  # A single label has only two kinds.
  assert len(np.unique(several.y, axis=0)) == (2 if size == 1 else 3)
  assert len(np.unique(steps.y, axis=0)) == 3


def test_predictions_may_be_numbers():
  """As Keras: a mean over no axis is the number itself."""
  for loss, expected in (('mae', [2, 0, 1.5]), ('mse', [4, 0, 2.25])):
    network = tf.keras.Sequential(
        [L.InputLayer([4]), L.Dense(1), L.Reshape([])]
    )
    model = keras.from_keras(
        network, loss, y_spec=tf.TensorSpec([None], tf.float32)
    )
    np.testing.assert_allclose(
        model.example_loss(Y, ONE_OUTPUT[:, 0]), expected
    )


class _NoLayers(tf.keras.Model):
  """Its only weight is its own."""

  def build(self, shape):
    self.w = self.add_weight(name='w', shape=[4, 1])
    self.built = True

  def call(self, x):
    return tf.sigmoid(tf.matmul(x, self.w))


@pytest.mark.parametrize('make', [
    _NoLayers,
    lambda: tf.keras.Sequential([_network(1), L.Activation('sigmoid')]),
    lambda: tf.keras.Sequential([_network(1, 'sigmoid'), L.Reshape([])]),
])
def test_what_a_model_ends_with_is_what_it_predicts(make):
  """Whatever its layers are; by an own loss, which does not say so."""
  model = keras.from_keras(
      make(), lambda y, p: tf.square(tf.cast(y, p.dtype) - p), y_spec=LABELS,
      x_spec=tf.TensorSpec([None, 4]),
  )
  assert list(model.metrics) == ['accuracy'] and model.probabilities


def _own_loss(y, p):
  y = tf.cast(tf.reshape(y, [-1, 1]), p.dtype)
  return tf.reduce_mean(tf.square(y - p), -1)


def _average(*layers):
  x = tf.keras.Input([4])
  return tf.keras.Model(x, L.Average()([layer(x) for layer in layers]))


def test_an_average_of_sigmoids_has_the_accuracy_of_keras():
  network = _average(
      L.Dense(1, 'sigmoid', bias_initializer='ones'), _network(1, 'sigmoid')
  )
  model = keras.from_keras(
      network, _own_loss, y_spec=LABELS, metrics=['accuracy']
  )
  x = np.random.default_rng(0).normal(size=[9, 4]).astype(np.float32)
  y = np.array([0, 1, 0, 0, 1, 0, 1, 0, 0], np.int32)
  found = model.metrics['accuracy'](y, tf.constant(network(x)))
  expected = tf.keras.metrics.binary_accuracy(y[:, None], network(x))
  np.testing.assert_array_equal(found, expected)
  assert model.probabilities
  assert list(keras.from_keras(network, _own_loss).metrics) == ['accuracy']


@pytest.mark.parametrize('network, expected', [
    (lambda: _average(*(L.Dense(3, 'softmax') for _ in range(2))), True),
    pytest.param(lambda: tf.keras.Sequential([
        L.InputLayer([4]), L.BatchNormalization(), L.Dense(1, 'sigmoid'),
        L.Lambda(lambda p: (p + 1) / 2),
    ]), True, id='variance'),  # It is never negative.
    # All logits are 0, or near 0, until they are trained.
    (lambda: _network(1, kernel_initializer='zeros'), False),
    (lambda: tf.keras.Sequential([
        L.InputLayer([4]), L.Embedding(9, 2), L.Flatten(), L.Dense(1)
    ]), False),
    # A logit of frozen weights, of which all draws would be one.
    (lambda: tf.keras.Sequential([
        L.InputLayer([4]), L.Dense(1, trainable=False)
    ]), False),
])
def test_probabilities_are_told_from_logits(network, expected):
  """By a loss that does not say so, and an unknown last operation."""
  assert keras.from_keras(network(), _own_loss).probabilities is expected


def test_whoever_knows_better_says_what_a_model_predicts():
  for said in (False, True):
    model = keras.from_keras(
        _network(1, 'sigmoid'), _own_loss, probabilities=said
    )
    assert model.probabilities is said


def test_labels_of_other_steps_have_no_accuracy():
  """As of a transcript that is shorter than what it is heard in."""
  network = tf.keras.Sequential([L.InputLayer([8, 2]), L.Dense(6)])
  model = keras.from_keras(
      network,
      lambda y, p: tf.reduce_mean(p, [1, 2]) * tf.cast(y[:, 0], p.dtype),
      y_spec=tf.TensorSpec([None, 3], tf.int32),
  )
  assert not model.metrics


@pytest.mark.parametrize('loss, y_spec, outputs', [
    (SPARSE, LABELS, [3]),
    (SPARSE, tf.TensorSpec([None, 7], tf.int32), [7, 3]),
    (SPARSE, tf.TensorSpec([None, None], tf.int32), [None, 3]),
    ('categorical_crossentropy', tf.TensorSpec([None, 3]), [3]),
    (BINARY, tf.TensorSpec([None, 5], tf.int32), [5]),
    (BINARY, tf.TensorSpec([None, 6], tf.int32), [6, 1]),
    ('kl_divergence', tf.TensorSpec([None, 3]), [3]),
    ('poisson', LABELS, [1]),
    ('cosine_similarity', tf.TensorSpec([None, 3]), [3]),
    ('log_cosh', tf.TensorSpec([None, 2, 2]), [2, 2]),
    ('hinge', LABELS, [1]),
    (lambda y, p: tf.nn.sparse_softmax_cross_entropy_with_logits(y, p),
     LABELS, [3]),
    # Mean and log variance of one number.
    (lambda y, p: p[:, 1] + tf.square(y - p[:, 0]) * tf.exp(-p[:, 1]),
     tf.TensorSpec([None]), [2]),
])
def test_no_false_alarm(loss, y_spec, outputs):
  found = keras_losses.example_loss(loss, _trial(y_spec, outputs), True)
  assert found(*_trial(y_spec, outputs)).shape == [3]


def _contrast(y, p):
  del y
  return tf.square(p[:, 0] - tf.reduce_mean(p))


@pytest.mark.parametrize('loss, found', [
    (_contrast, 'values that change with the other rows'),
    (lambda y, p: tf.reduce_mean(tf.abs(y - p)), 'a scalar'),
    (lambda y, p: tf.abs(y - p)[:2, 0], r'values of shape \[2\]'),
    (lambda y, p: tf.reduce_max(tf.tile(p, [1, 3]), 0), 'values of shape'),
    (lambda y, p: tf.matmul(y, p, name='m'), '.*'),
])
def test_raises_on_a_loss_that_is_none_of_single_examples(loss, found):
  with pytest.raises(
      ValueError,
      match=r'`loss` must return one value .* labels of shape \[batch\] and'
      rf' predictions of shape \[batch, 1\], found {found}',
  ):
    keras.from_keras(_network(1), loss, y_spec=tf.TensorSpec([None]))


def test_a_loss_of_the_batch_may_be_meant():
  model = keras.from_keras(
      _network(1), _contrast, y_spec=tf.TensorSpec([None]), per_example=False
  )
  np.testing.assert_allclose(
      model.example_loss(Y, ONE_OUTPUT),
      (ONE_OUTPUT[:, 0] - np.mean(ONE_OUTPUT)) ** 2, rtol=1e-6,
  )


@pytest.mark.parametrize('metrics, message', [
    (dict(m=lambda y, p: tf.reduce_mean(p) + 0 * p[:, 0]),
     "The metric 'm' must return .* found values that change"),
    (dict(m=lambda y, p: p[:, 0].numpy()),
     "The metric 'm' must consist only of Te"),
    (dict(m=lambda y, p: p[:, 0] * SCALE), "The metric 'm' .* reads variables"),
    (['MeanIoU'], "names that Keras knows, found 'MeanIoU'"),
    (dict(m='acuracy'), "names that Keras knows, found 'acuracy'"),
    (['mae', 'mae'], '`metrics` must have names of their'),
    (dict(loss='mae'), '`metrics` must have names of their'),
])
def test_raises_on_a_metric(metrics, message):
  with pytest.raises(ValueError, match=message):
    keras.from_keras(
        _network(1), 'mse', y_spec=tf.TensorSpec([None]), metrics=metrics
    )


def _misses(y, p):
  y = tf.cast(tf.reshape(y, [-1]), tf.int32)  # Keras has floats [n, 1].
  return tf.cast(tf.not_equal(tf.argmax(p, -1, tf.int32), y), tf.float32)


@pytest.mark.parametrize('metrics, names', [
    ('accuracy', ['accuracy']),
    (['acc', 'ce', tf.keras.metrics.SparseCategoricalCrossentropy()],
     ['acc', 'ce', 'sparse_categorical_crossentropy']),
    (tf.keras.metrics.SparseCategoricalAccuracy,
     ['sparse_categorical_accuracy']),
    ([tf.keras.metrics.sparse_top_k_categorical_accuracy, _misses],
     ['sparse_top_k_categorical_accuracy', '_misses']),
    (dict(a=tf.keras.metrics.SparseTopKCategoricalAccuracy(2), b=None,
          c=tf.keras.losses.SparseCategoricalCrossentropy()), ['a', 'c']),
    (dict(softmax=['accuracy', 'SparseCategoricalAccuracy']),
     ['accuracy', 'sparse_categorical_accuracy']),
])
def test_metrics_are_those_of_keras(metrics, names):
  network = _network(4, 'softmax')
  model = keras.from_keras(
      network, 'sparse_categorical_crossentropy', metrics=metrics
  )
  assert list(model.metrics) == names
  rng = np.random.default_rng(0)
  x = tf.constant(rng.normal(size=[9, 4]), tf.float32)
  y = tf.constant(rng.integers(4, size=9), tf.int32)
  if isinstance(metrics, dict) and 'a' in metrics:
    metrics = [metrics['a'], metrics['c']]  # Keras' keys are outputs.
  elif isinstance(metrics, dict):
    metrics = metrics['softmax']
  if isinstance(metrics, type):
    metrics = metrics()
  network.compile(
      'sgd', 'sparse_categorical_crossentropy', metrics=metrics,
      run_eagerly=True,
  )
  expected = network.test_on_batch(x, y)[1:]
  p = network(x)
  for (name, metric), value in zip(model.metrics.items(), expected, strict=True):
    np.testing.assert_allclose(
        np.mean(metric(y, p)), value, rtol=1e-5, err_msg=name
    )


@pytest.mark.parametrize('y_spec, outputs, loss, expected', [
    (LABELS, 1, BINARY, 'binary'),
    (tf.TensorSpec([None, 3], tf.int32), 3, 'mse', 'categorical'),
])
def test_accuracy_is_what_fits_the_labels(y_spec, outputs, loss, expected):
  model = keras.from_keras(
      _network(outputs), loss, y_spec=y_spec, metrics=['accuracy', 'ce']
  )
  p = np.array([[0.3, -0.1, 0.2], [0.2, 0.7, -1]])[:, :outputs]
  y = np.array([1, 1]) if outputs == 1 else np.eye(3)[[0, 2]]
  wide = y[:, None] if outputs == 1 else y
  accuracy = {'binary': [1, 1], 'categorical': [1, 0]}[expected]
  np.testing.assert_allclose(
      model.metrics['accuracy'](tf.constant(y, tf.int32), tf.constant(p)),
      accuracy,
  )
  np.testing.assert_allclose(
      model.metrics['ce'](tf.constant(y, tf.int32), tf.constant(p)),
      getattr(K, f'{expected}_crossentropy')(wide, p, from_logits=True),
      rtol=1e-5,
  )


@pytest.mark.parametrize('size', [2, 300])
def test_a_loss_may_hold_eager_tensors(size):
  """In TFF's graphs, and within their loops, as if they were NumPy's."""
  values = np.linspace(1, 2, size).astype(np.float32)
  weights = tf.constant(values)

  def weighted(held):
    return lambda y, p: tf.gather(held, y) * tf.while_loop(
        lambda i, _: i < 3, lambda i, total: (i + 1, total + held[-1]),
        (0, tf.zeros([])),
    )[1] * tf.nn.sparse_softmax_cross_entropy_with_logits(y, p)

  found, expected = (
      keras.from_keras(
          _network(size), weighted(held), y_spec=LABELS
      ).example_loss for held in (weights, values)
  )
  y = np.array([0, 1, 1], np.int32)
  p = np.random.default_rng(0).normal(size=[3, size]).astype(np.float32)
  with tf.Graph().as_default() as graph:
    loss = found(tf.constant(y), tf.constant(p))
    with tf.compat.v1.Session(graph=graph) as session:
      loss = session.run(loss)
  np.testing.assert_allclose(loss, expected(y, p), rtol=1e-6)
