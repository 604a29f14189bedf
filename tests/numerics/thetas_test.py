"""The power sums of Theta: three forms agree, at all scales."""

import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tff_pers.numerics import thetas

_FORMS = (thetas.FirstGradients, thetas.LastGradient)


@pytest.mark.parametrize('form', _FORMS)
@hypothesis.settings(derandomize=True, deadline=None, max_examples=50)
@hypothesis.given(
    num_steps=st.integers(1, 40), s=st.floats(0, 2.5, allow_subnormal=False)
)
def test_closed_form_is_the_sum(form, num_steps, s):
  theta = form(num_steps)
  expected = thetas.Gradients(theta.theta).q(s)
  # Sums with alternating signs lose digits where s > 1.
  np.testing.assert_allclose(
      theta.q(s), expected, rtol=1e-10, atol=1e-10 * max(1, abs(1 - s)) ** 40
  )


@pytest.mark.parametrize('s', [1e-300, 1e-18, 1e-9, 1e-7, 0.3, 0.499999, 0.51])
def test_sum_of_a_million_powers(s):
  """K for small s, then 1 / s, without cancellation in between."""
  k = 10 ** 6
  found = float(thetas.FirstGradients(k).q(s))
  # Of 1 - (1 - s)^K by its series where K s is small.
  z = k * s
  expected = k * (1 - z / 2) if z < 1e-5 else (1 - math.exp(
      k * math.log1p(-s)
  )) / s
  assert found == pytest.approx(expected, rel=1e-9)


def test_no_step_length_gives_the_number_of_gradients():
  assert thetas.FirstGradients(7).q(0.0) == 7
  assert thetas.LastGradient(7).q(0.0) == 1


def test_logarithm_of_the_last_gradient_does_not_underflow():
  found = thetas.LastGradient(10 ** 6).log_q(1e-2)
  assert found == pytest.approx((10 ** 6 - 1) * math.log1p(-1e-2), rel=1e-14)
  assert thetas.LastGradient(10 ** 6).q(1e-2) == 0.0


def test_zeros_at_the_end_are_not_computed():
  theta = thetas.Gradients([0, 2, 0, 1, 0, 0])
  assert theta.num_steps == 4
  assert theta.theta == (0, 2, 0, 1)


def test_maml_is_the_last_of_two_j_and_one():
  """A query after J steps, differentiated through them (Theorem 2)."""
  rng = np.random.default_rng(0)
  a, gamma, num_steps = rng.uniform(1, 10, 5), 0.05, 3
  step = 1e-5
  loss = lambda x: 0.5 * a * ((1 - gamma * a) ** num_steps * x) ** 2
  gradient = (loss(1 + step) - loss(1 - step)) / (2 * step)
  np.testing.assert_allclose(
      thetas.maml(num_steps).q(gamma * a) * a, gradient, rtol=1e-8
  )


@pytest.mark.parametrize('gamma, alpha, num_steps', [
    (0.02, 0.0, 20), (0.02, 0.5, 8), (0.001, 5.0, 300), (0.01, 0.0, 5),
])
def test_turning_points_of_the_last_gradient_are_those_that_a_search_finds(
    gamma, alpha, num_steps
):
  closed = thetas.LastGradient(num_steps)
  searched = thetas.Gradients(closed.theta)
  h = lambda x: x * closed.q(gamma * (x + alpha))
  for low, high in ((1.0, 10.0), (2.0, 3.0)):
    ends = [h(low), h(high)]
    largest = max([*ends, *map(h, closed.turning_points(low, high, gamma, alpha))])
    found = list(map(h, searched.turning_points(low, high, gamma, alpha)))
    assert max(ends + found) == pytest.approx(largest, rel=1e-10)
    assert largest == pytest.approx(h(np.linspace(low, high, 9001)).max(), rel=1e-6)


def test_search_finds_several_turns():
  """Far apart gradients: a minimum and a maximum inside the interval."""
  theta = thetas.Gradients([0.01, *[0.0] * 28, 1.0])
  h = lambda x: x * theta.q(0.09 * x)
  grid = h(np.linspace(0.2, 10, 200001))
  found = [h(x) for x in theta.turning_points(0.2, 10.0, 0.09, 0.0)]
  assert max(found) == pytest.approx(grid.max(), rel=1e-8)
  assert min(found) == pytest.approx(grid.min(), rel=1e-8)
  assert max(found) > h(10.0) and min(found) < h(0.2)


@pytest.mark.parametrize('theta, sentence', [
    ([1, -1], 'must be a list of finite weights >= 0'),
    ([1, math.nan], 'must be a list of finite weights >= 0'),
    ([[1, 2]], 'must be a list of finite weights >= 0'),
    (tuple('sum'), r'\(1, 1, 1\) sums three gradients'),
    ([0, 0], 'must have a weight > 0'),
    ([], 'must have a weight > 0'),
])
def test_raises_on_bad_weights(theta, sentence):
  with pytest.raises(ValueError, match=sentence):
    thetas.Gradients(theta)


@pytest.mark.parametrize('form', _FORMS)
def test_raises_on_no_steps(form):
  with pytest.raises(ValueError, match='`num_steps` must be >= 1, found 0'):
    form(0)
