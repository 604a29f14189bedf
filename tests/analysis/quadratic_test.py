"""Quadratic clients: losses, optima, and losses after adaptation."""

import numpy as np
import pytest

from tests.analysis import problems
from tff_pers.analysis import federations
from tff_pers.analysis import local_updates
from tff_pers.analysis import quadratic
from tff_pers.analysis import surrogate
from tff_pers.numerics import thetas


def test_loss_is_smallest_at_the_optimum():
  federation = problems.random_federation(0)
  x = federation.optimum
  gradient = federation.mean(federation.gradients(x))
  np.testing.assert_allclose(gradient, 0, atol=1e-12)
  for move in np.random.default_rng(1).normal(size=[5, 3]):
    # Exactly quadratic around it.
    expected = federation.loss(x) + 0.5 * move @ federation.hessian @ move
    assert federation.loss(x + move) == pytest.approx(expected, rel=1e-12)


def test_weights_of_clients_count():
  """d = 1: x* = E[A c] / E[A], C.2 with p = 1/4."""
  federation = quadratic.QuadraticFederation(
      np.array([4.0, 1.0]).reshape(2, 1, 1), [[1.0], [-1.0]], [0.25, 0.75]
  )
  p = 0.25
  assert federation.optimum == pytest.approx((5 * p - 1) / (3 * p + 1))
  assert federation.radius == 1
  assert federation.spectrum == local_updates.Spectrum(1.0, 4.0)


@pytest.mark.parametrize('num_steps', [0, 1, 3])
def test_post_adaptation_loss_is_that_of_clients_that_adapt(num_steps):
  federation = problems.random_federation(2)
  x = np.random.default_rng(3).normal(size=3)
  losses = []
  for a, c in zip(federation.hessians, federation.optima):
    y = x
    for _ in range(num_steps):
      y = y - 0.05 * a @ (y - c)
    losses.append(0.5 * (y - c) @ a @ (y - c))
  found = federation.post_adaptation_loss(
      x, num_steps=num_steps, learning_rate=0.05
  )
  assert found == pytest.approx(federation.weights @ losses, rel=1e-12)


@pytest.mark.parametrize('num_steps', [1, 2])
def test_maml_minimizes_the_loss_after_adaptation_and_fedavg_does_not(
    num_steps
):
  federation = problems.random_federation(4)
  gamma = 0.08
  loss = lambda x: federation.post_adaptation_loss(
      x, num_steps=num_steps, learning_rate=gamma
  )
  optimum = lambda theta: surrogate.Surrogate(
      federation, local_updates.LocalUpdate(theta, gamma)
  ).optimum
  best = optimum(thetas.maml(num_steps))
  for move in np.random.default_rng(5).normal(size=[10, 3]):
    assert loss(best + 1e-3 * move) > loss(best)
  for k in (1, 2, 5, 50):
    assert loss(optimum(thetas.FirstGradients(k))) > loss(best) * (1 + 1e-6)


def test_linear_regression_has_the_loss_of_its_data():
  rng = np.random.default_rng(6)
  x = [rng.normal(size=[n, 3]) for n in (5, 9)]
  y = [rng.normal(size=n) for n in (5, 9)]
  federation = federations.linear_regression(x, y)
  data_loss = lambda w: np.array(
      [np.mean((a @ w - b) ** 2) / 2 for a, b in zip(x, y)]
  )
  w, v = rng.normal(size=[2, 3])
  # Up to a constant of each client.
  np.testing.assert_allclose(
      federation.client_losses(w) - federation.client_losses(v),
      data_loss(w) - data_loss(v), rtol=1e-10,
  )
  np.testing.assert_allclose(federation.client_losses(
      federation.optima[0])[0], 0, atol=1e-12)


def test_rotated_clients_share_no_eigenvector_and_are_better_conditioned():
  """6.9: Eq. 9 is 100 for each client; their mean is far from that."""
  rotated = federations.rotated(20, 10, 1.0, 100.0, seed=0)
  shared = federations.shared_extremes(20, 10, 1.0, 100.0, seed=0)
  update = local_updates.LocalUpdate(thetas.FirstGradients(1), 0.0)
  for federation in (rotated, shared):
    assert federation.spectrum.kappa0 == pytest.approx(100)
    assert surrogate.Surrogate(federation, update).problem_kappa == (
        pytest.approx(100)
    )
    np.testing.assert_allclose(np.linalg.norm(federation.optima, axis=1), 1)
  assert surrogate.Surrogate(rotated, update).condition_number < 4
  assert surrogate.Surrogate(shared, update).condition_number == (
      pytest.approx(100)
  )


@pytest.mark.parametrize('arguments, sentence', [
    ((np.eye(2), np.ones(2)), r'must be \[N, d, d\]'),
    ((np.ones([1, 2, 2]), np.ones([1, 2])), 'must be positive definite'),
    (([[[1.0, 0.5], [0.0, 1.0]]], np.ones([1, 2])), 'must be symmetric'),
    (([np.eye(2)] * 2, np.ones([2, 2]), [0.5, 0.6]), 'numbers >= 0 with sum 1'),
    (([np.eye(2)] * 2, np.ones([2, 2]), [1.5, -0.5]), 'numbers >= 0 with sum'),
])
def test_raises_on_bad_clients(arguments, sentence):
  with pytest.raises(ValueError, match=sentence):
    quadratic.QuadraticFederation(*arguments)


def test_raises_on_dependent_features():
  x = [np.ones([4, 2])]
  with pytest.raises(ValueError, match='2 linearly independent columns, found 1'):
    federations.linear_regression(x, [np.ones(4)])
