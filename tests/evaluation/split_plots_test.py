"""Accuracy against the share of private parameters."""

import numpy as np
import pytest

from tff_pers.evaluation import results
from tff_pers.evaluation import split_plots


def _run(variant, share, accuracy):
  one = np.array([1.0])
  metrics = dict(
      round=one, seconds=one, bytes_down=one, bytes_up=one,
      loss_mean=one, accuracy_mean=accuracy * one,
      accuracy_worst_decile=accuracy * one,
  )
  return results.Run(
      folder='', config=dict(variant=variant, parameters=dict(
          private_share=share
      )), metrics=metrics, clients=None, class_counts=None, groups=None,
      mixing=None,
  )


_SPLITS = {'m[split=a]': 'a', 'm[split=b]': 'b', 'whole': 'whole'}
_RUNS = {
    ('m[split=a]', 0): _run('m[split=a]', 0.5, 0.6),
    ('m[split=a]', 1): _run('m[split=a]', 0.5, 0.8),
    ('m[split=b]', 0): None,
    ('m[split=b]', 1): _run('m[split=b]', 0.1, 0.9),
    ('whole', 0): _run('whole', None, 0.4),
    ('whole', 1): _run('whole', None, 0.4),
}


def test_rows_are_means_over_seeds_by_rising_share():
  rows = split_plots.rows(_RUNS, _SPLITS, {'whole': 1.0})
  assert [row['split'] for row in rows] == ['b', 'a', 'whole']
  assert [row['private_share'] for row in rows] == [0.1, 0.5, 1.0]
  assert np.isnan(rows[0]['accuracy_mean'])  # A seed diverged.
  assert rows[1]['accuracy_mean'] == pytest.approx(0.7)
  assert rows[1]['accuracy_std'] == pytest.approx(np.sqrt(0.02))


@pytest.mark.parametrize('metric', ['accuracy', 'loss'])
def test_points_are_shares_and_accuracies(metric, axes, tmp_path):
  runs = _RUNS
  if metric == 'loss':  # Regression.
    runs = {
        key: run and run._replace(metrics=dict(
            run.metrics, accuracy_mean=np.array([np.nan])
        ))
        for key, run in _RUNS.items()
    }
  split_plots.plot(
      split_plots.rows(runs, _SPLITS, {'whole': 1.0}), str(tmp_path)
  )
  ((axis,),) = axes
  points = {
      bar.get_label(): tuple(bar.lines[0].get_xydata()[0])
      for bar in axis.containers
  }
  expected = dict(a=(0.5, 0.7), whole=(1.0, 0.4))
  if metric == 'loss':
    expected = dict(a=(0.5, 1.0), whole=(1.0, 1.0))
  assert points.keys() == expected.keys()
  for name, point in expected.items():
    assert points[name] == pytest.approx(point)
  assert (tmp_path / 'splits.svg').exists()
