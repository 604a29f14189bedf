"""Batch-NorA: floral sheet 3.4."""

import numpy as np
import tensorflow as tf

from tff_pers.numerics import normalization


def _numbers(seed):
  rng = np.random.default_rng(seed)
  normals = [tf.constant(rng.standard_normal(4)) for _ in range(6)]
  stds = [tf.constant(rng.uniform(0.5, 2, 4)) for _ in range(2)]
  return normals, stds, tf.constant(rng.standard_normal((8, 4)))


def test_reparameterized_adaptor_acts_on_the_main_statistics():
  """BN(x) + BN_c(x; gamma', beta') in the coordinates of the layer."""
  (gamma, beta, gamma_c, beta_c, mu, mu_c), (sigma, sigma_c), x = _numbers(0)
  new_scale, new_offset = normalization.reparameterize(
      gamma_c, beta_c, mu, sigma, mu_c, sigma_c
  )
  layer = (x - mu) / sigma * gamma + beta
  adaptor = (x - mu_c) / sigma_c * new_scale + new_offset
  expected = (x - mu) / sigma * (gamma + gamma_c) + beta + beta_c
  np.testing.assert_allclose(layer + adaptor, expected, rtol=1e-10)


def test_offset_sends_no_gradient_to_the_scale():
  (_, _, gamma_c, beta_c, mu, mu_c), (sigma, sigma_c), _ = _numbers(1)
  with tf.GradientTape() as tape:
    tape.watch(gamma_c)
    _, offset = normalization.reparameterize(
        gamma_c, beta_c, mu, sigma, mu_c, sigma_c
    )
  assert tape.gradient(offset, gamma_c) is None
