"""Costs until an accuracy, by hand and as FedHM publishes them."""

import numpy as np
import pytest

from tff_pers.evaluation import costs
from tff_pers.evaluation import results

TIERS = (
    dict(tier='1', macs=600, bytes_down=40, bytes_up=60),
    dict(tier='0.5', macs=None, bytes_down=4, bytes_up=6),
)


def _run(accuracies, rounds=(2.0, 4.0, 6.0, 8.0), sent=100.0, **config):
  return results.Run(
      folder='', class_counts=None, groups=None, mixing=None, clients=None,
      config=dict(variant='fedhm', flags=dict(seed=3), **config),
      metrics=dict(
          round=np.array(rounds), accuracy_mean=np.array(accuracies),
          bytes_down=np.full(len(rounds), 0.4 * sent),
          bytes_up=np.full(len(rounds), 0.6 * sent),
      ),
  )


def test_first_reached_and_kept():
  run = _run(
      [0.5, 0.8, 0.7, 0.9], cost=dict(macs=1000.0, examples=12.5)
  )
  mean, = costs.to_accuracy(run, 0.8)
  assert mean == dict(
      algo='fedhm', seed=3, tier='mean', rounds=4, kept_from=8, bytes=400.0,
      macs=4 * 1000 * 12.5,
  )


@pytest.mark.parametrize(
    'accuracies, kept_from', [
        ([0.8, 0.8, 0.8, 0.8], 2), ([0.1, 0.8, 0.9, 0.8], 4),
        ([0.8, 0.9, 0.9, 0.7], None), ([0.8, np.nan, 0.9, 0.9], 6),
    ],
)
def test_kept_from(accuracies, kept_from):
  assert costs.to_accuracy(_run(accuracies), 0.8)[0]['kept_from'] == kept_from


def test_a_row_per_tier():
  run = _run([0.5, 0.9, 0.9, 0.9], cost=dict(macs=300.0, examples=2.0))
  rows = costs.to_accuracy(run, 0.8, TIERS)
  assert [row['tier'] for row in rows] == ['mean', '1', '0.5']
  assert [row['bytes'] for row in rows] == [400, 4 * 100, 4 * 10]
  assert [row['macs'] for row in rows] == [2400, 4 * 600 * 2, None]
  assert {row['rounds'] for row in rows} == {4}


def test_accuracy_that_is_never_reached():
  run = _run([0.5, 0.6, np.nan, 0.6])
  row, = costs.to_accuracy(run, 0.8, TIERS)
  assert row['rounds'] is row['bytes'] is row['kept_from'] is None
  assert costs.best_accuracy(run) == 0.6
  assert costs.best_accuracy(_run([np.nan] * 4)) == 0


@pytest.mark.parametrize('cost', [
    None, dict(macs=None, examples=2.0), dict(macs=3.0, examples=None)
])
def test_runs_that_do_not_know_their_macs(cost):
  run = _run([0.9] * 4, cost=cost)
  assert costs.cumulative_macs(run) is None
  assert costs.to_accuracy(run, 0.8)[0]['macs'] is None
  if not cost or cost['examples'] is None:
    assert costs.to_accuracy(run, 0.8, TIERS)[1]['macs'] is None


def test_published_traffic():
  """Check A12 of FedHM: 2 x 10 participants x parameters x rounds.

  Its GB are 1024 million parameters; ours are bytes of float32. FedHM sends 6.1,
  7.6, 7.9 and 8.1 times less than FedAvg.
  """
  def sent(parameters, rounds):
    run = _run([0.9], rounds=(float(rounds),), sent=2 * 4 * parameters)
    return costs.cumulative_bytes(run)[0]

  full18, full34, small18, small12 = 11_173_962, 21_328_292, 1_236_042, 2_707_748
  for total, published in ((sent(full34, 70), 29.16), (sent(small18, 148), 3.58)):
    # The paper takes the parameters in millions with two digits.
    assert 10 * total / 4 / 1e6 / 1024 == pytest.approx(published, abs=0.015)
  assert [
      round(sent(full18, 100) / sent(small18, 148), 1),
      round(sent(full18, 135) / sent(small18, 160), 1),
      round(sent(full34, 70) / sent(small12, 70), 1),
      round(sent(full34, 80) / sent(small12, 78), 1),
  ] == [6.1, 7.6, 7.9, 8.1]


@pytest.mark.parametrize('of_update, updates', [(0.2, 10), (1.0, 2)])
def test_events_cost_what_their_messages_cost(of_update, updates):
  """Ten messages of a method by events are two rounds of five clients."""
  run = _run(
      [0.9], rounds=(float(updates),),
      cost=dict(macs=3.0, examples=2.0, rounds_per_update=of_update),
  )
  run.metrics['in_flight'] = np.array([5.0])
  row, = costs.to_accuracy(run, 0.8)
  assert (row['rounds'], row['bytes'], row['macs']) == (updates, 200, 12)
  del run.config['cost']['rounds_per_update']  # A run of before.
  assert np.isnan(costs.cumulative_bytes(run))
