"""The virtual time until a target, as a table and as a figure."""

import numpy as np

from tests.evaluation import made_runs
from tff_pers.evaluation import plots
from tff_pers.evaluation import time_plots
from tff_pers.evaluation import times


def _run(variant, seed, time, accuracy=None, **columns):
  run = made_runs.run(variant, seed)
  metrics = dict(
      round=np.array([5.0, 10.0, 15.0]), virtual_time=np.array(time, float),
      loss_mean=np.array([3.0, 2.0, 1.0]), **columns,
  )
  if accuracy is not None:
    metrics['accuracy_mean'] = np.array(accuracy, float)
  return run._replace(metrics=metrics)


RUNS = (
    _run('fedavg', 0, [10, 20, 30], [0.2, 0.5, 0.8]),
    _run('fedavg', 1, [20, 40, 60], [0.2, 0.4, 0.6]),
    _run('fedasync', 0, [1, 2, 3], [0.5, 0.4, 0.7], version=np.arange(3.0)),
    _run('fedasync', 1, [2, 3, 4], [0.1, 0.6, 0.5], version=np.arange(3.0)),
)


def test_time_of_the_first_row_that_is_as_good():
  """Means over seeds, None where a seed does not come to it."""
  found = times.rows(RUNS, [0.5, 0.7])
  assert [(row['algo'], row['target'], row['reached']) for row in found] == [
      ('fedavg', 0.5, 2), ('fedasync', 0.5, 2), ('fedavg', 0.7, 1),
      ('fedasync', 0.7, 1),
  ]
  assert [row['virtual_time'] for row in found] == [40.0, 2.0, None, None]
  assert [row['updates'] for row in found] == [12.5, 7.5, None, None]
  np.testing.assert_allclose(
      [found[0]['virtual_time_std'], found[1]['virtual_time_std']],
      [np.std([20, 60], ddof=1), np.std([1, 3], ddof=1)],
  )
  assert {row['measure'] for row in found} == {'accuracy_mean'}


def test_targets_are_what_all_variants_come_to():
  found = times.rows(RUNS)
  targets = list(dict.fromkeys(row['target'] for row in found))
  # FedAvg 0.7, FedAsync 0.65, means of the best of each seed.
  np.testing.assert_allclose(targets, [0.52, 0.585, 0.65])


def test_distance_comes_before_loss_and_falls():
  runs = [
      _run('a', 0, [1, 2, 3], distance=np.array([1.0, 0.1, 0.01])),
      _run('b', 0, [1, 2, 3], distance=np.array([1.0, 0.5, np.nan])),
  ]
  found = times.rows(runs, [0.5])
  assert [row['virtual_time'] for row in found] == [2.0, 2.0]
  assert found[0]['measure'] == 'distance'
  assert times.rows(runs)[-1]['target'] == 0.5
  assert times.rows([_run('a', 0, [1, 2, 3])], [2.0])[0]['virtual_time'] == 2.0


def test_runs_without_a_clock_are_left_out():
  plain = made_runs.run('perm', 0)
  assert not times.are_timed([plain]) and times.are_timed([plain, RUNS[0]])
  assert {row['algo'] for row in times.rows([plain, *RUNS], [0.5])} == {
      'fedavg', 'fedasync'
  }


def test_figure_has_time_and_updates(saved):
  time_plots.plot([made_runs.run('perm', 0), *RUNS], '')
  by_time, by_update = saved[0].axes
  assert by_time.get_xlabel() == 'Virtual time, seconds'
  assert by_update.get_xlabel() == 'Server updates'
  fedavg, fedasync = by_time.lines
  assert fedasync.get_label() == 'fedasync'
  np.testing.assert_allclose(fedavg.get_xdata(), [15, 30, 45])
  np.testing.assert_allclose(fedasync.get_xdata(), [1.5, 2.5, 3.5])
  np.testing.assert_allclose(fedasync.get_ydata(), [0.3, 0.5, 0.6])
  np.testing.assert_allclose(by_update.lines[1].get_xdata(), [5, 10, 15])
  # The colours are those of the other figures: perm is the first.
  assert fedavg.get_color() == time_plots.figures.COLORS[1]
  assert by_time.get_yscale() == 'linear'


def test_errors_are_on_a_logarithmic_axis(saved):
  time_plots.plot([
      _run('a', 0, [1, 2, 3], distance=np.array([1.0, 0.1, 1e-9]))
  ], '')
  assert [axis.get_yscale() for axis in saved[0].axes] == ['log', 'log']


def test_plots_of_runs_with_a_clock_have_the_figure(saved, monkeypatch):
  monkeypatch.setattr(plots, 'plot_clients', lambda *rest: None)
  plots.plot_runs(RUNS, '')
  labels = [axis.get_xlabel() for picture in saved for axis in picture.axes]
  assert 'Virtual time, seconds' in labels
  assert 'Round, or server update' in labels
