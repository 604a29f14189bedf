"""The paper's figures: what each of them claims."""

import math

import numpy as np
import pytest

from tff_pers.analysis import frontiers
from tff_pers.analysis import local_updates
from tff_pers.analysis import paper_figures
from tff_pers.analysis import pareto_plots


@pytest.fixture(scope='module', name='figures')
def _figures():
  """Curves by figure, panel and label."""
  found = {}
  for number in paper_figures.FIGURES:
    panels = found.setdefault(number, {})
    for curve in paper_figures.compute(number):
      panels.setdefault(curve.panel, {})[curve.label] = curve
  return found


def _array(curve):
  return np.array([(p.rho, p.delta) for p in curve.points])


def test_all_points_are_in_the_unit_square(figures):
  for panels in figures.values():
    for curves in panels.values():
      for curve in curves.values():
        values = _array(curve)
        assert np.all((values >= 0) & (values <= 1)), curve.label


def test_figure_1_sweeps_one_curve_in_two_ways(figures):
  by_steps, by_gamma = figures[1].values()
  for label, largest in (('L = 5', 5.0), ('L = 50', 50.0)):
    for curve in (by_steps[label], by_gamma[label]):
      rho, delta = _array(curve).T
      np.testing.assert_allclose(
          delta, frontiers.curve(largest, 'gd', rho), atol=1e-9
      )
      assert delta.min() < 1e-3
    assert _array(by_steps[label])[:, 0].min() < 1e-3
  assert _array(by_gamma['L = 50'])[:, 0].min() == pytest.approx(
      0.0710, abs=1e-4
  )


def test_figure_2_orders_the_servers(figures):
  gaps = []
  for panel, curves in figures[2].items():
    rho = {name: _array(curve)[:, 0] for name, curve in curves.items()}
    inner = rho['gd'] > 1e-6  # At the end all are 0.
    assert inner.sum() > 20, panel
    assert np.all((rho['heavy_ball'] < rho['nesterov'])[inner])
    assert np.all((rho['nesterov'] < rho['gd'])[inner])
    gaps.append((rho['gd'] - rho['heavy_ball']).max())
  assert gaps == sorted(gaps)  # The gap grows with L / mu.


def test_figure_3_ends_earlier_with_a_larger_alpha(figures):
  (curves,) = figures[3].values()
  ends = [_array(curve)[-1, 0] for curve in curves.values()]
  assert ends == pytest.approx([0, 0.176471, 0.290323, 0.6], abs=1e-6)


def test_figure_4_has_a_part_of_the_curve(figures):
  for server, curves in figures[4].items():
    whole, part = map(_array, curves.values())
    assert part[:, 0].min() > whole[:, 0].min() + 0.3
    np.testing.assert_allclose(
        part[:, 1], frontiers.curve(10.0, server, part[:, 0]), atol=1e-9
    )


@pytest.mark.parametrize('number', [5, 7, 8, 10])
def test_simulated_curves_turn_where_averaging_in_one_shot_is(figures, number):
  for curves in figures[number].values():
    curve = curves['Theta_K, simulated']
    rho, delta = _array(curve).T
    root = math.sqrt(curve.L)
    turn = delta[np.argmin(rho)]
    # Numbers of steps are some percent apart.
    assert turn == pytest.approx((root - 1) / (root + 1), abs=0.02)
    assert rho[-1] > 0.999 and delta[-1] > 0.999
    assert rho[0] == pytest.approx(_array(curves['Theta_1:K'])[0, 0])


def test_figure_8_momentum_helps_the_last_gradient_at_every_point(figures):
  """Also beyond the turn; where it is fastest, and where it stands still."""
  curves = {
      server: panel['Theta_K, simulated'].points
      for server, panel in figures[8].items()
  }
  gd, nesterov, heavy_ball = (
      np.array([p.rho for p in curves[name]])
      for name in ('gd', 'nesterov', 'heavy_ball')
  )
  # At the end rates round to 1.
  inner = gd < 1 - 1e-12
  assert inner.sum() > 60
  assert np.all((heavy_ball < nesterov)[inner] & (nesterov < gd)[inner])
  # Over all K, a little above the cusp of a dense spectrum (0.3010).
  assert [rho.min() for rho in (gd, nesterov, heavy_ball)] == pytest.approx(
      [0.303, 0.222, 0.155], abs=5e-3
  )


def test_figure_10_simulates_the_pull(figures):
  """kappa of the last gradient, step by step on each eigenvalue."""
  values = frontiers.simulated_eigenvalues(
      local_updates.Spectrum(1.0, 10.0), 100, 0
  )
  kappas = []
  for alpha, curves in zip((0.0, 0.5, 1.0, 5.0), figures[10].values()):
    point = next(
        p for p in curves['Theta_K, simulated'].points if p.num_steps >= 200
    )
    assert point.alpha == alpha
    x, start = np.ones(100), np.ones(100)
    for _ in range(point.num_steps):
      gradient = values * x + alpha * (x - start)
      x = x - 1e-3 * gradient
    assert point.kappa == pytest.approx(gradient.max() / gradient.min())
    kappas.append(point.kappa)
  assert len(set(kappas)) == 4


def test_figure_9_is_one_curve_for_every_alpha(figures):
  (curves,) = figures[9].values()
  first, *others = map(_array, curves.values())
  for other in others:
    np.testing.assert_allclose(other, first, atol=2e-6)


def test_rows_have_the_columns_of_points_and_name_their_curve():
  curves = paper_figures.compute(3)
  rows = paper_figures.rows(curves)
  assert len(rows) == sum(len(curve.points) for curve in curves)
  assert tuple(rows[0]) == ('family', 'server', 'num_steps', 'gamma', 'alpha',
                            'kappa', 'rho', 'delta', 'panel', 'curve', 'mu', 'L')
  assert rows[0]['curve'] == 'alpha = 0' and rows[-1]['curve'] == 'alpha = 5'
  assert tuple(rows[0]) == paper_figures.COLUMNS


def test_figure_is_drawn_with_one_colour_for_each_label(tmp_path, axes):
  curves = paper_figures.compute(1)
  path = pareto_plots.plot_curves(curves, str(tmp_path), 'four')
  assert (tmp_path / 'four.png').exists() and (tmp_path / 'four.svg').exists()
  assert path == str(tmp_path / 'four')
  (panels,) = axes
  assert [axis.get_title() for axis in panels] == [
      'gamma = 0.01, K varies', 'K = 100, gamma varies'
  ]
  for position, axis in enumerate(panels):
    first, second = axis.get_lines()
    assert first.get_color() == panels[0].get_lines()[0].get_color()
    assert first.get_color() != second.get_color()
    points = curves[2 * position].points
    assert first.get_xdata()[3] == points[3].rho
    assert first.get_ydata()[3] == points[3].delta


def test_points_are_drawn_on_the_curves_of_their_servers(monkeypatch, axes):
  """Of kappa0 = 9: rho0 of the heavy ball is 1/2, its curve that of S12."""
  monkeypatch.setattr(pareto_plots.figures, 'save', lambda *args: args[2])
  points = [
      frontiers.point(
          local_updates.Spectrum(1.0, 9.0), 'fedavg', server, num_steps=5,
          gamma=0.05,
      ) for server in ('gd', 'nesterov', 'heavy_ball')
  ]
  assert pareto_plots.plot_points(9.0, points[::-1], 'folder', 'six') == 'six'
  lines = axes[0][0].get_lines()
  for point, drawn in zip(points, lines[1::2]):
    assert (drawn.get_xdata(), drawn.get_ydata()) == ([point.rho], [point.delta])
  rho, delta = lines[4].get_data()
  assert rho[-1] == pytest.approx(0.5)
  np.testing.assert_allclose(delta, (0.5 - rho) / (1 - rho / 2), atol=1e-9)
