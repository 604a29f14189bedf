"""Eigenvalues of Q and Q A over [mu, L]."""

import math

import numpy as np
import pytest

from tff_pers.analysis import local_updates
from tff_pers.numerics import thetas

_SPECTRUM = local_updates.Spectrum(1.0, 10.0)


def _phi(eigenvalue, alpha, gamma, num_steps):
  """Lemma 9, as it is printed."""
  if gamma == 0:
    return num_steps * eigenvalue
  r = 1 - gamma * (eigenvalue + alpha)
  return (1 - r ** num_steps) / gamma * eigenvalue / (eigenvalue + alpha)


@pytest.mark.parametrize('alpha', [0.0, 0.5, 5.0])
@pytest.mark.parametrize('gamma', [0.0, 0.01, 0.05])
def test_maps_are_phi_and_psi(alpha, gamma):
  """S5, the values; `surrogate_test` has the eigenvectors."""
  grid = np.linspace(1, 10, 7)
  for k in (1, 2, 7):
    first = local_updates.LocalUpdate(thetas.FirstGradients(k), gamma, alpha)
    last = local_updates.LocalUpdate(thetas.LastGradient(k), gamma, alpha)
    np.testing.assert_allclose(
        grid * first.q(grid), _phi(grid, alpha, gamma, k), rtol=1e-12
    )
    np.testing.assert_allclose(
        np.exp(first.log_h(grid)), _phi(grid, alpha, gamma, k), rtol=1e-12
    )
    psi = grid * (1 - gamma * (grid + alpha)) ** (k - 1)
    np.testing.assert_allclose(np.exp(last.log_h(grid)), psi, rtol=1e-12)
    np.testing.assert_allclose(grid * last.q(grid), psi, rtol=1e-12)


def test_limit_of_many_steps_is_that_of_the_moreau_envelope():
  """phi -> lambda / (gamma (lambda + alpha))."""
  update = local_updates.LocalUpdate(thetas.FirstGradients(10 ** 6), 0.05, 2.0)
  grid = np.linspace(1, 10, 5)
  np.testing.assert_allclose(
      grid * update.q(grid), grid / (0.05 * (grid + 2)), rtol=1e-12
  )


def test_limit_of_small_steps_of_the_last_gradient():
  """psi -> lambda exp(-s lambda) for gamma = s / K."""
  k = 10 ** 6
  update = local_updates.LocalUpdate(thetas.LastGradient(k), 0.03 / k)
  grid = np.linspace(1, 10, 5)
  np.testing.assert_allclose(
      np.exp(update.log_h(grid)), grid * np.exp(-0.03 * grid), rtol=2e-6
  )


def test_range_of_the_last_gradient_has_its_interior_maximum():
  """Lemma 4's psi(L) is not the largest value beyond its range of gamma."""
  update = local_updates.LocalUpdate(thetas.LastGradient(50), 0.01)
  grid = np.linspace(1, 10, 100001)
  values = update.log_h(grid)
  found = update.h_range(_SPECTRUM)
  assert found.high == pytest.approx(values.max(), abs=1e-9)
  assert found.low == pytest.approx(values.min(), abs=1e-9)
  assert found.high > update.log_h(10.0) + 0.1
  assert not update.has_closed_form(_SPECTRUM)


@pytest.mark.parametrize('num_steps, alpha, has', [
    (9, 0.0, True), (10, 0.0, True), (11, 0.0, False), (9, 5.0, True),
    (10, 5.0, False),
])
def test_closed_form_of_the_last_gradient_ends_where_lemma_4_does(
    num_steps, alpha, has
):
  """gamma <= 1 / (K L + alpha), 0.01 with L = 10."""
  update = local_updates.LocalUpdate(
      thetas.LastGradient(num_steps), 0.01, alpha
  )
  assert update.has_closed_form(_SPECTRUM) == has


@pytest.mark.parametrize('alpha', [0.0, 5.0])
def test_sum_of_all_gradients_always_has_its_closed_form(alpha):
  for k in (1, 10, 10 ** 6):
    for gamma in (0.0, 1e-4, 0.066):
      update = local_updates.LocalUpdate(
          thetas.FirstGradients(k), gamma, alpha
      )
      assert update.has_closed_form(_SPECTRUM)


def test_range_of_q_is_that_of_all_eigenvalues():
  rng = np.random.default_rng(0)
  for _ in range(20):
    theta = thetas.Gradients(rng.uniform(size=6))
    update = local_updates.LocalUpdate(theta, rng.uniform(0, 0.06), 5.0)
    values = update.log_q(np.linspace(1, 10, 101))
    found = update.q_range(_SPECTRUM)
    np.testing.assert_allclose(found, (values.min(), values.max()), rtol=1e-12)


def test_raises_where_the_surrogate_may_not_be_convex():
  """Lemma 1: 1 / (L + alpha), not the 2 / (L + alpha) of gradient descent."""
  update = local_updates.LocalUpdate(thetas.FirstGradients(2), 0.08, 5.0)
  for method in (update.h_range, update.q_range):
    with pytest.raises(ValueError, match=r'`gamma` must be < 1 / \(L \+ alpha\)'):
      method(_SPECTRUM)
  update = local_updates.LocalUpdate(thetas.FirstGradients(2), 0.08)
  update.h_range(_SPECTRUM)


@pytest.mark.parametrize('values, sentence', [
    (dict(gamma=-0.1), '`gamma` must be a number >= 0'),
    (dict(gamma=math.nan), '`gamma` must be a number >= 0'),
    (dict(gamma=0.1, alpha=-1.0), '`alpha` must be a number >= 0'),
])
def test_raises_on_bad_updates(values, sentence):
  with pytest.raises(ValueError, match=sentence):
    local_updates.LocalUpdate(thetas.FirstGradients(2), **values)


@pytest.mark.parametrize('mu, largest, sentence', [
    (0.0, 1.0, '`mu` must be a number > 0, found 0.0'),
    (2.0, 1.0, '`L` must be a number >= mu = 2.0, found 1.0'),
    (1.0, math.inf, '`L` must be a number'),
])
def test_raises_on_bad_spectra(mu, largest, sentence):
  with pytest.raises(ValueError, match=sentence):
    local_updates.Spectrum(mu, largest)
