"""An example of k units counts as k examples in all means."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedem
from baselines import ifca
from tff_pers.client_works import example_losses
from tff_pers.client_works import local_gradient
from tff_pers.client_works import router_alone
from tff_pers.composition import deployment
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import functional

D = 3
UNITS = np.array([4, 0, 1, 2])  # No two halves are equally large.
FEWER = np.array([1, 0, 0, 2])  # Of the accuracy.


def _model(weighted: bool) -> functional.FunctionalModel:
  """Least squares; y are the target and how much the example counts."""
  weights_of = dict(loss=lambda y: y[:, 1], accuracy=lambda y: y[:, 2])
  return functional.FunctionalModel(
      init=lambda seed: (tf.random.stateless_normal([D], seed, dtype='double'),),
      predict=lambda w, x, training, seed: tf.linalg.matvec(x, w[0]),
      example_loss=lambda y, z: tf.square(z - y[:, 0]),
      metrics=dict(accuracy=lambda y, z: tf.abs(z)),
      x_spec=tf.TensorSpec([None, D], tf.float64),
      y_spec=tf.TensorSpec([None, 3], tf.float64),
      weights_of=weights_of if weighted else {},
  )


MODEL, PLAIN = _model(True), _model(False)


def _data(repeat=None, num_rows=0):
  """Returns a client's data; `repeat` says how often it has each example."""
  rng = np.random.default_rng(0)
  x, targets = rng.normal(size=[4, D]), rng.normal(size=4)
  y = np.stack([targets, UNITS, FEWER], axis=1)
  rows = np.arange(4) if repeat is None else np.repeat(np.arange(4), repeat)
  data = client_data.dense(0, x[rows], y[rows])
  return tf.nest.map_structure(
      tf.constant, client_data.pad(data, num_rows or len(rows))
  )


def _weights(seed=0):
  return MODEL.init(random.key(seed))


def _table():
  return tf.nest.map_structure(
      lambda *w: tf.stack(w), _weights(0), _weights(1), _weights(2)
  )


def _batch(data):
  x, y = data['examples'].values()
  return client_data.Batch(
      x, y, tf.range(len(x)) < data['num_examples'], random.key(0)
  )


def test_loss_of_a_batch_and_its_gradient():
  found = MODEL.loss_and_gradient(_weights(), _batch(_data(num_rows=6)))
  expected = PLAIN.loss_and_gradient(_weights(), _batch(_data(UNITS)))
  tf.nest.map_structure(
      lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, expected
  )


def test_a_batch_without_units_has_loss_zero():
  batch = _batch(_data())
  batch = batch._replace(y=batch.y * [1.0, 0.0, 0.0])
  assert MODEL.batch_loss(_weights(), batch) == 0.0


def test_deployed_metrics():
  """Several batches are needed for this many rows."""
  many = np.full(4, 100)
  found = deployment.deployed_metrics(MODEL, _weights(), _data(many))
  for name, units in (('loss', UNITS), ('accuracy', FEWER)):
    expected = deployment.deployed_metrics(PLAIN, _weights(), _data(units))
    np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
  assert found['num_examples'] == 400


@pytest.mark.parametrize('num_examples, value', [(4, 0.0), (0, np.nan)])
def test_metrics_of_a_client_without_units(num_examples, value):
  """0 with examples, of which none counts; without examples there is none."""
  data = _data()
  y = data['examples']['y'] * [1.0, 1.0, 0.0]
  data = collections.OrderedDict(
      data, num_examples=tf.constant(num_examples),
      examples=collections.OrderedDict(x=data['examples']['x'], y=y),
  )
  found = deployment.deployed_metrics(MODEL, _weights(), data)
  np.testing.assert_equal(found['accuracy'].numpy(), np.float32(value))


def test_local_gradient():
  found, expected = (
      local_gradient.compute(model, _weights(), data, seed=random.key(1))
      for model, data in ((MODEL, _data()), (PLAIN, _data(UNITS)))
  )
  np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-12)
  np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-12)
  assert found.num_rows == 4  # Examples, whatever they count.


def test_mean_over_all_batches():
  many = np.array([200, 100, 100, 300])  # More than fit into one batch.
  found, expected = (
      router_alone.full_mean(
          model, lambda batch, m=model: m.batch_loss(_weights(), batch), data,
          tf.constant(0.0, tf.float64),
      )
      for model, data in ((MODEL, _data(many)), (PLAIN, _data(many * UNITS)))
  )
  np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_ifca_chooses_by_the_mean_over_units():
  found, expected = (
      ifca.choose(model, _table(), 3, data)
      for model, data in ((MODEL, _data(num_rows=7)), (PLAIN, _data(UNITS)))
  )
  assert found[0] == expected[0]
  np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_likelihood_of_fedem_is_that_of_all_units():
  losses = example_losses.compute(MODEL, _table(), 3, _data())
  np.testing.assert_allclose(
      fedem.negative_log_likelihoods(MODEL, _table(), 3, _data()),
      UNITS[:, None] * losses, rtol=1e-12,
  )


def test_loss_of_fedem_is_a_mean_over_units():
  q = np.random.default_rng(1).dirichlet(np.ones(3), 4)
  found = fedem.weighted_loss(MODEL, _table(), _batch(_data()), tf.constant(q))
  expected = fedem.weighted_loss(
      PLAIN, _table(), _batch(_data(UNITS)),
      tf.constant(np.repeat(q, UNITS, axis=0)),
  )
  np.testing.assert_allclose(found, expected, rtol=1e-12)
