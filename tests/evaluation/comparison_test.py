"""Tables of comparisons, by hand."""

import math

import numpy as np
import pytest

from tff_pers.evaluation import comparison
from tff_pers.evaluation import results


def _run(accuracies, losses=(1.0, 2.0), regression=False):
  accuracies = np.array(accuracies, float)
  nothing = np.full(2, np.nan)
  return results.Run(
      folder='', config={}, class_counts=None, groups=None, mixing=None,
      metrics=dict(
          round=np.array([2.0, 4.0]), seconds=np.array([1.0, 8.0]),
          accuracy_mean=nothing if regression
          else np.array([0.0, accuracies[:2].mean()]),
          accuracy_worst_decile=nothing if regression
          else np.array([0.0, accuracies[:2].min()]),
          loss_mean=np.array([9.0, np.mean(losses)]),
          bytes_down=np.array([5.0, 6.0]), bytes_up=np.array([7.0, 8.0]),
      ),
      clients=dict(
          seen=np.array([1, 1, 0]),
          accuracy=np.full(3, np.nan) if regression else accuracies,
          loss=np.array([*losses, 0.0]),
      ),
  )


def test_means_and_deviation_over_seeds():
  runs = {
      ('perm', 0): _run([0.5, 0.7, 0.0]), ('perm', 1): _run([0.9, 0.9, 0.0]),
      ('fedavg', 0): _run([0.6, 0.6, 1.0]),
      ('fedavg', 1): _run([0.9, 0.8, 1.0]),
  }
  perm, fedavg = comparison.summary_rows(runs)
  assert (perm['algo'], perm['seeds']) == ('perm', 2)
  assert perm['accuracy_mean'] == pytest.approx(0.75)
  # Sample standard deviation of 0.6 and 0.9.
  assert perm['accuracy_std'] == pytest.approx(0.3 / math.sqrt(2))
  assert perm['accuracy_worst_decile'] == pytest.approx(0.7)
  assert perm['loss_mean'] == 1.5 and perm['seconds_per_round'] == 2.0
  assert perm['bytes_down_per_client_round'] == 6.0
  assert perm['bytes_up_per_client_round'] == 8.0
  # Seed 0: client 0 of the two that train is worse off; seed 1: none.
  assert perm['share_hurt_vs_fedavg'] == 0.25
  assert fedavg['share_hurt_vs_fedavg'] == 0.0
  assert perm['share_hurt_vs_local'] is None
  assert comparison.run_rows(runs)[1] == dict(
      algo='perm', seed=1, accuracy=0.9, accuracy_worst_decile=0.9, loss=1.5,
      seconds_per_round=2.0,
  )


def test_metrics_of_clients_are_further_columns():
  first, second = _run([0.5, 0.7, 0.0]), _run([0.9, 0.9, 0.0])
  # Of a client of one class there is no AUC, and the third never trains.
  for run, auc in ((first, (0.5, np.nan, 0.0)), (second, (0.6, 0.8, 0.0))):
    run.clients['auc'] = np.array(auc)
  runs = {('perm', 0): first, ('perm', 1): second}
  assert comparison.more_columns(runs) == ['auc_mean']
  [row] = comparison.summary_rows(runs)
  assert row['auc_mean'] == pytest.approx(0.6)
  [row] = comparison.summary_rows({**runs, ('perm', 2): None})
  assert math.isnan(row['auc_mean'])


def test_a_client_without_a_metric_is_left_out_of_its_summary():
  run = _run([0.5, 0.7, 0.0])
  run.clients.update(num_test=np.array([1, 1, 1]), auc=np.array([0.5, np.nan, 1]))
  assert comparison.final_summary(run, 'auc').mean == 0.5
  run.clients['loss'][1] = np.nan  # Every client has one: this is no gap.
  assert math.isnan(comparison.final_summary(run, 'loss').mean)


def test_regression_has_no_accuracy_and_is_hurt_by_loss():
  runs = {
      ('perm', 0): _run([0, 0, 0], losses=(1.0, 3.0), regression=True),
      ('local_only', 0): _run([0, 0, 0], losses=(2.0, 2.0), regression=True),
  }
  row = comparison.summary_rows(runs)[0]
  assert row['accuracy_mean'] is None and row['accuracy_std'] is None
  assert row['accuracy_worst_decile'] is None
  assert row['loss_mean'] == 2.0 and row['share_hurt_vs_local'] == 0.5


def test_an_unfinished_run_hurts_nobody_yet():
  half = _run([0.5, 0.7, 0.0])._replace(clients=None)
  whole = _run([0.1, 0.1, 0.0])
  runs = {('perm', 0): half, ('fedavg', 0): whole, ('fedavg', 1): whole}
  rows = comparison.summary_rows(runs)
  assert [row['share_hurt_vs_fedavg'] for row in rows] == [None, 0.0]
  assert rows[0]['accuracy_mean'] == pytest.approx(0.6)
  assert rows[0]['accuracy_std'] is None  # Of one seed.


def test_a_diverged_run_is_nan():
  runs = {('perm', 0): None, ('perm', 1): _run([0.5, 0.7, 0.0])}
  assert math.isnan(comparison.run_rows(runs)[0]['accuracy'])
  row, = comparison.summary_rows(runs)
  assert math.isnan(row['accuracy_mean']) and math.isnan(row['loss_mean'])


@pytest.mark.filterwarnings('error')
def test_the_mean_over_no_seeds_is_nan():
  assert math.isnan(comparison.mean([]))
