"""Points and curves of (rho, Delta): checks 7 and 11, S12."""

import math

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tff_pers.analysis import frontiers
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates


def _spectrum(largest):
  return local_updates.Spectrum(1.0, largest)


def _points(largest, family='fedavg', **setting):
  return [
      frontiers.point(_spectrum(largest), family, server, **setting)
      for server in rates.SERVERS
  ]


# L, K, kappa, rho of the three servers, Delta; gamma = 1 / (2 L).
_REFERENCE = [
    (2, 1, 2.00000, 0.33333, 0.24407, 0.17157, 0.00000),
    (2, 2, 1.71429, 0.26316, 0.19305, 0.13394, 0.03852),
    (2, 5, 1.27017, 0.11901, 0.08813, 0.05972, 0.11301),
    (2, 10, 1.05864, 0.02848, 0.02129, 0.01425, 0.15771),
    (10, 1, 10.00000, 0.81818, 0.64079, 0.51949, 0.00000),
    (10, 2, 7.69231, 0.76991, 0.59240, 0.46999, 0.06550),
    (10, 5, 4.28235, 0.62138, 0.46253, 0.34840, 0.20890),
    (10, 10, 2.48970, 0.42688, 0.31275, 0.22417, 0.33425),
    (10, 20, 1.55881, 0.21839, 0.16055, 0.11053, 0.43388),
    (10, 100, 1.00596, 0.00297, 0.00223, 0.00148, 0.51841),
    (100, 1, 100.00000, 0.98020, 0.88472, 0.81818, 0.00000),
    (100, 10, 20.43416, 0.90669, 0.74662, 0.63771, 0.37737),
    (100, 100, 2.53659, 0.43448, 0.31839, 0.22859, 0.72523),
]


@pytest.mark.parametrize('largest, num_steps, kappa, gd, nesterov, hb, delta',
                         _REFERENCE)
def test_reference_values(largest, num_steps, kappa, gd, nesterov, hb, delta):
  """Check 7, computed independently, five decimals."""
  found = _points(largest, num_steps=num_steps, gamma=1 / (2 * largest))
  for point, rho in zip(found, (gd, nesterov, hb)):
    # Half a unit of the last printed digit, and rounding.
    assert (point.kappa, point.rho, point.delta) == pytest.approx(
        (kappa, rho, delta), abs=5.1e-6
    )


@pytest.mark.parametrize('largest, num_steps, kappa, rho, delta', [
    (5, 10, 4.196526, 0.615127, 0.043767),
    (5, 100, 1.568029, 0.221192, 0.282047),
    (50, 10, 10.448077, 0.825298, 0.372568),
    (50, 100, 1.577368, 0.224014, 0.698347),
])
def test_points_of_figure_1(largest, num_steps, kappa, rho, delta):
  found = _points(largest, num_steps=num_steps, gamma=0.01)[0]
  assert (found.kappa, found.rho, found.delta) == pytest.approx(
      (kappa, rho, delta), abs=1e-6
  )


def test_a_sweep_of_gamma_stops_short_of_averaging_in_one_shot():
  """Figure 1, right: kappa -> 1 / (1 - (1 - mu/L)^K), 1.1529 with L = 50."""
  found = _points(50, num_steps=100, gamma=(1 - 1e-12) / 50)[0]
  assert found.kappa == pytest.approx(1 / (1 - 0.98 ** 100), rel=1e-9)
  assert found.kappa == pytest.approx(1.15290, abs=1e-4)
  assert found.rho == pytest.approx(0.0710, abs=1e-4)
  assert found.delta == pytest.approx(0.7363, abs=1e-4)


@pytest.mark.parametrize('alpha, kappa, kappa10, rho, delta', [
    (0.0, 1.0, 2.489697, 0.0, 0.519494),
    (0.5, 10 / 7, 2.726736, 0.176471, 0.451416),
    (1.0, 20 / 11, 2.956118, 0.290323, 0.402130),
    (5.0, 4.0, 4.476785, 0.6, 0.225148),
])
def test_points_of_figure_3(alpha, kappa, kappa10, rho, delta):
  gamma = 1 / (2 * (10 + alpha))
  setting = dict(family='fedprox', gamma=gamma, alpha=alpha)
  end = _points(10, num_steps=10 ** 6, **setting)[0]
  assert end.kappa == pytest.approx(kappa, abs=1e-9)
  assert (end.rho, end.delta) == pytest.approx((rho, delta), abs=1e-6)
  assert _points(10, num_steps=10, **setting)[0].kappa == pytest.approx(
      kappa10, abs=1e-6
  )


@pytest.mark.parametrize('num_steps, kappa', [
    (2, 7.692308), (5, 6.830135), (10, 6.593329), (100, 6.397171),
    (10 ** 9, 6.376282),
])
def test_points_of_figure_4(num_steps, kappa):
  found = _points(
      10, 'theta_K', num_steps=num_steps, gamma=1 / (20 * num_steps)
  )[0]
  assert found.kappa == pytest.approx(kappa, abs=1e-6)
  if num_steps == 10 ** 9:
    assert (found.rho, found.delta) == pytest.approx(
        (0.728861, 0.112028), abs=1e-6
    )


@pytest.mark.parametrize('kappa0, gd, nesterov, heavy_ball', [
    (10, 0.29222, 0.17157, 0.02633), (100, 0.70473, 0.63451, 0.53846),
])
def test_suboptimality_at_a_rate_of_one_half(kappa0, gd, nesterov, heavy_ball):
  found = [frontiers.curve(kappa0, server, 0.5) for server in rates.SERVERS]
  assert found == pytest.approx([gd, nesterov, heavy_ball], abs=5.1e-6)


def test_end_points_of_the_last_gradient_do_not_depend_on_alpha():
  """Figure 9: 4.0657 just before 10^6 steps of 1e-7, for each alpha."""
  for alpha in (0.0, 0.5, 1.0, 5.0):
    found = _points(
        10, 'theta_K', num_steps=999_999, gamma=1e-7, alpha=alpha
    )[0]
    assert found.kappa == pytest.approx(4.0657, abs=1e-4)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=60)
@hypothesis.given(
    largest=st.floats(1.5, 1000), share=st.floats(0, 0.999),
    num_steps=st.integers(1, 10 ** 5), server=st.sampled_from(rates.SERVERS),
    family=st.sampled_from(frontiers.FAMILIES), alpha=st.floats(0, 10),
)
def test_all_points_of_closed_forms_are_on_one_curve(
    largest, share, num_steps, server, family, alpha
):
  """2.7: methods differ in how much of the curve they reach."""
  alpha = 0.0 if family == 'fedavg' else alpha
  gradients = {'maml': 2 * num_steps + 1, 'theta_K': num_steps}.get(family, 1)
  spectrum = _spectrum(largest)
  found = frontiers.point(
      spectrum, family, server, num_steps=num_steps, alpha=alpha,
      gamma=share / (gradients * largest + alpha),
  )
  low, high = frontiers.attainable_kappas(spectrum, family, alpha=alpha)
  assert low * (1 - 1e-9) <= found.kappa <= high * (1 + 1e-9)
  # Near kappa = 1 the rate is the difference of two ones.
  assert frontiers.curve(largest, server, found.rho) == pytest.approx(
      found.delta, abs=1e-9
  )


@pytest.mark.parametrize('family, setting, times', [
    ('fedavg', dict(num_steps=10 ** 7, gamma=0.05), None),
    ('fedprox', dict(num_steps=10 ** 7, gamma=0.05, alpha=2.0), None),
    ('theta_K', dict(num_steps=10 ** 7, gamma=0.05e-7), 0.5),
    ('theta_K', dict(num_steps=10 ** 7, gamma=0.1e-7), None),
    ('maml', dict(num_steps=10 ** 7, gamma=0.05e-7), None),
])
def test_ends_of_attainable_intervals_are_attained(family, setting, times):
  low, high = frontiers.attainable_kappas(
      _spectrum(10.0), family, alpha=setting.get('alpha', 0.0),
      gamma_times=times,
  )
  assert _points(10.0, family, **setting)[0].kappa == pytest.approx(
      low, rel=1e-6
  )
  assert high == 10


def test_the_heavy_ball_curve_is_its_own_mirror_image():
  """S12: Delta = (rho0 - rho) / (1 - rho0 rho)."""
  rho0 = float(rates.rate(10.0, 'heavy_ball'))
  rho = np.linspace(0, rho0, 21)
  delta = frontiers.curve(10.0, 'heavy_ball', rho)
  np.testing.assert_allclose(
      delta, (rho0 - rho) / (1 - rho0 * rho), atol=1e-14
  )
  np.testing.assert_allclose(
      frontiers.curve(10.0, 'heavy_ball', delta), rho, atol=1e-13
  )


def test_maml_is_the_last_of_two_k_and_one_gradients():
  found = _points(10, 'maml', num_steps=4, gamma=0.005)
  expected = _points(10, 'theta_K', num_steps=9, gamma=0.005)
  assert [p[5:] for p in found] == [p[5:] for p in expected]


def test_simulated_client_has_the_extremes_asked_for():
  found = frontiers.simulated_eigenvalues(_spectrum(10.0), 100, seed=3)
  assert found[0] == 1 and found[-1] == pytest.approx(10)
  assert np.all(np.diff(found) > 0) and len(found) == 100
  # Marchenko and Pastur: most eigenvalues of a square matrix are small.
  assert np.median(found) < 4
  again = frontiers.simulated_eigenvalues(_spectrum(10.0), 100, seed=4)
  assert not np.array_equal(found, again)


@pytest.mark.parametrize('largest, last, turn, leaves', [
    (5.0, 200, 402, (0.3847, 0.1970)), (10.0, 100, 255, (0.6065, 0.2203)),
    (100.0, 10, 45, (0.9501, 0.2306)),
])
def test_simulated_frontier_leaves_the_curve_and_turns(
    largest, last, turn, leaves
):
  """Check 11: Theta_K with gamma = 0.001 for a client of 100 dimensions."""
  spectrum = _spectrum(largest)
  eigenvalues = frontiers.simulated_eigenvalues(spectrum, 100, seed=0)
  steps = np.arange(1, 2 * turn)
  found = frontiers.sweep(
      spectrum, 'theta_K', 'gd', num_steps=steps, gamma=1e-3,
      eigenvalues=eigenvalues,
  )
  for point in found[:last]:
    # (kappa, Delta) as of Eq. 17, which is FedAvg's.
    expected = np.tanh(np.log(largest / point.kappa) / 4)
    assert abs(point.delta - expected) < 1e-10
  assert (found[last - 1].rho, found[last - 1].delta) == pytest.approx(
      leaves, abs=1e-4
  )
  smallest = min(found, key=lambda point: point.kappa)
  assert abs(smallest.num_steps - turn) <= 1
  root = math.sqrt(largest)
  assert smallest.delta == pytest.approx((root - 1) / (root + 1), abs=2e-3)
  end = frontiers.point(
      spectrum, 'theta_K', 'gd', num_steps=10 ** 6, gamma=1e-3,
      eigenvalues=eigenvalues,
  )
  assert 0.999 < end.rho <= 1 and 0.999 < end.delta <= 1


@pytest.mark.parametrize('largest, turn, kappa', [
    (2, 693, 1.0616), (5, 402, 1.3682), (10, 255, 1.8614), (100, 45, 8.6156),
])
def test_without_eigenvalues_the_whole_interval_counts(largest, turn, kappa):
  """2.8: a dense spectrum, where the cusp is at a number K* of steps."""
  found = min(
      frontiers.sweep(
          _spectrum(largest), 'theta_K', 'gd', gamma=1e-3,
          num_steps=np.arange(turn - 5, turn + 6),
      ),
      key=lambda point: point.kappa,
  )
  assert abs(found.num_steps - turn) <= 1
  assert found.kappa == pytest.approx(kappa, rel=3e-3)


def test_sweep_broadcasts_its_arrays():
  found = frontiers.sweep(
      _spectrum(10.0), 'fedprox', 'gd', num_steps=[1, 2], gamma=0.05,
      alpha=np.array([0.0, 0.5]),
  )
  assert [(p.num_steps, p.gamma, p.alpha) for p in found] == [
      (1, 0.05, 0.0), (2, 0.05, 0.5)
  ]
