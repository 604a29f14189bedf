"""Errors are drawn on a logarithmic axis, with a band over seeds."""

import numpy as np

from tff_pers.evaluation import error_plots
from tff_pers.evaluation import figures
from tff_pers.evaluation import plots
from tff_pers.evaluation import results

_NAN = np.nan


def _run(variant, distance):
  values = np.asarray(distance, np.float64)
  metrics = dict(
      round=np.arange(len(values)), loss_mean=np.ones(len(values)),
      distance=values,
  )
  return results.Run(
      folder='', config=dict(variant=variant), metrics=metrics, clients=None,
      class_counts=None, groups=None, mixing=None,
  )


def _lines(axis):
  return {
      line.get_label(): (list(line.get_xdata()), list(line.get_ydata()))
      for line in axis.get_lines()
  }


def test_line_is_the_mean_and_band_the_range_over_seeds(axes, tmp_path):
  path = error_plots.plot_runs(
      [_run('a', [4, 2, 1]), _run('a', [8, 6, 3])], str(tmp_path)
  )
  assert path == str(tmp_path / 'distance')
  assert (tmp_path / 'distance.png').exists()
  assert (tmp_path / 'distance.svg').exists()
  (axis,), = axes
  assert axis.get_yscale() == 'log'
  assert _lines(axis) == {'a': ([0, 1, 2], [6, 4, 2])}
  corners = axis.collections[0].get_paths()[0].vertices.tolist()
  for corner in [[0, 4], [2, 1], [0, 8], [1, 6], [2, 3]]:
    assert corner in corners


def test_what_a_logarithm_lacks_is_left_out():
  """NaN, 0 and infinity of a seed; and the rounds where nobody has more."""
  drawn = error_plots.drawable(error_plots.Curve(
      np.arange(5),
      np.array([[1, _NAN, 0, 4, _NAN], [3, 5, np.inf, 0, _NAN]]),
  ))
  assert drawn.rounds.tolist() == [0, 1, 3]
  assert drawn.values.tolist() == [[1, None, 4], [3, 5, None]]


def test_seeds_may_have_come_to_different_rounds():
  curve = error_plots.joined(
      [(np.array([0, 10, 20]), np.array([3.0, 2.0, 1.0])),
       (np.array([0, 20, 30]), np.array([6.0, 5.0, 4.0]))]
  )
  assert curve.rounds.tolist() == [0, 10, 20, 30]
  np.testing.assert_array_equal(
      curve.values, [[3, 2, 1, _NAN], [6, _NAN, 5, 4]]
  )


def test_variant_without_errors_has_no_line(saved):
  """Nothing that was written, or nothing to draw; the others keep colours."""
  error_plots.plot_runs(
      [_run('none', [_NAN, _NAN]), _run('a', [2, 1]), _run('zero', [0, 0])], ''
  )
  axis, = saved[0].axes
  assert _lines(axis) == {'a': ([0, 1], [2, 1])}
  assert axis.get_lines()[0].get_color() == figures.COLORS[1]
  assert not axis.collections  # One seed has no band.


def test_a_variant_has_one_colour_in_all_panels(saved):
  curve = error_plots.Curve(np.arange(2), np.array([[2.0, 1.0]]))
  error_plots.plot_panels(
      {'one': dict(a=curve, b=curve), 'two': dict(b=curve)}, '', 'both', 'Error'
  )
  left, right = saved[0].axes
  assert (left.get_title(), right.get_title()) == ('one', 'two')
  assert left.get_ylabel() == 'Error'
  assert left.get_lines()[1].get_color() == right.get_lines()[0].get_color()
  assert left.get_lines()[0].get_color() != right.get_lines()[0].get_color()


def test_runs_with_a_distance_have_the_figure(tmp_path):
  made = plots.plot_runs([_run('a', [2, 1])], str(tmp_path))
  assert [path.rsplit('/', 1)[1] for path in made] == ['curves', 'distance']
  made = plots.plot_runs([_run('a', [_NAN, _NAN])], str(tmp_path))
  assert [path.rsplit('/', 1)[1] for path in made] == ['curves']
