"""Rates of server optimizers are those of their iterations (check 8, S10, S12).
"""

import itertools

import numpy as np
import pytest

from tests.analysis import problems
from tff_pers.analysis import bounds
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates
from tff_pers.analysis import surrogate as surrogate_lib
from tff_pers.numerics import thetas


def _radius(eigenvalue, server, step):
  """Spectral radius of the map of (x, m) along one eigenvector."""
  eta, beta = step
  if server == 'nesterov':  # x - eta (q + beta (beta m + q)).
    row = [1 - eta * eigenvalue * (1 + beta), -eta * beta ** 2]
  else:
    row = [1 - eta * eigenvalue, -eta * beta]
  matrix = [row, [eigenvalue, beta]]
  return np.abs(np.linalg.eigvals(matrix)).max()


@pytest.mark.parametrize('server', rates.SERVERS)
@pytest.mark.parametrize('kappa', [2.0, 10.0, 100.0])
def test_rate_is_the_spectral_radius(server, kappa):
  """Check 8: over eigenvalues in [mutil, Ltil], as Table 2 has it."""
  low = 0.7
  step = rates.server_step(kappa * low, low, server)
  radii = [
      _radius(a, server, step) for a in np.geomspace(low, kappa * low, 201)
  ]
  # The largest is that of a defective matrix, computed to the root of eps.
  assert abs(max(radii) - rates.rate(kappa, server)) < 1e-5


@pytest.mark.parametrize('server, formula', [
    ('gd', lambda k: (k - 1) / (k + 1)),
    ('nesterov', lambda k: 1 - 2 / np.sqrt(3 * k + 1)),
    ('heavy_ball', lambda k: (np.sqrt(k) - 1) / (np.sqrt(k) + 1)),
])
def test_rates_are_those_of_table_2(server, formula):
  kappa = np.geomspace(1, 1e8, 50)
  np.testing.assert_allclose(
      rates.rate(kappa, server), formula(kappa), rtol=1e-12, atol=1e-15
  )
  rho = formula(kappa[1:20])
  np.testing.assert_allclose(
      rates.kappa_of_rate(rho, server), kappa[1:20], rtol=1e-10
  )
  assert rates.rate(np.inf, server) == 1


def test_momentum_is_faster_at_every_condition_number():
  """S12: heavy ball < Nesterov < GD for kappa - 1 from 1e-8 to 1e6."""
  kappa = 1 + np.geomspace(1e-8, 1e6, 200)
  gd, nesterov, heavy_ball = (rates.rate(kappa, s) for s in rates.SERVERS)
  assert np.all(heavy_ball < nesterov) and np.all(nesterov < gd)


def test_gradient_descent_contracts_by_its_rate_in_every_round():
  """Check 8: the constant 1 of Theorem 3, for T = 1..200."""
  for seed in range(20):
    surrogate = _surrogate(seed)
    low, high = surrogate.extremes
    x = 10 * np.random.default_rng(seed).normal(size=3)
    errors = _errors(surrogate, x, 'gd', 200)
    rho = rates.rate(high / low, 'gd')
    bound = errors[0] * rho ** np.arange(201)
    assert np.all(errors <= bound * (1 + 1e-9) + 1e-13)


@pytest.mark.parametrize('server', ['nesterov', 'heavy_ball'])
def test_momentum_has_its_rate_up_to_a_linear_factor(server):
  """Errors over rho^T grow with T: the printed constant 1 is no bound."""
  surrogate = _surrogate(0)
  low, high = surrogate.extremes
  rho = rates.rate(high / low, server)
  slow = np.linalg.eigh(surrogate.hessian)[1][:, 0]
  errors = _errors(surrogate, surrogate.optimum + 1e6 * slow, server, 12)
  quotients = errors / (errors[0] * rho ** np.arange(13))
  # Along an eigenvector with a defective matrix: a + b T, exactly.
  assert np.diff(quotients) == pytest.approx(quotients[1] - 1, rel=1e-2)
  assert quotients[12] > 5


def test_heavy_ball_swaps_rate_and_suboptimality():
  """S12: kappa -> kappa0 / kappa; (rho + Delta) / (1 + rho Delta) = rho0."""
  for kappa0 in (2.0, 10.0, 1e4):
    kappa = np.geomspace(1, kappa0, 41)
    rho, delta = rates.rate(kappa, 'heavy_ball'), bounds.delta(kappa0, kappa)
    rho0 = rates.rate(kappa0, 'heavy_ball')
    assert np.abs((rho + delta) / (1 + rho * delta) - rho0).max() < 1e-14
    np.testing.assert_allclose(
        rates.rate(kappa0 / kappa, 'heavy_ball'), delta, rtol=0, atol=1e-14
    )


def test_raises_on_an_unknown_server():
  sentence = "`server` must be one of gd, nesterov, heavy_ball, found 'adam'"
  for call in (
      lambda: rates.rate(2.0, 'adam'),
      lambda: rates.kappa_of_rate(0.5, 'adam'),
      lambda: rates.server_step(2.0, 1.0, 'adam'),
  ):
    with pytest.raises(ValueError, match=sentence):
      call()


def _surrogate(seed):
  return surrogate_lib.Surrogate(
      problems.random_federation(seed),
      local_updates.LocalUpdate(thetas.FirstGradients(3), 0.03),
  )


def _errors(surrogate, x, server, num_rounds):
  low, high = surrogate.extremes
  step = rates.server_step(high, low, server)
  found = itertools.islice(surrogate.rounds(x, server, step), num_rounds + 1)
  return np.array([np.linalg.norm(x - surrogate.optimum) for x in found])
