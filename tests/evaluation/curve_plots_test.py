"""Curves show test and validation data, and tick where something was."""

import numpy as np

from tests.evaluation import made_runs
from tff_pers.evaluation import curve_plots


def _validated(run, offset):
  return run._replace(metrics=dict(
      run.metrics, accuracy_validation=run.metrics['accuracy_mean'] + offset,
      loss_validation=run.metrics['loss_mean'] + offset,
  ))


def test_validation_is_drawn_beside_test_in_the_same_colour(saved):
  runs = [
      _validated(made_runs.run('perm', 0), 0.25),
      _validated(made_runs.run('perm', 2), 0.5),
      made_runs.run('fedavg', 0),
  ]
  curve_plots.plot_curves(runs, '')
  for axis, name in zip(saved[0].axes, ('accuracy', 'loss')):
    perm, validation, fedavg = axis.lines[:3]
    expected = np.mean(
        [run.metrics[f'{name}_validation'] for run in runs[:2]], axis=0
    )
    np.testing.assert_allclose(validation.get_ydata(), expected)
    assert validation.get_color() == perm.get_color() != fedavg.get_color()
    assert not validation.get_label().startswith('perm')
    assert axis.get_ylabel() == f'{name.capitalize()}, mean over clients'
    _, legend = axis.get_legend_handles_labels()
    assert legend == ['perm', 'fedavg', 'test data', 'validation data']


def test_without_validation_there_is_nothing_to_explain(saved):
  curve_plots.plot_curves([made_runs.run('perm', 0)], '')
  assert [len(axis.lines) for axis in saved[0].axes] == [1, 1]
  assert saved[0].axes[0].get_ylabel() == 'Test accuracy, mean over clients'


def test_a_validation_loss_that_explodes_makes_the_axis_logarithmic(saved):
  run = _validated(made_runs.run('perm', 0), 0.0)
  run.metrics['loss_validation'][-1] = 1e6
  curve_plots.plot_curves([run], '')
  assert [axis.get_yscale() for axis in saved[0].axes] == ['linear', 'log']


def test_rounds_are_ticked_where_they_were_evaluated(saved):
  curve_plots.plot_curves([made_runs.run('perm', 0)], '')
  for axis in saved[0].axes:
    assert set(axis.get_xticks()) <= {5, 10, 15, 18}
    assert len(axis.get_xticks()) >= 2


def test_costs_are_cumulative_and_what_sends_nothing_is_left_out(saved):
  runs = [
      made_runs.run('perm', 0), made_runs.run('perm', 1),
      made_runs.run('local_only', 0),
  ]
  for run in runs[:2]:  # Different numbers of examples: the mean over seeds.
    run.config['cost'] = dict(
        macs=1000.0, examples=3.0 + 2 * (run is runs[1])
    )
  curve_plots.plot_costs(runs, '')
  sent, computed = saved[0].axes
  (line,), (other,) = sent.lines, computed.lines
  np.testing.assert_allclose(line.get_xdata(), [500, 1000, 1500, 1800])
  np.testing.assert_allclose(line.get_ydata(), np.linspace(0.1, 0.9, 4) + 0.005)
  np.testing.assert_allclose(
      other.get_xdata(), [20_000, 40_000, 60_000, 72_000]
  )
  assert sent.get_xscale() == 'log' and line.get_label() == 'perm'
