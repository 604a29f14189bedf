"""FedAMP (papers/neighbours.md 2)."""

import numpy as np
import pytest

from baselines import fedamp
from tests import problems
from tests.baselines import known_models

_tensor = known_models.tensor


def _values(**options):
  return fedamp.FedAmpHyperparameters(
      learning_rate=0.1, local_steps=3, batch_size=50, **options
  )


def _attention(vectors, **options):
  """Returns (xi, alpha), arrays."""
  xi, alpha = fedamp.attention(_tensor(vectors), _values(**options))
  return xi.numpy(), alpha.numpy()


def _numpy_attention(w, sigma=1.0):
  """Returns the same from the sheet, a pair of clients at a time."""
  m = len(w)
  d = np.array([[np.sum((a - b) ** 2) for b in w] for a in w])
  d = d / np.median([
      min(d[i, j] for j in range(m) if j != i) for i in range(m)
  ])
  slopes = np.exp(-d / sigma) / sigma
  np.fill_diagonal(slopes, 0)
  alpha = 0.5 / max(slopes.sum(axis=1))
  return alpha * slopes, alpha


@pytest.mark.parametrize('vectors', [np.ones((4, 3)), np.ones((1, 3))])
def test_equal_models_and_a_client_alone_are_left_as_they_are(vectors):
  """Check 2."""
  xi, alpha = _attention(vectors)
  assert np.all(xi == 0) and alpha == 0


def test_groups_far_apart_do_not_mix():
  """Check 3; at any separation, and the largest row sum is `pull`."""
  rng = np.random.default_rng(0)
  near = 0.1 * rng.standard_normal((6, 4))
  for distance in (1.0, 1e3):
    xi, _ = _attention(near + distance * (np.arange(6) % 2)[:, None], pull=0.3)
    is_across = np.add.outer(np.arange(6), np.arange(6)) % 2 == 1
    assert np.all(xi[is_across] < 1e-6)
    np.testing.assert_allclose(xi.sum(axis=1).max(), 0.3, rtol=1e-12)


def test_server_step_is_along_the_gradient_of_attraction():
  """Check 4: grad sum_{j != i} A(||w_i - w_j||^2) = 2 (w_i - u_i) / alpha."""
  w = known_models.MODELS
  xi, alpha = _attention(w, sigma=2.5, sigma_absolute=True)
  u = w + xi @ w - xi.sum(axis=1, keepdims=True) * w
  for i, own in enumerate(w):
    def attraction(x, i=i):
      others = np.delete(w, i, axis=0)
      return np.sum(1 - np.exp(-np.sum((x - others) ** 2, axis=1) / 2.5))
    np.testing.assert_allclose(
        known_models.finite_difference(attraction, own),
        2 * (own - u[i]) / alpha, rtol=1e-6, atol=1e-8,
    )


@pytest.mark.parametrize('start', [
    'own', pytest.param('received', marks=pytest.mark.slow),
])
def test_a_round_is_that_of_numpy(start):
  """Steps implicit in s/2 ||w - u||^2; rows of the cohort alone."""
  process = fedamp.build_fedamp(
      problems.q6().model, 6, _values(lambda_=0.7, sigma=1.5, start=start)
  )
  state, theta, metrics = known_models.play(process)
  cohort = list(known_models.COHORT)
  w = known_models.MODELS[cohort]
  xi, alpha = _numpy_attention(w, sigma=1.5)
  s, expected = 0.7 / alpha, []
  for i, row, own in zip(cohort, xi, w):
    u = own + sum(x * (other - own) for x, other in zip(row, w))
    own = u if start == 'received' else own
    for _ in range(3):
      own = own - 0.1 * known_models.gradient(i, own)
      own = (own + 0.1 * s * u) / (1 + 0.1 * s)  # The proximal point.
    expected.append(own)
  np.testing.assert_allclose(theta, expected, rtol=0, atol=1e-10)
  known_models.assert_kept(state, theta)
  # A model each way, and s.
  assert (metrics['bytes_down'], metrics['bytes_up']) == (8 * 6, 8 * 5)


def test_heuristic_follows_cosines():
  w = known_models.MODELS
  xi, alpha = _attention(w, variant='heuristic', cos_scale=3.0, pull=0.4)
  units = w / np.linalg.norm(w, axis=1, keepdims=True)
  expected = np.exp(3 * units @ units.T)
  np.fill_diagonal(expected, 0)
  expected *= 0.4 / expected.sum(axis=1, keepdims=True)
  np.testing.assert_allclose(xi, expected, rtol=1e-12)
  assert alpha == pytest.approx(0.4, rel=1e-12)
