"""Hessian products against the Hessian itself."""

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.client_works import meta_gradient
from tff_pers.data import client_data


def _batch(data):
  x, y = data['examples']['x'], data['examples']['y']
  return client_data.Batch(
      tf.constant(x), tf.constant(y), tf.ones([len(y)], tf.bool),
      tf.zeros([2], tf.int64),
  )


def _flat(structure):
  return np.concatenate([np.ravel(leaf) for leaf in tf.nest.flatten(structure)])


def _network():
  """Returns (model, weights, batch, a vector), float64."""
  model = problems.tiny_model()
  weights = model.init(tf.constant([1, 2], tf.int64))
  vector = model.init(tf.constant([3, 4], tf.int64))
  return model, weights, _batch(problems.tiny_clients()[4]), vector


def test_hessian_product_is_a_product_with_the_hessian():
  model, weights, batch, vector = _network()
  h = 1e-6
  moved = lambda sign: model.loss_and_gradient(
      tf.nest.map_structure(lambda w, v: w + sign * h * v, weights, vector),
      batch,
  )[1]
  expected = (_flat(moved(1)) - _flat(moved(-1))) / (2 * h)
  product = meta_gradient.hessian_product(model, weights, batch, vector)
  tf.nest.assert_same_structure(product, weights)
  # Central differences: rounding 1e-16 / h, truncation h^2.
  np.testing.assert_allclose(_flat(product), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize('scale', [1e-3, 1.0, 1e3])
def test_hessian_free_product_is_close_for_vectors_of_any_length(scale):
  model, weights, batch, vector = _network()
  vector = tf.nest.map_structure(lambda v: scale * v, vector)
  exact = _flat(meta_gradient.hessian_product(model, weights, batch, vector))
  free = _flat(
      meta_gradient.hessian_free_product(model, weights, batch, vector)
  )
  # The step has length 1e-4 whatever the vector: relative error of order 1e-8.
  assert np.linalg.norm(free - exact) < 1e-6 * np.linalg.norm(exact)


def test_hessian_free_product_is_exact_on_quadratics():
  """Baselines B4: hf = exact on quadratics, for every step."""
  problem = problems.q6()
  batch = _batch(problem.clients()[0])
  weights = (tf.ones([5], tf.float64),)
  vector = (tf.range(5, dtype=tf.float64),)
  expected = problem.curvatures[0] @ vector[0].numpy()
  for product in (
      meta_gradient.hessian_product, meta_gradient.hessian_free_product
  ):
    # Rounding 1e-16 over the step 1e-4, times lengths of about 10.
    np.testing.assert_allclose(
        product(problem.model, weights, batch, vector)[0], expected, rtol=0,
        atol=1e-10,
    )


def test_products_with_zero_are_zero():
  model, weights, batch, vector = _network()
  zero = tf.nest.map_structure(tf.zeros_like, vector)
  for product in (
      meta_gradient.hessian_product, meta_gradient.hessian_free_product
  ):
    assert not np.any(_flat(product(model, weights, batch, zero)))
