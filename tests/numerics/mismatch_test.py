"""The quantities of FLoRAL's theory (its check 9)."""

import numpy as np
import pytest

from tff_pers.numerics import mismatch

_K, _C = 12, 4
_ONE_HOT = np.eye(_C)[np.arange(_K) % _C]
_UNIFORM = np.full([_K, _C], 1 / _C)
_EQUAL = np.full([_K], 5.0)


def test_balanced_clusters():
  """FLoRAL check 9: ||p_c||^2 is C/K."""
  shares = mismatch.cluster_shares(_EQUAL, _ONE_HOT).numpy()
  np.testing.assert_allclose((shares**2).sum(0), _C / _K)
  np.testing.assert_allclose(shares.sum(0), 1)


def test_mismatch_of_the_uniform_router():
  """FLoRAL check 9: 2 (C-1)/C, twice what remark A.11 claims."""
  delta = mismatch.aggregation_mismatch(_EQUAL, _UNIFORM, _ONE_HOT)
  np.testing.assert_allclose(delta, 2 * (_C - 1) / _C)
  bound = mismatch.gradient_error_bound(
      _EQUAL, _UNIFORM, _ONE_HOT, noise=0.3, largest=0.7
  )
  np.testing.assert_allclose(
      bound, 2 * 0.3 * _C / _K + 2 * 0.7 * (2 * (_C - 1) / _C) ** 2
  )


def test_mismatch_is_zero_at_the_truth_and_two_at_most():
  sizes = np.arange(1.0, _K + 1)
  same = mismatch.aggregation_mismatch(sizes, _ONE_HOT, _ONE_HOT)
  np.testing.assert_allclose(same, 0, atol=1e-15)
  wrong = mismatch.aggregation_mismatch(
      sizes, np.roll(_ONE_HOT, 1, axis=1), _ONE_HOT
  )
  np.testing.assert_allclose(wrong, 2)


@pytest.mark.parametrize('sharpness', [0.0, 2.0, 50.0])
def test_lemma_15_by_monte_carlo(sharpness):
  """FLoRAL check 9: E||g_bar - g_tilde||^2 is below the bound.

  With the true router it is sigma^2 ||p_c||^2, half the bound. The squared
  norm of 3 Gaussians has a relative deviation of sqrt(2/3), its mean over 4000
  draws 1.3 percent: 5 percent are nearly four of these.
  """
  rng = np.random.default_rng(0)
  dim, draws, deviation = 3, 4000, 0.7
  sizes = rng.integers(3, 20, _K).astype(float)
  logits = rng.normal(size=[_K, _C]) + sharpness * _ONE_HOT
  routers = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
  gradients = rng.normal(size=[_C, dim])
  noise = deviation**2 * dim
  g = gradients[np.arange(_K) % _C] + deviation * rng.normal(
      size=[draws, _K, dim]
  )
  largest = (gradients**2).sum(1).max() + noise
  shares = mismatch.cluster_shares(sizes, routers).numpy()
  errors = np.stack([
      np.square(np.einsum('k,nkd->nd', shares[:, c], g) - gradients[c]).sum(1)
      for c in range(_C)
  ]).mean(1)
  bound = mismatch.gradient_error_bound(
      sizes, routers, _ONE_HOT, noise=noise, largest=largest
  )
  assert np.all(errors <= bound)
  if sharpness == 50.0:
    np.testing.assert_allclose(errors, bound / 2, rtol=0.05)
