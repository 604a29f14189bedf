"""Lemmas and claims that the papers state beside their main theorems.

Each test measures a number that would be another one if the claim were wrong,
and names what makes the claim fail.
"""

import numpy as np
import pytest

from tests.analysis import problems
from tff_pers.analysis import local_updates
from tff_pers.analysis import quadratic
from tff_pers.analysis import surrogate as surrogate_lib
from tff_pers.numerics import robust
from tff_pers.numerics import thetas


def _deviation(values, weights):
  return weights @ np.abs(values - weights @ values)


def test_mean_deviation_of_a_bounded_variable():
  """Theorem 5 and Corollary 2 of local updates: tight at two points only."""
  rng, low, high = np.random.default_rng(0), -1.0, 3.0
  shares = []
  for size in range(2, 12):
    for _ in range(300):
      values = rng.uniform(low, high, size)
      weights = rng.dirichlet(np.ones(size))
      mean = weights @ values
      bound = 2 * (high - mean) * (mean - low) / (high - low)
      shares.append(_deviation(values, weights) / bound)
      assert bound <= (high - low) / 2
  assert 0.9 < max(shares) < 1
  ends = np.array([low, high])
  for share in (0.1, 0.5, 0.8):
    weights = np.array([share, 1 - share])
    mean = weights @ ends
    np.testing.assert_allclose(
        _deviation(ends, weights),
        2 * (high - mean) * (mean - low) / (high - low), rtol=1e-12,
    )
  np.testing.assert_allclose(_deviation(ends, np.full(2, 0.5)), 2.0)


def _surrogate(seed, theta, rate, alpha=0.5):
  """Returns a surrogate with gamma = rate / (L + alpha)."""
  federation = problems.random_federation(seed, dim=4)
  largest = np.linalg.eigvalsh(federation.hessians).max()
  return surrogate_lib.Surrogate(federation, local_updates.LocalUpdate(
      theta, rate / (largest + alpha), alpha
  ))


def test_distortions_are_positive_definite():
  """Lemma 1 of local updates; beyond the rate some are not."""
  theta, least = thetas.Gradients(np.array([0.0, 1.0])), []
  for seed in range(50):
    least.append(
        np.linalg.eigvalsh(_surrogate(seed, theta, 0.999).distortions).min()
    )
  assert min(least) > 0
  beyond = _surrogate(0, theta, 1.5, alpha=0.0).distortions
  assert np.linalg.eigvalsh(beyond).min() < -0.4  # 1 - 1.5 at L.


def test_curvature_of_the_surrogate_is_between_the_means():
  """Lemma 10 of local updates: of the clients' extreme eigenvalues."""
  theta, shares = thetas.Gradients(np.ones(5)), []
  for seed in range(50):
    surrogate = _surrogate(seed, theta, 0.5)
    own = np.linalg.eigvalsh(surrogate.hessians)
    weights = surrogate.federation.weights
    low, high = weights @ own[:, 0], weights @ own[:, -1]
    found = np.linalg.eigvalsh(surrogate.hessian)
    assert low <= found[0] * (1 + 1e-12) and found[-1] <= high * (1 + 1e-12)
    shares.append((found[-1] - found[0]) / (high - low))
  assert np.median(shares) < 0.9  # The bounds are not equalities.


def test_a_ratio_of_positive_definite_matrices_may_have_a_norm_above_1():
  """Lemma 14 of local updates does not hold; its eigenvalues are below 1."""
  one = np.diag([1.0, 1e-2])
  turn = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-2]])
  ratio = one @ np.linalg.inv(one + turn)
  assert np.linalg.eigvals(ratio).real.max() < 1
  norms = []
  rng = np.random.default_rng(0)
  for _ in range(2000):
    factors = rng.normal(size=(2, 2, 2)) * 10 ** rng.uniform(-2, 1, (2, 1, 2))
    first, second = factors @ np.swapaxes(factors, 1, 2) + 1e-9 * np.eye(2)
    norms.append(np.linalg.norm(first @ np.linalg.inv(first + second), 2))
  assert max(norms) > 2


def _matrix_discrepancy(surrogate):
  """Returns M(Q|A) = E ||E[Q A]^-1 Q_i A_i - E[A]^-1 A_i||.

  Times the largest ||c_i|| it bounds the distance of the optima, as the proof
  of Lemma 5 uses it.
  """
  federation = surrogate.federation
  own = np.linalg.solve(surrogate.hessian, surrogate.hessians)
  plain = np.linalg.solve(federation.hessian, federation.hessians)
  return federation.weights @ np.linalg.norm(own - plain, 2, axis=(1, 2))


def _stretched(rng, dim):
  """Returns two clients with the eigenvalues 1 and mu, or 1, and mu."""
  mu = 10 ** rng.uniform(-4, -1)
  if dim == 1:
    hessians = np.reshape([1.0, mu], [2, 1, 1])
  else:
    angles = rng.uniform(0, np.pi, 2)
    lines = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    hessians = mu * np.eye(2) + (1 - mu) * np.einsum('ni,nj->nij', lines, lines)
  return quadratic.QuadraticFederation(
      hessians, rng.normal(size=[2, dim]), rng.dirichlet(np.ones(2))
  )


def test_a_discrepancy_weighted_by_matrices_exceeds_its_bound():
  """Theorem 6 of local updates: 2 (b - a) / b holds for numbers alone."""
  rng, largest = np.random.default_rng(0), {}
  for dim in (1, 2):
    shares = []
    for _ in range(300):
      surrogate = surrogate_lib.Surrogate(
          _stretched(rng, dim),
          local_updates.LocalUpdate(thetas.FirstGradients(1000), 0.5),
      )
      a, b = np.exp(surrogate.distortion_range)
      shares.append(_matrix_discrepancy(surrogate) * b / (2 * (b - a)))
    largest[dim] = max(shares)
  assert 0.8 < largest[1] < 1 and largest[2] > 10


@pytest.mark.parametrize('rule', ['krum', 'median', 'geometric_median'])
def test_a_single_rule_is_no_robust_aggregator(rule):
  """Byzantine-robust FFGG, Definition 2: error^2 <= c delta rho^2.

  Half of the honest clients send 0, half 1, and one of n clients is an
  attacker: delta is 1 / n. The error of the rule stays, so that no c is enough.
  The rule applied to means of 20 random messages each has a bounded c.
  """
  def error(n, is_mixed):
    sent = np.concatenate([np.arange(n - 1) % 2, [50.0]])[:, None]
    if is_mixed:
      order = np.random.default_rng(n).permutation(n)
      buckets = np.array_split(sent[order], n // 20)
      sent = np.array([bucket.mean(axis=0) for bucket in buckets])
    if rule == 'krum':
      found = robust.krum(sent, 1)
    elif rule == 'median':
      found = robust.median(sent)
    else:
      found = robust.geometric_median(sent)
    honest = (np.arange(n - 1) % 2).mean()
    return n * (float(np.squeeze(found)) - honest) ** 2

  alone = [error(n, False) for n in (21, 201, 2001)]
  assert alone[2] > 50 * alone[0] > 50 * 4
  mixed = [error(n, True) for n in (201, 2001)]
  assert max(mixed) < 0.1 * alone[1]
