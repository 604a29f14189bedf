"""Recommendations: no setting on a grid is better, and they are attained."""

import functools

import numpy as np
import pytest

from tff_pers.analysis import frontiers
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates
from tff_pers.analysis import recommend
from tff_pers.analysis import surrogate
from tff_pers.numerics import thetas

_SPECTRUM = local_updates.Spectrum(1.0, 100.0)


def _recommend(num_rounds, accuracy=0.1, distance=30.0):
  return recommend.recommend(
      _SPECTRUM, num_rounds=num_rounds, accuracy=accuracy, distance=distance
  )


@functools.lru_cache
def _points(server):
  """A frontier, dense."""
  return frontiers.sweep(
      _SPECTRUM, 'fedavg', server, gamma=1 / 200,
      num_steps=frontiers.steps_up_to(1e5),
  )


def _promise(point, num_rounds, distance):
  left = rates.contraction(point.kappa, point.server, num_rounds)
  return left * (distance + 2 * point.delta) + 2 * point.delta


@pytest.mark.parametrize('num_rounds', [1, 5, 20, 100, 1000])
@pytest.mark.parametrize('distance', [1.0, 30.0])
def test_no_other_setting_is_expected_to_be_better(num_rounds, distance):
  for found in _recommend(num_rounds, distance=distance):
    others = [
        _promise(p, num_rounds, distance) for p in _points(found.server)
    ]
    # kappa is not searched below 1 + 1e-6.
    assert found.error <= min(others) * (1 + 1e-5) + 1e-6 * distance
    # The setting, by itself, has that kappa and that error.
    point = frontiers.point(
        _SPECTRUM, 'fedavg', found.server, num_steps=found.num_steps,
        gamma=found.gamma, alpha=found.alpha,
    )
    assert point.kappa == pytest.approx(found.kappa, rel=1e-9)
    error = _promise(point, num_rounds, distance)
    assert error == pytest.approx(found.error, rel=1e-6, abs=1e-9)
    assert 0 < found.gamma <= 1 / 200 and found.alpha == 0


def _worst_error(found, mu, largest, num_rounds, distance):
  """Returns the largest |x_T - x*| of clients mu and L with optima -1 and 1.

  Over shares of the two and both sides to start from, step by step.
  """
  share = np.linspace(0, 1, 201)
  optimum = (share * largest - (1 - share) * mu) / (
      share * largest + (1 - share) * mu
  )
  worst = 0.0
  for side in (-1, 1):
    x, m = optimum + side * distance, 0.0
    for _ in range(num_rounds):
      q = 0.0
      for weight, curvature, center in (
          (1 - share, mu, -1), (share, largest, 1)
      ):
        local = np.array(x)
        for _ in range(found.num_steps):
          gradient = curvature * (local - center)
          local -= found.gamma * gradient
          q = q + weight * gradient
      m = found.beta * m + q
      ahead = found.server == 'nesterov'
      x = x - found.server_learning_rate * (
          q + found.beta * m if ahead else m
      )
    worst = max(worst, np.max(np.abs(x - optimum)))
  return worst


@pytest.mark.parametrize('largest, num_rounds, distance', [
    (10.0, 1, 10.0), (10.0, 4, 3.0), (10.0, 12, 10.0), (100.0, 10, 30.0),
    (100.0, 40, 0.5), (1000.0, 30, 1000.0), (50.0, 100, 100.0),
])
def test_no_promise_is_broken_and_none_is_empty(largest, num_rounds, distance):
  for found in recommend.recommend(
      local_updates.Spectrum(1.0, largest), num_rounds=num_rounds,
      accuracy=0.1, distance=distance,
  ):
    worst = _worst_error(found, 1.0, largest, num_rounds, distance)
    assert worst <= found.error + 1e-12 * distance
    assert found.error <= 3 * worst


def _worst_error_in_the_plane(found, mu, num_rounds, distance):
  """Returns the largest ||x_T - x*|| of two clients with optima -c and c.

  Their Hessians are stretched along nearly the same line; over directions of c
  and all sides to start from.
  """
  hessians, pulls = [], []
  for angle in (0.1, -0.1):
    long, across = np.cos(angle), np.sin(angle)
    axes = np.array([[long, -across], [across, long]])
    hessians.append(axes @ np.diag([1, mu]) @ axes.T)
    kept = (1 - found.gamma * np.array([1, mu])) ** found.num_steps
    pulls.append(axes @ np.diag((1 - kept) / found.gamma) @ axes.T / 2)
  turn = np.linspace(0, 2 * np.pi, 61)
  circle = np.stack([np.cos(turn), np.sin(turn)], axis=-1)
  centers = circle[:, np.newaxis]
  optimum = centers @ (hessians[0] - hessians[1]) @ np.linalg.inv(sum(hessians))
  x, m = optimum + distance * circle, 0.0
  for _ in range(num_rounds):
    q = (x - centers) @ pulls[0] + (x + centers) @ pulls[1]
    m = found.beta * m + q
    ahead = found.server == 'nesterov'
    x = x - found.server_learning_rate * (q + found.beta * m if ahead else m)
  return np.linalg.norm(x - optimum, axis=-1).max()


def test_in_the_plane_only_errors_of_single_steps_are_promised():
  num_steps = set()
  for num_rounds, distance in ((1, 0.5), (100, 10.0), (10 ** 4, 10.0)):
    for found in recommend.recommend(
        local_updates.Spectrum(1e-3, 1.0), num_rounds=num_rounds, accuracy=0.1,
        distance=distance,
    ):
      worst = _worst_error_in_the_plane(found, 1e-3, num_rounds, distance)
      is_kept = worst <= found.error + 1e-12 * distance
      assert is_kept == (found.num_steps == 1)
      num_steps.add(found.num_steps)
  assert 1 in num_steps and len(num_steps) > 2


def test_no_error_is_below_zero():
  for largest in (10.0, 100.0, 3.7):
    for found in recommend.recommend(
        local_updates.Spectrum(1.0, largest), num_rounds=1000, accuracy=0.1,
        distance=10.0,
    ):
      assert found.error >= 0 and found.kappa <= largest


def test_few_rounds_ask_for_more_local_work():
  """The paper's advice; with many rounds one gradient is best."""
  by_rounds = [
      {r.server: r for r in _recommend(t)}['gd'] for t in (1, 10, 50, 10 ** 4)
  ]
  kappas = [setting.kappa for setting in by_rounds]
  assert np.all(np.diff(kappas) > 0)
  assert kappas[-1] == pytest.approx(100, rel=1e-3)
  assert by_rounds[0].num_steps > by_rounds[2].num_steps


def test_one_step_fewer_does_not_do():
  """The fewest local steps: with the largest gamma, one less has more kappa."""
  for found in _recommend(10):
    assert found.num_steps > 1
    update = local_updates.LocalUpdate(
        thetas.FirstGradients(found.num_steps - 1), 1 / 200
    )
    assert surrogate.worst_case_kappa(update, _SPECTRUM) > found.kappa


def test_the_best_server_is_first():
  found = _recommend(10)
  assert [r.server for r in found] == ['heavy_ball', 'nesterov', 'gd']
  errors = [r.error for r in found]
  assert errors == sorted(errors)


def test_server_steps_are_those_of_the_surrogate():
  for found in _recommend(10):
    update = local_updates.LocalUpdate(
        thetas.FirstGradients(found.num_steps), found.gamma
    )
    low, high = np.exp(update.h_range(_SPECTRUM))
    expected = rates.server_step(high, low, found.server)
    assert (found.server_learning_rate, found.beta) == pytest.approx(expected)


def test_rounds_needed_are_the_fewest():
  for accuracy in (1.0, 0.1, 1e-3):
    for found in _recommend(7, accuracy):
      best = lambda t, s=found.server: {
          r.server: r.error for r in _recommend(t)
      }[s]
      needed = found.rounds_needed
      assert best(needed) <= accuracy
      assert needed == 1 or best(needed - 1) > accuracy


def test_accuracy_beyond_any_number_of_rounds_has_none():
  for found in recommend.recommend(
      local_updates.Spectrum(1.0, 1e22), num_rounds=1, accuracy=1e-9,
      distance=1.0,
  ):
    assert found.rounds_needed is None


def test_local_work_does_not_pay_from_within_the_ball_of_client_optima():
  """With gd; what one round of momentum overshoots, local work avoids."""
  [found] = [r for r in _recommend(1, distance=1.0) if r.server == 'gd']
  assert found.num_steps == 1 and found.kappa == 100


@pytest.mark.parametrize('values, sentence', [
    (dict(num_rounds=0), '`num_rounds` must be >= 1, found 0'),
    (dict(num_rounds=1, accuracy=0.0), '`accuracy` must be a number > 0'),
    (dict(num_rounds=1, distance=-1.0), '`distance` must be a number > 0'),
])
def test_raises_on_bad_arguments(values, sentence):
  with pytest.raises(ValueError, match=sentence):
    _recommend(**values)
