"""Curvature and optima measured on data are those of known quadratics."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.analysis import curvature
from tff_pers.analysis import quadratic
from tff_pers.data import client_data
from tff_pers.models import zoo

_L2 = 0.5


@pytest.fixture(scope='module', name='quadratics')
def _quadratics():
  rng = np.random.default_rng(0)
  factors = rng.normal(size=[3, 6, 6])
  return problems.Quadratics(
      curvatures=factors @ np.swapaxes(factors, 1, 2) + 0.3 * np.eye(6),
      centers=rng.normal(size=[3, 6]), num_examples=[2, 5, 1],
      start=np.ones(6),
  )


@pytest.fixture(scope='module', name='measured')
def _measured(quadratics):
  return curvature.measure(quadratics.model, quadratics.clients(), _L2)


def test_eigenvalues_are_those_of_the_hessians(quadratics, measured):
  expected = np.linalg.eigvalsh(quadratics.curvatures) + _L2
  np.testing.assert_allclose(measured.smallest, expected[:, 0], rtol=1e-4)
  np.testing.assert_allclose(measured.largest, expected[:, -1], rtol=1e-4)
  spectrum = measured.spectrum
  assert spectrum.mu == measured.smallest.min()
  assert spectrum.L == measured.largest.max()


def test_optima_are_those_of_the_clients(quadratics, measured):
  """With the penalty; clients have equal weights, whatever their examples."""
  hessians = quadratics.curvatures + _L2 * np.eye(6)
  pulls = np.einsum('nij,nj->ni', quadratics.curvatures, quadratics.centers)
  optima = np.linalg.solve(hessians, pulls[..., None])[..., 0]
  federation = quadratic.QuadraticFederation(hessians, optima)
  center = optima.mean(axis=0)
  np.testing.assert_allclose(
      measured.distances, np.linalg.norm(optima - center, axis=1), rtol=1e-4
  )
  assert measured.radius == measured.distances.max()
  assert measured.distance == pytest.approx(
      np.linalg.norm(center - federation.optimum), rel=1e-3
  )
  assert measured.start == pytest.approx(
      np.linalg.norm(quadratics.start - federation.optimum), rel=1e-4
  )


def test_curvature_is_that_of_inference(quadratics):
  """A model that computes three times as much while it is trained."""
  plain = quadratics.model
  model = dataclasses.replace(
      plain, predict=lambda weights, x, training, seed: (
          (3.0 if training else 1.0) * plain.predict(weights, x, False, seed)
      )
  )
  w, v = np.arange(6.0), np.linspace(-1, 1, 6)
  losses, data = curvature.Losses(model, _L2), quadratics.clients()[1]
  value, gradient = losses.value_and_gradient(w, data)
  hessian = quadratics.curvatures[1]
  distance = w - quadratics.centers[1]
  np.testing.assert_allclose(
      value, distance @ hessian @ distance / 2 + _L2 * w @ w / 2
  )
  np.testing.assert_allclose(gradient, hessian @ distance + _L2 * w)
  np.testing.assert_allclose(
      losses.hessian_product(w, v, data), hessian @ v + _L2 * v
  )


def test_product_is_the_derivative_of_the_gradient():
  """Of a real model; padded rows do not count."""
  rng = np.random.default_rng(1)
  x = rng.normal(size=[9, 4]).astype(np.float32)
  data = client_data.dense(0, x, rng.integers(3, size=9).astype(np.int32))
  # Smooth, as networks of ReLUs are not.
  model = zoo.build('logistic_regression', tf.TensorSpec([None, 4]), 3)
  losses = curvature.Losses(model, 0.1)
  np.testing.assert_array_equal(losses.start(), np.zeros(15))
  w, v = rng.normal(size=[2, 15])
  step = 1e-2
  numeric = (
      losses.value_and_gradient(w + step * v, data)[1]
      - losses.value_and_gradient(w - step * v, data)[1]
  ) / (2 * step)
  found = losses.hessian_product(w, v, data)
  # Of order step^2, beside the noise of float32.
  np.testing.assert_allclose(found, numeric, atol=2e-3 * np.abs(found).max())
  padded = client_data.pad(data, 20)
  np.testing.assert_array_equal(losses.hessian_product(w, v, padded), found)
  batch = client_data.Batch(
      x, data['examples']['y'], tf.ones([9], tf.bool), tf.zeros([2], tf.int64)
  )
  weights = (w[:12].reshape(4, 3).astype(np.float32), w[12:].astype(np.float32))
  expected = model.batch_loss(weights, batch, training=False) + 0.05 * np.sum(
      np.square(w)
  )
  assert losses.value_and_gradient(w, data)[0] == pytest.approx(
      float(expected), rel=1e-5
  )


@pytest.mark.parametrize('values', [
    np.geomspace(1, 50, 40), np.full(40, 3.0), np.linspace(-3, -1, 30),
    np.append(np.zeros(60), [1.0, 5.0]), np.array([2.0, 7.0]), np.array([4.0]),
])
def test_extreme_eigenvalues_of_any_spectrum(values):
  found = curvature.extreme_eigenvalues(lambda v: values * np.ravel(v), len(values))
  scale = np.abs(values).max()
  assert found == pytest.approx((values.min(), values.max()), abs=2e-4 * scale)


def test_raises_where_a_client_is_not_strongly_convex():
  found = curvature.Curvature(
      np.array([0.1, -0.2]), np.array([1.0, 2.0]), np.zeros(2), 0.0, 0.0
  )
  with pytest.raises(ValueError, match='`l2` must make the loss of every client'):
    found.spectrum  # pylint: disable=pointless-statement
