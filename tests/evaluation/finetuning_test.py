"""Rows and plot of the accuracy after s local steps."""

import math

import numpy as np
import pytest

from tff_pers.evaluation import finetuning
from tff_pers.evaluation import results


def _metrics(accuracy, loss):
  return dict(
      accuracy=np.array(accuracy), loss=np.array(loss),
      num_examples=np.array([2, 4, 1, 0]),
  )


_FOUND = {
    0: _metrics([0.5, 0.5, 0.5, np.nan], [1.0, 2.0, 3.0, np.nan]),
    5: _metrics([0.25, 1.0, 1.0, np.nan], [0.5, 0.5, 0.5, np.nan]),
}


def test_rows_are_means_over_clients_with_test_examples():
  rows = finetuning.rows(1, _FOUND)
  assert rows == [
      dict(seen=1, steps=0, accuracy_mean=0.5, accuracy_worst_decile=0.5,
           loss_mean=2.0, share_hurt=0.0),
      dict(seen=1, steps=5, accuracy_mean=0.75, accuracy_worst_decile=0.25,
           loss_mean=0.5, share_hurt=pytest.approx(1 / 3)),
  ]
  assert tuple(rows[0]) == results.FINETUNING_COLUMNS


def test_without_zero_steps_nobody_knows_who_is_hurt():
  row, = finetuning.rows(0, {5: _FOUND[5]})
  assert row['share_hurt'] is None and row['seen'] == 0


def test_on_regression_the_loss_tells_who_is_hurt():
  found = {
      steps: {k: v for k, v in metrics.items() if k != 'accuracy'}
      for steps, metrics in _FOUND.items()
  }
  rows = finetuning.rows(1, found)
  assert [row['accuracy_mean'] for row in rows] == [None, None]
  assert [row['share_hurt'] for row in rows] == [0.0, 0.0]
  found[5] = dict(found[5], loss=np.array([0.5, 3.0, 4.0, math.nan]))
  assert finetuning.rows(1, found)[1]['share_hurt'] == pytest.approx(2 / 3)


def _run(variant, accuracy):
  """Returns a run of two numbers of steps, at clients that train and others."""
  columns = dict(
      seen=[1, 1, 0, 0], steps=[0, 10, 0, 10], accuracy_mean=accuracy,
      loss_mean=[1, 1, 1, 1],
  )
  return results.Run(
      folder='', config=dict(variant=variant), metrics={}, clients=None,
      class_counts=None, groups=None, mixing=None,
      finetuning={k: np.array(v, float) for k, v in columns.items()},
  )


def test_the_plot_shows_means_over_seeds_at_both_kinds_of_clients(saved):
  runs = [
      _run('a', [0.1, 0.2, 0.3, 0.4]), _run('a', [0.3, 0.4, 0.5, 0.6]),
      _run('b', [0.7, 0.8, 0.9, 1.0]), _run('c', [])._replace(finetuning=None),
  ]
  finetuning.plot(runs, '')
  seen, unseen = saved[0].axes
  lines = {line.get_label(): line for line in seen.get_lines()}
  assert set(lines) == {'a', 'b'}
  np.testing.assert_array_equal(lines['a'].get_xdata(), [0, 10])
  np.testing.assert_allclose(lines['a'].get_ydata(), [0.2, 0.3])
  np.testing.assert_allclose(unseen.get_lines()[0].get_ydata(), [0.4, 0.5])
  assert len(seen.collections) == 1  # The band of `a` alone.


def test_the_file_is_read_with_the_run(tmp_path):
  results.write_config(str(tmp_path), dict(variant='a', flags={}))
  assert results.read_run(str(tmp_path)).finetuning is None
  results.write_finetuning(str(tmp_path), finetuning.rows(1, _FOUND))
  found = results.read_run(str(tmp_path)).finetuning
  assert [
      found[name].tolist() for name in ('seen', 'steps', 'accuracy_mean')
  ] == [[1, 1], [0, 5], [0.5, 0.75]]
