"""A model knows its labels, and those that its loss skips."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.models import keras
from tff_pers.models import labels
from tff_pers.models import zoo

_SPARSE = tf.keras.losses.SparseCategoricalCrossentropy
_STEPS = dict(y_spec=tf.TensorSpec([None, 5], tf.int32))


def _keras(loss, units=3, shape=(4,), **options):
  network = tf.keras.Sequential(
      [tf.keras.layers.Dense(units, input_shape=shape)]
  )
  return keras.from_keras(network, loss, metrics={}, **options)


def _own(y, logits):
  return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)


def _own_by_lookup(y, probabilities):
  return -tf.math.log(tf.gather(probabilities, y, axis=1, batch_dims=1))


def _own_that_skips(y, logits):
  is_label = y != -100
  return tf.where(is_label, _own(tf.where(is_label, y, 0), logits), 0.0)


def _pinball(y, quantiles):
  error = tf.cast(y, tf.float32)[:, None] - quantiles
  return tf.reduce_mean(tf.maximum(0.3 * error, -0.7 * error), axis=1)


@pytest.mark.parametrize('model, good, wrong', [
    (_keras(_SPARSE(from_logits=True)), [0, 2], [-1, 3, -100]),
    (_keras('sparse_categorical_crossentropy'), [0, 2], [-1, 3]),
    (_keras(_own), [0, 2], [-1, 3]),
    (_keras(_own_by_lookup), [0, 2], [-1, 3]),
    (_keras(_own_that_skips), [0, 2, -100], [-1, 3]),
    (_keras(_SPARSE(ignore_class=-1)), [0, 2, -1], [-2, 3]),
    (_keras(_SPARSE(from_logits=True), 7, (5, 4), **_STEPS), [0, 6], [-1, 7]),
    (
        _keras(_SPARSE(), y_spec=tf.TensorSpec([None, 1], tf.int32)),
        [0, 2], [-1, 3],
    ),
    (
        _keras(_SPARSE(), y_spec=tf.TensorSpec([None], tf.float32)),
        [0, 2], [-1, 0.5, 3],
    ),
    (_keras('binary_crossentropy', 1), [0, 1], [-1, 2]),
    (_keras(tf.keras.losses.BinaryCrossentropy(), 1), [0, 1], [2]),
    (_keras(_pinball), [-7, 0, 900], []),
    (_keras('mse', 1), [-7, 0, 900], []),
    (zoo.build('logistic_regression', tf.TensorSpec([None, 4]), 2), [1], [2]),
    (zoo.build('mlp_20', tf.TensorSpec([None, 4]), 3), [0, 2], [-1, 3]),
    (
        zoo.build('char_lstm_small', tf.TensorSpec([None, 5], tf.int32), 9),
        [0, 8], [-1, 9],
    ),
], ids=lambda value: '')
def test_first_label_that_a_model_does_not_have(model, good, wrong):
  shape = [len(good), *model.y_spec.shape[1:]]
  y = np.broadcast_to(np.reshape(good, [-1] + [1] * (len(shape) - 1)), shape)
  y = y.astype(model.y_spec.dtype.as_numpy_dtype)
  if model.labels is None:
    assert not wrong
    return
  assert model.labels.first_wrong(y) is None
  for label in wrong:
    spoiled = np.concatenate([y, y])
    spoiled.reshape(2 * len(y), -1)[len(y):, -1] = label
    assert model.labels.first_wrong(spoiled) == (label, len(y))


def test_gradients_have_a_direction_less_than_there_are_classes():
  x = tf.TensorSpec([None, 6])
  for name, classes, expected in (
      ('logistic_regression', 10, 9), ('logistic_regression', 2, 1),
      ('linear_regression', 0, 1),
  ):
    assert labels.num_directions(zoo.build(name, x, classes)) == expected
  several = dataclasses.replace(
      zoo.build('linear_regression', x, 0),
      y_spec={'a': tf.TensorSpec([None, 3]), 'b': tf.TensorSpec([None])},
      labels=[None, labels.Labels(6)],
  )
  assert labels.num_directions(several) == 5
  assert labels.num_directions(
      dataclasses.replace(several, labels=None)
  ) == 3
