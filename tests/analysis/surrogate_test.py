"""Surrogate losses: what clients send, where rounds end, how fast.

Numbers of checks are those of the acceptance list of the method: 1, 2, 10, and
the statements S1, S2, S5 to S9.
"""

import itertools

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tests.analysis import problems
from tff_pers.analysis import federations
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates
from tff_pers.analysis import surrogate as surrogate_lib
from tff_pers.numerics import thetas


def _surrogate(federation, theta, gamma, alpha=0.0):
  return surrogate_lib.Surrogate(
      federation, local_updates.LocalUpdate(theta, gamma, alpha)
  )


def _single(*curvatures):
  """One client with these eigenvalues and optimum 0."""
  return federations.diagonal([curvatures], [[0.0] * len(curvatures)])


@pytest.mark.parametrize('alpha', [0.0, 0.5, 5.0])
@pytest.mark.parametrize('gamma', [0.0, 0.01, 0.05, 0.15])
def test_local_steps_send_the_gradient_of_the_surrogate(alpha, gamma):
  """Check 1 (S1), NumPy: also where gamma is too large for the theory."""
  for seed in range(50):
    rng = np.random.default_rng(seed)
    federation = problems.random_federation(seed, dim=int(rng.integers(1, 8)))
    theta = thetas.Gradients(rng.uniform(size=rng.integers(1, 11)))
    surrogate = _surrogate(federation, theta, gamma, alpha)
    x = rng.normal(size=federation.dim)
    expected = np.array([
        problems.client_update(a, c, x, theta.theta, gamma, alpha)
        for a, c in zip(federation.hessians, federation.optima)
    ])
    found = surrogate.client_updates(x)
    size = np.abs(expected).max()
    assert np.abs(found - expected).max() < 1e-12 * size
    np.testing.assert_allclose(
        surrogate.gradient(x), federation.weights @ expected,
        atol=1e-12 * size,
    )


@pytest.mark.parametrize('theta', [
    thetas.FirstGradients(6), thetas.LastGradient(6),
    thetas.Gradients([0.3, 0, 2, 1]),
])
@pytest.mark.parametrize('alpha', [0.0, 2.0])
def test_eigenvalues_are_those_of_the_map(theta, alpha):
  """S5, multiplicity included."""
  q, _ = np.linalg.qr(np.random.default_rng(8).normal(size=[4, 4]))
  hessian = q @ np.diag([1.0, 3.0, 3.0, 9.0]) @ q.T
  hessian = (hessian + hessian.T) / 2
  x = np.zeros(4)
  surrogate = _surrogate(
      surrogate_lib.quadratic.QuadraticFederation([hessian], [x]), theta, 0.05,
      alpha,
  )
  powers = [
      w * np.linalg.matrix_power(
          np.eye(4) - 0.05 * (hessian + alpha * np.eye(4)), k
      )
      for k, w in enumerate(theta.theta)
  ]
  np.testing.assert_allclose(
      surrogate.distortions[0], np.sum(powers, axis=0), atol=1e-12
  )
  np.testing.assert_allclose(
      surrogate.hessians[0], np.sum(powers, axis=0) @ hessian, atol=1e-12
  )
  expected = sorted(
      a * surrogate.update.q(a) for a in (1.0, 3.0, 3.0, 9.0)
  )
  np.testing.assert_allclose(
      np.linalg.eigvalsh(surrogate.hessian), expected, rtol=1e-12
  )


def test_many_steps_average_the_client_optima():
  """S6, alpha = 0: averaging in one shot, H = I / gamma."""
  federation = problems.random_federation(9)
  surrogate = _surrogate(federation, thetas.FirstGradients(10 ** 5), 0.05)
  np.testing.assert_allclose(
      surrogate.optimum, federation.mean(federation.optima), rtol=1e-10
  )
  np.testing.assert_allclose(
      surrogate.hessian, np.eye(3) / 0.05, rtol=1e-10, atol=1e-10
  )


def test_many_proximal_steps_descend_the_moreau_envelope():
  """S6, alpha > 0: gamma alpha grad ftilde = E[alpha (x - prox_i(x))]."""
  federation = problems.random_federation(10)
  alpha, gamma = 2.0, 0.05
  surrogate = _surrogate(
      federation, thetas.FirstGradients(10 ** 5), gamma, alpha
  )
  x = np.array([1.0, -2.0, 0.5])
  proximal = np.array([
      np.linalg.solve(a + alpha * np.eye(3), a @ c + alpha * x)
      for a, c in zip(federation.hessians, federation.optima)
  ])
  np.testing.assert_allclose(
      gamma * alpha * surrogate.gradient(x),
      federation.mean(alpha * (x - proximal)), rtol=1e-10,
  )


@hypothesis.settings(derandomize=True, deadline=None, max_examples=30)
@hypothesis.given(
    seed=st.integers(0, 10 ** 6), gamma=st.floats(1e-4, 0.099),
    num_steps=st.integers(1, 30),
)
def test_fedavg_contracts_by_the_power_of_its_steps(seed, gamma, num_steps):
  """S7: gamma Q A = I - (I - gamma A)^K."""
  federation = problems.random_federation(seed)
  surrogate = _surrogate(federation, thetas.FirstGradients(num_steps), gamma)
  kept = np.array([
      np.linalg.matrix_power(np.eye(3) - gamma * a, num_steps)
      for a in federation.hessians
  ])
  np.testing.assert_allclose(
      gamma * surrogate.hessians, np.eye(3) - kept, atol=1e-12
  )


def test_loss_has_that_gradient_and_that_minimizer():
  surrogate = _surrogate(
      problems.random_federation(11), thetas.FirstGradients(5), 0.05, 1.0
  )
  rng = np.random.default_rng(0)
  x, step = rng.normal(size=3), 1e-6
  numeric = [
      (surrogate.loss(x + step * e) - surrogate.loss(x - step * e)) / (2 * step)
      for e in np.eye(3)
  ]
  np.testing.assert_allclose(surrogate.gradient(x), numeric, rtol=1e-6)
  np.testing.assert_allclose(
      surrogate.gradient(surrogate.optimum), 0, atol=1e-12
  )
  federation = surrogate.federation
  assert surrogate.excess_loss == pytest.approx(
      federation.loss(surrogate.optimum) - federation.loss(federation.optimum)
  )


@pytest.mark.parametrize('theta, gamma, alpha', [
    (thetas.FirstGradients(10), 0.05, 0.0), (thetas.LastGradient(10), 0.005, 0.0),
    (thetas.FirstGradients(10), 0.05, 2.0), (thetas.LastGradient(10), 0.005, 2.0),
])
def test_client_with_the_extremes_attains_kappa(theta, gamma, alpha):
  """S8, and S9: cond(Q) = kappa0 / kappa there."""
  surrogate = _surrogate(_single(10.0, 1.0), theta, gamma, alpha)
  kappa = surrogate.worst_case_kappa
  r = 1 - gamma * (np.array([1.0, 10.0]) + alpha)
  if isinstance(theta, thetas.LastGradient):
    expected = 10 * (r[1] / r[0]) ** 9  # Eq. 13
  else:
    phi = (1 - r ** 10) / gamma * np.array([1, 10]) / ([1, 10] + np.array(alpha))
    expected = phi[1] / phi[0]  # Eq. 11
  assert kappa == pytest.approx(expected, rel=1e-12)
  assert surrogate.problem_kappa == pytest.approx(expected, rel=1e-12)
  assert surrogate.condition_number == pytest.approx(expected, rel=1e-12)
  assert np.exp(surrogate.distortion_range.width) == pytest.approx(
      10 / kappa, rel=1e-12
  )


@hypothesis.settings(derandomize=True, deadline=None, max_examples=30)
@hypothesis.given(
    seed=st.integers(0, 10 ** 6), gamma=st.floats(0, 0.06),
    num_steps=st.integers(1, 30), alpha=st.sampled_from([0.0, 0.5, 5.0]),
    last=st.booleans(),
)
def test_three_condition_numbers_are_ordered(seed, gamma, num_steps, alpha, last):
  """Lemmas 2 to 4, 6, with mu and L of the clients."""
  theta = (thetas.LastGradient if last else thetas.FirstGradients)(num_steps)
  federation = problems.random_federation(seed)
  surrogate = _surrogate(federation, theta, gamma, alpha)
  slack = 1 + 1e-10
  assert surrogate.condition_number <= surrogate.problem_kappa * slack
  assert surrogate.problem_kappa <= surrogate.worst_case_kappa * slack
  if surrogate.update.has_closed_form(federation.spectrum):
    cond = np.exp(surrogate.distortion_range.width)
    assert cond <= federation.spectrum.kappa0 / surrogate.worst_case_kappa * slack


@pytest.mark.parametrize('last', [False, True])
@pytest.mark.parametrize('alpha', [0.0, 0.5, 5.0])
def test_kappa_falls_in_gamma_and_in_steps(last, alpha):
  """S8: from L / mu at gamma = 0 or K = 1, whatever alpha."""
  form = thetas.LastGradient if last else thetas.FirstGradients
  spectrum = local_updates.Spectrum(1.0, 10.0)
  kappa = lambda k, gamma: surrogate_lib.worst_case_kappa(
      local_updates.LocalUpdate(form(k), gamma, alpha), spectrum
  )
  largest = 1 / (20 * 10 + alpha)
  by_gamma = [kappa(20, g) for g in np.linspace(0, largest, 11)]
  by_steps = [kappa(k, 0.9 * largest) for k in range(1, 20)]
  for values in (by_gamma, by_steps):
    assert values[0] == pytest.approx(10, rel=1e-12)
    assert np.all(np.diff(values) < 0)


def test_a_stronger_proximal_term_may_make_kappa_larger():
  """With ten steps, not with two; the paper says it never does."""
  spectrum = local_updates.Spectrum(1.0, 10.0)
  kappas = {
      k: [
          surrogate_lib.worst_case_kappa(
              local_updates.LocalUpdate(thetas.FirstGradients(k), 0.05, alpha),
              spectrum,
          )
          for alpha in (0.0, 0.5, 1.0, 5.0)
      ]
      for k in (2, 10)
  }
  assert kappas[2] == pytest.approx([7.69231, 7.66234, 7.63158, 7.35294], abs=1e-5)
  assert kappas[10] == pytest.approx(
      [2.48970, 2.63703, 2.79058, 4.11627], abs=1e-5
  )


def test_raises_where_the_surrogate_may_not_be_convex():
  surrogate = _surrogate(_single(10.0, 1.0), thetas.FirstGradients(2), 0.11)
  for name in ('worst_case_kappa', 'problem_kappa', 'distortion_range'):
    with pytest.raises(ValueError, match='`gamma` must be < 1'):
      getattr(surrogate, name)


def _distances(gamma_times, num_rounds, seed):
  """||x_T - x*|| of check 10 with gamma = gamma_times / L, GD."""
  federation = federations.shared_extremes(20, 10, 1.0, 100.0, seed)
  surrogate = _surrogate(
      federation, thetas.FirstGradients(20), gamma_times / 100
  )
  low, high = surrogate.extremes
  x = 100 * np.ones(10) / np.sqrt(10)
  step = rates.server_step(high, low, 'gd')
  found = itertools.islice(surrogate.rounds(x, 'gd', step), num_rounds + 1)
  return np.array(
      [np.linalg.norm(x - federation.optimum) for x in found]
  ), surrogate


@pytest.mark.parametrize('seed', [0, 1])
def test_more_local_work_is_faster_at_first_and_ends_farther_away(seed):
  """Check 10: the trade-off on 20 clients with common extremes."""
  none, _ = _distances(0.0, 3000, seed)
  few, first = _distances(0.1, 3000, seed)
  many, second = _distances(0.5, 3000, seed)
  most, _ = _distances(0.9, 3000, seed)
  # Ranges over 200 seeds of an independent calculation, rounded outwards.
  assert 16.35 <= none[50] <= 16.55 and 0.815 <= none[200] <= 0.823
  assert none[3000] < 1e-12
  assert 4.67 <= few[50] <= 4.71 and 0.034 <= few[200] <= 0.10
  assert 0.034 <= few[3000] <= 0.10
  for t in (50, 200, 3000):
    assert 0.06 <= many[t] <= 0.27
  assert 0.078 <= most[3000] <= 0.32
  for other, (low, high) in (
      (few, (306, 360)), (many, (257, 332)), (most, (249, 318))
  ):
    overtaken = np.flatnonzero(none < other)
    overtaken = overtaken[overtaken > 0][0]
    assert low <= overtaken <= high
  assert many[3000] >= 1.7 * few[3000]
  for surrogate, distances in ((first, few), (second, many)):
    assert distances[3000] == pytest.approx(surrogate.distance, rel=1e-6)


@pytest.mark.parametrize('gamma_times, kappa', [
    (0.0, 100), (0.01, 91.133), (0.1, 44.340), (0.5, 10.483), (0.9, 6.046),
])
def test_kappa_of_the_clients_of_check_10(gamma_times, kappa):
  _, surrogate = _distances(gamma_times, 0, seed=0)
  assert surrogate.worst_case_kappa == pytest.approx(kappa, abs=1e-3)
  assert surrogate.condition_number == pytest.approx(kappa, abs=1e-3)


@pytest.mark.parametrize('server', rates.SERVERS)
def test_the_server_does_not_move_where_rounds_end(server):
  surrogate = _surrogate(
      problems.random_federation(12), thetas.FirstGradients(5), 0.05, 0.5
  )
  low, high = surrogate.extremes
  step = rates.server_step(high, low, server)
  *_, last = itertools.islice(surrogate.rounds(np.ones(3), server, step), 200)
  np.testing.assert_allclose(last, surrogate.optimum, atol=1e-12)
