"""pFedGraph (papers/neighbours.md 5)."""

import numpy as np
import pytest
from scipy import optimize

from baselines import pfedgraph
from tests import problems
from tests.baselines import known_models
from tff_pers.numerics import distances

_tensor = known_models.tensor
_SIZES = np.array([9.0, 35.0, 7.0, 37.0, 41.0, 12.0])
_P = _SIZES / _SIZES.sum()


def _rows(cosines, sizes=_SIZES, lambda_=0.8):
  return pfedgraph.rows(_tensor(cosines), _tensor(sizes), lambda_).numpy()


def _cosines(vectors):
  units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
  return units @ units.T


def test_limits_give_the_shares_of_examples():
  """Checks 1 and 2: lambda -> infinity, and all cosines equal."""
  cosines = _cosines(known_models.MODELS)
  np.testing.assert_allclose(
      _rows(cosines, lambda_=1e9), np.tile(_P, (6, 1)), atol=1e-8
  )
  for equal in (0.3, 0.95):
    np.testing.assert_allclose(
        _rows(np.full((6, 6), equal)), np.tile(_P, (6, 1)), atol=1e-12
    )


@pytest.mark.parametrize('lambda_', [0.3, 0.8, 5.0])
def test_rows_solve_the_problem(lambda_):
  """Check 3: KKT to 1e-12, SLSQP to 1e-6."""
  cosines = _cosines(known_models.MODELS)
  cosines[0, 3] = 0.93  # Counts as 1.
  rows = _rows(cosines, lambda_=lambda_)
  alike = np.where(cosines > 0.9, 1.0, cosines)
  for a, cos in zip(rows, alike):
    assert np.all(a >= 0) and a.sum() == pytest.approx(1, abs=1e-12)
    slopes = 2 * lambda_ * (a - _P) - cos
    np.testing.assert_allclose(slopes[a > 0], slopes.min(), atol=1e-12)
    found = optimize.minimize(
        lambda x, cos=cos: lambda_ * np.sum((x - _P) ** 2) - x @ cos, _P,
        bounds=[(0, 1)] * 6, method='SLSQP', options=dict(ftol=1e-15),
        constraints=[dict(type='eq', fun=lambda x: x.sum() - 1)],
    )
    np.testing.assert_allclose(a, found.x, atol=1e-6)


def test_opposite_groups_do_not_mix():
  """Check 4."""
  signs = np.array([1, -1, 1, -1, 1, -1])
  rows = _rows(np.outer(signs, signs), sizes=np.ones(6))
  expected = np.where(np.outer(signs, signs) > 0, 1 / 3, 0)
  np.testing.assert_allclose(rows, expected, atol=1e-12)


def test_who_has_not_trained_teaches_nobody():
  """It starts from what the shares of the others mix; at first all are alike."""
  sizes = np.where(np.arange(6) == 4, 0.0, _SIZES)
  vectors = known_models.MODELS * (sizes > 0)[:, None]
  cosines = vectors @ vectors.T / np.maximum(
      np.outer(*2 * [np.linalg.norm(vectors, axis=1)]), 1e-9
  )
  rows = _rows(cosines, sizes)
  assert np.all(rows[:, 4] == 0)
  np.testing.assert_allclose(rows[4], sizes / sizes.sum(), atol=1e-12)
  np.testing.assert_allclose(
      _rows(np.zeros((6, 6)), np.zeros(6)), np.full((6, 6), 1 / 6), atol=1e-12
  )


def test_gradient_of_the_cosine():
  """Check 5: finite differences; 0 at a norm of 0."""
  theta, c = known_models.MODELS[:2]
  def cosine(x):
    return x @ c / np.linalg.norm(x) / np.linalg.norm(c)
  found = distances.cosine_gradient(
      (_tensor(theta[:2]), _tensor(theta[2:])), (_tensor(c[:2]), _tensor(c[2:]))
  )
  np.testing.assert_allclose(
      np.concatenate(found), known_models.finite_difference(cosine, theta),
      rtol=1e-6, atol=1e-9,
  )
  for x, y in ((theta, 0 * c), (0 * theta, c)):
    nothing, = distances.cosine_gradient((_tensor(x),), (_tensor(y),))
    assert np.all(nothing == 0)


@pytest.mark.parametrize('mu', [
    0.3, pytest.param(0.0, marks=pytest.mark.slow),
])
def test_a_round_is_that_of_numpy(mu):
  """Cosines of what has moved from theta_0; rows of the cohort alone."""
  q6 = problems.q6()
  values = pfedgraph.PFedGraphHyperparameters(
      learning_rate=0.1, local_steps=3, batch_size=50, lambda_=0.9, mu=mu
  )
  process = pfedgraph.build_pfedgraph(q6.model, 6, values)
  theta_0 = np.random.default_rng(3).standard_normal(5)
  sizes = np.where(np.arange(6) == 3, 0, _SIZES).astype(np.float32)
  state, theta, metrics = known_models.play(
      process, initial=(theta_0,), sizes=sizes
  )
  cohort = list(known_models.COHORT)
  models = known_models.MODELS[cohort]
  p = sizes[cohort].astype(np.float64) / sizes[cohort].sum()
  for i, cos, own in zip(cohort, _cosines(models - theta_0), theta):
    cos = np.where(cos > 0.9, 1, cos)
    # The level nu at which sum max(p + cos / (2 lambda) - nu, 0) is 1.
    v = (p + cos / 1.8)[p > 0]
    nu = optimize.brentq(
        lambda x, v=v: np.maximum(v - x, 0).sum() - 1, -9, 9, xtol=1e-15
    )
    a = np.zeros(4)
    a[p > 0] = np.maximum(v - nu, 0)
    c = sum(x * w / np.linalg.norm(w) for x, w in zip(a, models))
    w = a @ models
    for _ in range(3):
      norm, other = np.linalg.norm(w), np.linalg.norm(c)
      to_c = c / norm / other - (w @ c) * w / norm**3 / other
      w = w - 0.1 * (known_models.gradient(i, w) - mu * to_c)
    np.testing.assert_allclose(own, w, rtol=0, atol=1e-10)
  known_models.assert_kept(state, theta)
  # Client 3 has trained now.
  expected = np.where(np.arange(6) == 3, q6.num_examples, sizes)
  np.testing.assert_array_equal(state['sizes'], expected)
  # u_i, and c_i if it is used; theta_i and its weight.
  down = 80 if mu else 40
  assert (metrics['bytes_down'], metrics['bytes_up']) == (down, 44)
