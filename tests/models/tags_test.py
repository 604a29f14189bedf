"""Several labels per example."""

import numpy as np
import tensorflow as tf

from baselines import fedem
from tests import problems
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import mixtures
from tff_pers.models import tags
from tff_pers.models import zoo

Y = np.array([[1, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0], [0] * 7], np.float32)
LOGITS = np.array([
    [9, 8, 7, 6, 5, 4, 3], [9, 8, 7, 6, 5, 4, 3], [1, 2, 3, 4, 5, 6, 7],
], np.float32)


def test_recall_is_the_share_of_the_labels_among_five_guesses():
  recall = tags.recall_at_5(Y, LOGITS)
  np.testing.assert_allclose(recall, [1 / 2, 1, 0])
  np.testing.assert_array_equal(tags.num_labels(Y), [2, 1, 0])
  # Keras, as TFF's task has it, counts labels and not examples.
  keras = tf.keras.metrics.Recall(top_k=5)
  keras.update_state(Y, tf.sigmoid(LOGITS))
  pooled = tf.reduce_sum(recall * tags.num_labels(Y)) / tf.reduce_sum(Y)
  np.testing.assert_allclose(pooled, keras.result())


def test_fewer_than_five_labels():
  np.testing.assert_allclose(tags.recall_at_5(Y[:, :2], LOGITS[:, :2]), [1, 1, 0])


def test_cross_entropy_is_that_of_keras():
  expected = tf.keras.losses.binary_crossentropy(Y, LOGITS, from_logits=True)
  np.testing.assert_allclose(
      tags.multilabel_crossentropy(Y, LOGITS), expected, rtol=1e-5
  )


def test_the_model_reports_pooled_recall():
  model = zoo.build('logistic_tags', tf.TensorSpec([None, 2]), 7)
  weights = (tf.zeros([2, 7]), tf.constant(LOGITS[0]))
  batch = problems.batch(np.zeros([3, 2], np.float32), Y)
  sums = model.metric_sums(weights, batch)
  np.testing.assert_allclose(sums['accuracy'], 1 + 1)  # Labels guessed.
  np.testing.assert_allclose(model.metric_weights(batch)['accuracy'], 3)


def _table(model):
  rng = np.random.default_rng(0)
  return tuple(
      tf.constant(rng.normal(size=[2, *w.shape]), tf.float32)
      for w in model.layers
  )


def test_a_mixture_of_probabilities_is_one_for_each_label():
  model = zoo.build('logistic_tags', tf.TensorSpec([None, 2]), 7)
  mixed = mixtures.mixture(model, 2, 'probabilities')
  table, x = _table(model), tf.constant([[1.0, -2.0], [0.5, 3.0]])
  found = mixed.predict(
      dict(mixing=tf.constant([0.3, 0.7]), models=table), x, False,
      random.key(0),
  )
  expected = sum(
      pi * tf.sigmoid(model.predict(
          mixtures.select(table, c), x, False, random.key(0)
      )) for c, pi in enumerate((0.3, 0.7))
  )
  np.testing.assert_allclose(tf.sigmoid(found), expected, rtol=1e-5)


def test_likelihood_of_fedem_is_that_of_all_labels():
  model = zoo.build('logistic_tags', tf.TensorSpec([None, 2]), 7)
  x = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
  data = client_data.dense(0, tf.constant(x), tf.constant(Y[:2]))
  table = _table(model)
  found = fedem.negative_log_likelihoods(model, table, 2, data)
  for c in range(2):
    logits = model.predict(
        mixtures.select(table, c), x, False, random.key(0)
    )
    p = tf.sigmoid(logits)
    expected = -np.log(np.where(Y[:2], p, 1 - p)).sum(axis=1)
    np.testing.assert_allclose(found[:, c], expected, rtol=1e-4)
