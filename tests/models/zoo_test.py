"""The model zoo: sizes, losses, dropout, errors."""

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.config import traits
from tff_pers.core import random
from tff_pers.models import zoo
from tff_pers.models import zoo_layers

VECTOR = tf.TensorSpec([None, 5], tf.float32)
IMAGE = tf.TensorSpec([None, 28, 28, 1], tf.float32)
COLOR = tf.TensorSpec([None, 32, 32, 3], tf.float32)


def _batch(model, num_rows=4, num_classes=3):
  rng = np.random.default_rng(0)
  x = rng.normal(size=[num_rows, *model.x_spec.shape[1:]])
  if model.y_spec.dtype.is_floating:
    shape = [num_rows, *model.y_spec.shape[1:]]
    y = tf.constant(rng.normal(size=shape), model.y_spec.dtype)
  else:
    y = tf.constant(rng.integers(num_classes, size=num_rows), tf.int32)
  batch = problems.batch(tf.constant(x, model.x_spec.dtype), y)
  return batch._replace(seed=random.key(0, 7))


@pytest.mark.parametrize(
    'name, x_spec, num_classes, num_parameters',
    [
        # 5 weights and a bias, for one logit or for three.
        ('logistic_regression', VECTOR, 2, 6),
        ('logistic_regression', VECTOR, 3, 18),
        ('linear_regression', VECTOR, 0, 6),
        ('logistic_tags', VECTOR, 7, 42),
        # (784 + 1) 200 + (200 + 1) 200 + (200 + 1) 62.
        ('mlp', IMAGE, 62, 157_000 + 40_200 + 12_462),
        ('mlp_small', VECTOR, 3, 6 * 64 + 65 * 3),
        ('mlp_20', VECTOR, 3, 6 * 20 + 21 * 3),
        ('mlp_50', VECTOR, 3, 6 * 50 + 51 * 3),
        ('mlp_200', IMAGE, 10, 785 * 200 + 201 * 10),
        ('mlp_128', VECTOR, 3, 6 * 128 + 2 * 129 * 128 + 129 * 3),
        # 10 * 32 + 289 * 64 + (9216 + 1) 128 + 129 * 62, as TFF's model.
        ('emnist_cnn', IMAGE, 62, 320 + 18_496 + 1_179_776 + 7_998),
        # 76 * 20 + 501 * 50 + (5 * 5 * 50 + 1) 512 + 513 * 10.
        ('cifar_cnn', COLOR, 10, 1_520 + 25_050 + 640_512 + 5_130),
        # 76 * 32 + 289 * 64 + 1025 * 64 + 65 * 10 (floral sheet: 87,178).
        ('floral_cnn', COLOR, 10, 2_432 + 18_496 + 65_600 + 650),
        # Convolutions 448 + 4640 + 18496 + 73856 + 590336, then 513 * 512
        # twice and 513 * 100 (floral sheet: 1,264,388).
        ('vgg8', COLOR, 100, 687_776 + 525_312 + 51_300),
    ],
)
def test_size_and_output_shape(name, x_spec, num_classes, num_parameters):
  model = zoo.build(name, x_spec, num_classes)
  assert model.num_parameters == num_parameters
  assert model.name == name
  batch = _batch(model, num_classes=max(num_classes, 1))
  outputs = model.predict(
      model.init(random.key(0)), batch.x, False, batch.seed
  )
  one_output = num_parameters == 6
  assert outputs.shape == [4, 1 if one_output else num_classes]


def test_regression_to_several_targets_averages_their_squared_errors():
  model = zoo.build('linear_regression', VECTOR, 0, num_targets=3)
  assert model.num_parameters == 6 * 3
  assert model.y_spec.shape.as_list() == [None, 3]
  batch = problems.batch(np.zeros([2, 5], np.float32), [[1.0, 2, 3], [0.0, 0, 1]])
  loss = model.batch_loss(model.init(random.key(0)), batch)
  np.testing.assert_allclose(loss, ((1 + 4 + 9) / 3 + 1 / 3) / 2, rtol=1e-6)


def test_image_without_channel_is_the_same_image():
  flat = tf.TensorSpec([None, 28, 28], tf.float32)
  with_channel = zoo.build('emnist_cnn', IMAGE, 10)
  without = zoo.build('emnist_cnn', flat, 10)
  batch = _batch(with_channel)
  weights = with_channel.init(random.key(0))
  np.testing.assert_array_equal(
      with_channel.predict(weights, batch.x, True, batch.seed),
      without.predict(weights, batch.x[..., 0], True, batch.seed),
  )


@pytest.mark.parametrize('num_classes', [2, 3])
def test_logistic_regression_starts_at_log_num_classes(num_classes):
  model = zoo.build('logistic_regression', VECTOR, num_classes)
  batch = _batch(model, num_classes=num_classes)
  loss = model.batch_loss(model.init(random.key(0)), batch)
  np.testing.assert_allclose(loss, np.log(num_classes), rtol=1e-6)


@pytest.mark.parametrize(
    'name', sorted(set(zoo.names()) - set(traits.SEQUENCES))
)
def test_gradient_matches_finite_differences_in_float64(name):
  """In float64 all through, penalty and the step's dropout mask included."""
  size = 32 if name == 'vgg8' else 16
  spec = tf.TensorSpec([None, size, size, 1], tf.float64)
  num_classes = 0 if name == 'linear_regression' else 3
  # A step along millions of weights would switch ReLUs however small it is.
  width = 0.1 if name.startswith('resnet') else 1.0
  model = zoo.build(
      name, spec, num_classes, dtype=tf.float64, l2=0.1, width=width
  )
  batch = _batch(model, num_rows=2)
  weights = model.init(random.key(1))
  _, gradient = model.loss_and_gradient(weights, batch)
  rng = np.random.default_rng(2)
  # What moves a statistic is no gradient.
  still = model.statistics or [False] * len(weights)
  direction = [
      rng.normal(size=w.shape) * (not fixed) for w, fixed in zip(weights, still)
  ]
  slope = sum(np.sum(d * g) for d, g in zip(direction, gradient))
  step = 1e-7  # Small: a ReLU or a maximum must not switch within it.
  losses = [
      model.batch_loss(
          tuple(w + sign * step * d for w, d in zip(weights, direction)), batch
      )
      for sign in (1, -1)
  ]
  assert gradient[0].dtype == tf.float64
  # Rounding: 1e-16 * loss / step, about 1e-8 relative.
  np.testing.assert_allclose(
      (losses[0] - losses[1]) / (2 * step), slope, rtol=1e-5
  )


@pytest.mark.parametrize('name, x_spec, hidden', [
    ('mlp', VECTOR, (94, 94)),  # 0.469 of 200.
    ('mlp_20', VECTOR, (9,)),
    ('emnist_cnn', IMAGE, (15, 30, 60)),
    ('cifar_cnn', COLOR, (9, 23, 240)),
    ('floral_cnn', COLOR, (15, 30, 30)),
    ('vgg8', COLOR, (8, 15, 30, 60, 240, 240, 240)),
    ('logistic_regression', VECTOR, ()),
])
def test_width_scales_what_is_hidden(name, x_spec, hidden):
  slim = zoo.build(name, x_spec, 10, width=0.469)
  assert [w.shape[-1] for w in slim.layers[::2]] == [*hidden, 10]
  assert slim.layers[0].shape[-2] == zoo.build(
      name, x_spec, 10
  ).layers[0].shape[-2]
  again = zoo.build(name, x_spec, 10, l2=0.1).slim(0.469)
  assert again.layers == slim.layers
  ones = tuple(tf.ones(weight.shape) for weight in slim.layers)
  np.testing.assert_allclose(
      again.penalty(ones), 0.05 * slim.num_parameters, rtol=1e-5
  )


def test_width_leaves_one_unit():
  slim = zoo.build('mlp_20', VECTOR, 3, width=0.001)
  assert slim.num_parameters == 6 + 2 * 3


def test_l2_adds_half_the_squared_norm():
  plain = zoo.build('mlp_small', VECTOR, 3, dtype=tf.float64)
  penalised = zoo.build('mlp_small', VECTOR, 3, dtype=tf.float64, l2=0.3)
  weights, batch = plain.init(random.key(0)), _batch(plain)
  squared_norm = sum(np.sum(np.square(w)) for w in weights)
  np.testing.assert_allclose(
      penalised.batch_loss(weights, batch) - plain.batch_loss(weights, batch),
      0.5 * 0.3 * squared_norm, rtol=1e-10,
  )


def test_initial_weights_follow_the_seed():
  model = zoo.build('mlp_small', VECTOR, 3)
  first, again, other = (model.init(random.key(s)) for s in (0, 0, 1))
  np.testing.assert_array_equal(first[0], again[0])
  assert np.abs(first[0] - other[0]).max() > 0.01
  # Glorot: U(-a, a) with a = sqrt(6 / (5 + 64)) and variance a^2 / 3; the
  # sample variance of 320 uniforms has a standard error of 0.05 of it.
  limit = np.sqrt(6 / 69)
  assert np.abs(first[0]).max() <= limit
  np.testing.assert_allclose(np.var(first[0]), limit**2 / 3, rtol=0.2)
  np.testing.assert_array_equal(first[1], np.zeros(64))


def test_vgg_convolutions_start_gaussian():
  weights = zoo.build('vgg8', COLOR, 100).init(random.key(0))
  # 3 * 3 * 128 * 512 normals of variance 2 / (9 * 512); the sample variance
  # has a relative standard error of sqrt(2 / 589,824) = 0.0018.
  np.testing.assert_allclose(np.var(weights[8]), 2 / (9 * 512), rtol=0.01)
  # Glorot would not leave sqrt(6 / (9 * 640)), 1.5 standard deviations.
  assert np.abs(weights[8]).max() > 4 * np.sqrt(2 / (9 * 512))
  np.testing.assert_array_equal(weights[9], np.zeros(512))


def test_layers_of_one_shape_start_apart():
  model = zoo.build('mlp_small', tf.TensorSpec([None, 64]), 64)
  weights = model.init(random.key(0))
  assert np.abs(weights[0] - weights[2]).max() > 0.01


def test_dropout_follows_the_seed_and_keeps_the_mean():
  x = tf.ones([100, 100])
  first, again, other = (
      zoo_layers.dropout(x, 0.25, random.key(s)).numpy() for s in (0, 0, 1)
  )
  np.testing.assert_array_equal(first, again)
  assert np.any(first != other)
  np.testing.assert_allclose(np.unique(first), [0, 1 / 0.75], rtol=1e-6)
  # Standard error of the mean: sqrt(0.25 * 0.75 / 10^4) / 0.75 = 0.0058.
  np.testing.assert_allclose(np.mean(first), 1, atol=4 * 0.0058)


def test_cnn_drops_in_training_only():
  model = zoo.build('emnist_cnn', IMAGE, 10)
  weights, x = model.init(random.key(0)), _batch(model).x
  predict = lambda training, s: model.predict(
      weights, x, training, random.key(s)
  ).numpy()
  np.testing.assert_array_equal(predict(True, 0), predict(True, 0))
  assert np.any(predict(True, 0) != predict(True, 1))
  np.testing.assert_array_equal(predict(False, 0), predict(False, 1))


@pytest.mark.parametrize(
    'arguments, message',
    [
        (('resnet', IMAGE, 10), 'must be one of char_lstm, char_lstm_sm'),
        (('mlp', IMAGE, 1), '`num_classes` must be >= 2, or 0 .*, found 1'),
        (('mlp', IMAGE, -1), '`num_classes` must be >= 2, or 0 .*, found -1'),
        (('logistic_regression', IMAGE, 0), 'Tip: use linear_regression'),
        (('linear_regression', IMAGE, 4), 'must be 0 .* found 4. Tip'),
        (('emnist_cnn', VECTOR, 4), r'found shape \(5,\)'),
        (('resnet18', VECTOR, 4), 'images .* resnet18'),
        (('logistic_tags', VECTOR, 0), '`num_classes` must be >= 2 for log'),
        (('mlp', tf.TensorSpec([None, 5], tf.int32), 9), 'must be numbers, no'),
        (('cifar_cnn', tf.TensorSpec([None, 8, 8, 1]), 4), '16 x 16 pixels'),
        (('vgg8', IMAGE, 4), 'at least 32 x 32 pixels for vgg8'),
        (('floral_cnn', tf.TensorSpec([None, 9, 9]), 4), '14 x 14 pixels'),
        (('mlp', IMAGE, 4, tf.float32, -1.0), '`l2` must be >= 0, found -1.0'),
        (('mlp', IMAGE, 4, tf.float32, 0.0, 1, 0.0), '`width` must be > 0'),
    ],
)
def test_raises_on_wrong_argument(arguments, message):
  with pytest.raises(ValueError, match=message):
    zoo.build(*arguments)
