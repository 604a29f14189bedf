"""Distances between optima: valid bounds hold, the paper's does not (check 9).
"""

import warnings

import numpy as np
import pytest

from tests.analysis import problems
from tff_pers.analysis import bounds
from tff_pers.analysis import federations
from tff_pers.analysis import local_updates
from tff_pers.analysis import quadratic
from tff_pers.analysis import surrogate as surrogate_lib
from tff_pers.numerics import thetas


def _surrogate(federation, theta, gamma, alpha=0.0):
  return surrogate_lib.Surrogate(
      federation, local_updates.LocalUpdate(theta, gamma, alpha)
  )


def _random_update(rng, largest):
  num_steps = int(rng.integers(1, 40))
  form = (thetas.FirstGradients, thetas.LastGradient)[rng.integers(2)]
  alpha = float(rng.choice([0.0, 0.5, 5.0]))
  return form(num_steps), rng.uniform(0, 0.99) / (largest + alpha), alpha


def _two_opposed_clients(angle=0.1, mu=1e-3):
  """Stretched along nearly the same line, their optima at either end of it."""
  hessians, optima = [], []
  for sign in (1, -1):
    u = np.array([np.cos(angle), sign * np.sin(angle)])
    hessians.append((1 - mu) * np.outer(u, u) + mu * np.eye(2))
    optima.append(sign * u)
  return quadratic.QuadraticFederation(np.array(hessians), np.array(optima))


def test_scalar_bound_is_never_violated_and_tight():
  """Check 9 (V3): 10^4 problems of d = 1, 250 of each of 40 updates.

  The first of each goes through the objects, all of them by their formulas.
  """
  rng = np.random.default_rng(0)
  largest_ratio = 0.0
  for _ in range(40):
    theta, gamma, alpha = _random_update(rng, 1.0)
    update = local_updates.LocalUpdate(theta, gamma, alpha)
    curvatures = 10 ** rng.uniform(-3, 0, size=[250, 2])
    p = rng.dirichlet([1, 1], size=250)
    optima = rng.uniform(-1, 1, size=[250, 2])
    optima[125:] = [1, -1]
    mean = lambda v, w: (v * w).sum(axis=1) / w.sum(axis=1)
    distances = np.abs(
        mean(optima, p * curvatures)
        - mean(optima, p * curvatures * update.q(curvatures))
    )
    widths = np.ptp(update.log_q(curvatures), axis=1)
    limits = 2 * np.abs(optima).max(axis=1) * np.tanh(widths / 4)
    assert np.all(distances <= limits * (1 + 1e-9) + 1e-12)
    largest_ratio = max(largest_ratio, (distances / (limits + 1e-6)).max())
    surrogate = _surrogate(
        quadratic.QuadraticFederation(
            curvatures[0].reshape(2, 1, 1), optima[0].reshape(2, 1), p[0]
        ), theta, gamma, alpha,
    )
    assert bounds.scalar_bound(surrogate) == pytest.approx(limits[0], abs=1e-9)
    assert surrogate.distance == pytest.approx(distances[0], abs=1e-9)
  assert largest_ratio > 0.95


@pytest.mark.parametrize('dim', [2, 5, 20])
def test_heterogeneity_bound_is_never_violated(dim):
  """Check 9 (V1), some 10^3 problems in all."""
  rng = np.random.default_rng(dim)
  for seed in range(334):
    federation = problems.random_federation(
        seed, dim=dim, mu=10 ** rng.uniform(-2, 0)
    )
    surrogate = _surrogate(federation, *_random_update(rng, 10.0))
    bound = bounds.heterogeneity_bound(surrogate)
    assert surrogate.distance <= bound * (1 + 1e-9) + 1e-12


def test_heterogeneity_bound_is_attained_by_two_scalar_clients():
  """H (xtil* - x*) = (b - a)/2 E|grad f_i(x*)| for Q at a and at b."""
  federation = quadratic.QuadraticFederation(
      np.reshape([0.1, 1.0], [2, 1, 1]), [[1.0], [-1.0]]
  )
  surrogate = _surrogate(federation, thetas.FirstGradients(9), 0.5)
  assert bounds.heterogeneity_bound(surrogate) == pytest.approx(
      surrogate.distance, rel=1e-12
  )


def test_heterogeneity_bound_is_zero_for_clients_of_one_optimum():
  federation = problems.random_federation(0)
  federation = quadratic.QuadraticFederation(
      federation.hessians, np.tile([1.0, 2.0, 3.0], [4, 1])
  )
  surrogate = _surrogate(federation, thetas.FirstGradients(9), 0.05)
  assert bounds.heterogeneity_bound(surrogate) < 1e-12
  assert surrogate.distance < 1e-12


def test_commuting_bound_is_never_violated_in_any_basis():
  """S13 (V2)."""
  rng = np.random.default_rng(1)
  for _ in range(500):
    dim, num_clients = rng.integers(1, 8, size=2)
    basis = np.linalg.qr(rng.normal(size=[dim, dim]))[0]
    curvatures = 10 ** rng.uniform(-2, 0, size=[num_clients, dim])
    hessians = np.einsum('ij,nj,kj->nik', basis, curvatures, basis)
    optima = rng.normal(size=[num_clients, dim])
    federation = quadratic.QuadraticFederation(
        (hessians + np.swapaxes(hessians, 1, 2)) / 2, optima
    )
    surrogate = _surrogate(federation, *_random_update(rng, 1.0))
    bound = bounds.commuting_bound(surrogate)
    assert surrogate.distance <= bound * (1 + 1e-9) + 1e-12
    reach = np.linalg.norm(np.abs(optima @ basis).max(axis=0))
    delta = bounds.delta_of_distortion(surrogate.distortion_range)
    assert bound == pytest.approx(2 * reach * delta, rel=1e-9, abs=1e-12)


def test_paper_bound_fails_for_two_clients_in_the_plane():
  """2.5, counterexample 1: 9.0118 > 8 C > 8 C Delta."""
  federation = _two_opposed_clients()
  surrogate = _surrogate(federation, thetas.FirstGradients(10 ** 6), 0.5)
  assert federation.radius == pytest.approx(1)
  assert federation.optimum == pytest.approx([0, 9.1116], abs=1e-4)
  assert surrogate.optimum == pytest.approx([0, 0.0998], abs=1e-4)
  assert surrogate.distance == pytest.approx(9.0118, abs=1e-3)
  with pytest.warns(UserWarning, match='here it fails: 7.50') as caught:
    bound = bounds.paper_bound(surrogate)
  assert len(caught) == 1
  assert bound == pytest.approx(7.509, abs=1e-3)
  table = {row['bound']: row for row in bounds.table(surrogate)}
  assert list(table) == ['V1', 'paper, 8 C Delta']
  assert table['V1']['holds'] and table['V1']['is_valid']
  assert not table['paper, 8 C Delta']['holds']
  assert not table['paper, 8 C Delta']['is_valid']


@pytest.mark.parametrize('dim', [2, 5, 6, 10])
def test_conjectured_bound_fails_in_six_dimensions(dim):
  """2.5, counterexample 2: sqrt d - 1 / sqrt d exceeds 2 from d = 6 on."""
  small = 1e-9
  curvatures = np.full([dim, dim], small) + np.eye(dim)
  surrogate = _surrogate(
      federations.diagonal(curvatures, np.eye(dim)),
      thetas.FirstGradients(10 ** 12), 0.5,
  )
  expected = np.sqrt(dim) - 1 / np.sqrt(dim)
  assert surrogate.distance == pytest.approx(expected, rel=1e-5)
  with pytest.warns(UserWarning, match='fails' if dim >= 6 else 'holds'):
    bounds.paper_bound(surrogate, factor=2)
  rows = {row['bound']: row['holds'] for row in bounds.table(surrogate)}
  assert rows['V1'] and rows['V2']


@pytest.mark.parametrize('p, num_steps, distance, bound', [
    (0.5, 2, 0.208696, 0.277997), (0.5, 5, 1.002044, 1.015385),
    (0.5, 200, 1.6, 2.0), (0.99, 20, 1.976044, 1.980453),
    (0.99, 200, 1.994962, 2.0),
])
def test_tight_example_of_one_dimension(p, num_steps, distance, bound):
  """Check 9 (S11): A = 4 and 1, c = 1 and -1, gamma = 1/8, Theta_K."""
  federation = quadratic.QuadraticFederation(
      np.reshape([4.0, 1.0], [2, 1, 1]), [[1.0], [-1.0]], [p, 1 - p]
  )
  surrogate = _surrogate(federation, thetas.LastGradient(num_steps), 1 / 8)
  assert federation.optimum == pytest.approx((5 * p - 1) / (3 * p + 1))
  assert surrogate.distance == pytest.approx(distance, abs=1e-6)
  assert bounds.scalar_bound(surrogate) == pytest.approx(bound, abs=1e-6)
  with warnings.catch_warnings():
    warnings.simplefilter('error')  # In one dimension nothing is wrong.
    printed = bounds.paper_bound(surrogate)
  assert printed == pytest.approx(4 * bound, abs=1e-5)
  assert all(row['holds'] and row['is_valid'] for row in bounds.table(surrogate))


def test_delta_of_the_distortion_is_that_of_kappa_where_h_rises():
  """Lemma 6 with equality, and the ends of Eq. 17."""
  spectrum = local_updates.Spectrum(1.0, 10.0)
  for theta, gamma in (
      (thetas.FirstGradients(10), 0.05), (thetas.LastGradient(10), 0.005)
  ):
    update = local_updates.LocalUpdate(theta, gamma)
    kappa = surrogate_lib.worst_case_kappa(update, spectrum)
    assert bounds.delta_of_distortion(update.q_range(spectrum)) == (
        pytest.approx(bounds.delta(10.0, kappa), rel=1e-12)
    )
  assert bounds.delta(10.0, 10.0) == 0
  assert bounds.delta(10.0, 1.0) == pytest.approx(0.519494, abs=1e-6)


def test_raises_on_clients_that_a_bound_is_not_for():
  surrogate = _surrogate(
      problems.random_federation(0), thetas.FirstGradients(2), 0.05
  )
  with pytest.raises(ValueError, match='must have dimension 1, found 3'):
    bounds.scalar_bound(surrogate)
  with pytest.raises(ValueError, match='must have Hessians that commute'):
    bounds.commuting_bound(surrogate)
