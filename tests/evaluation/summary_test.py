"""Closed forms of the summaries over clients."""

import math

import numpy as np
import pytest

from tff_pers.evaluation import summary


def test_closed_forms_on_twenty_clients():
  # Accuracies 0.00, 0.05, ..., 0.95 in scrambled order; weights 1..20.
  values = np.arange(20) / 20
  order = np.random.default_rng(0).permutation(20)
  counts = np.arange(1, 21)
  found = summary.summarize(values[order], counts[order], higher_is_better=True)
  assert found.mean == pytest.approx(0.475, rel=1e-12)
  # sum_k (k - 1)/20 * k / sum_k k = (2870 - 210) / 20 / 210.
  assert found.weighted_mean == pytest.approx(2660 / 20 / 210, rel=1e-12)
  # Variance of 0..19 is (20^2 - 1) / 12.
  assert found.std == pytest.approx(math.sqrt(399 / 12) / 20, rel=1e-12)
  assert found.worst_decile == pytest.approx(0.025, rel=1e-12)
  assert found.best_decile == pytest.approx(0.925, rel=1e-12)
  assert found.worst == 0.0


def test_large_losses_are_the_worst():
  found = summary.summarize([1.0, 4.0, 2.0], [5, 5, 5], higher_is_better=False)
  assert (found.worst, found.worst_decile, found.best_decile) == (4.0, 4.0, 1.0)


@pytest.mark.parametrize(
    'num_clients, tail', [(1, 1), (9, 1), (10, 1), (11, 2), (50, 5), (51, 6)]
)
def test_decile_has_at_least_a_tenth_and_one(num_clients, tail):
  found = summary.summarize(
      np.arange(num_clients), np.ones(num_clients), higher_is_better=True
  )
  assert found.worst_decile == (tail - 1) / 2


def test_clients_without_test_examples_are_left_out():
  found = summary.summarize([0.5, np.nan], [4, 0], higher_is_better=True)
  assert found == (0.5, 0.5, 0.0, 0.5, 0.5, 0.5)


def test_no_clients_gives_nan():
  found = summary.summarize([np.nan], [0], higher_is_better=True)
  assert all(math.isnan(value) for value in found)


def test_a_client_that_diverged_is_not_hidden():
  found = summary.summarize([np.inf, 1.0], [3, 3], higher_is_better=False)
  assert found.mean == np.inf and found.worst == np.inf


@pytest.mark.parametrize('higher_is_better', [True, False])
def test_a_client_of_nan_is_the_worst(higher_is_better):
  best = math.inf if higher_is_better else -math.inf
  found = summary.summarize(
      [1.0, np.nan, best, 2.0, -best], [3] * 5,
      higher_is_better=higher_is_better,
  )
  assert math.isnan(found.worst) and math.isnan(found.worst_decile)
  assert found.best_decile == best


def test_share_hurt_counts_strictly_worse_clients():
  ours, theirs = [0.5, 0.6, 0.7, np.nan], [0.6, 0.6, 0.6, 0.6]
  assert summary.share_hurt(ours, theirs, higher_is_better=True) == 1 / 3
  assert summary.share_hurt(ours, theirs, higher_is_better=False) == 1 / 3
  assert summary.share_hurt(theirs, theirs, higher_is_better=True) == 0.0


def test_share_hurt_without_common_clients_is_none():
  assert summary.share_hurt([np.nan], [1.0], higher_is_better=True) is None


def test_raises_on_different_clients():
  with pytest.raises(ValueError, match='same clients, found 2 and 1'):
    summary.share_hurt([1.0, 2.0], [1.0], higher_is_better=True)
  with pytest.raises(ValueError, match='one entry per client'):
    summary.summarize([1.0, 2.0], [1], higher_is_better=True)


@pytest.mark.parametrize('metric, is_higher', [
    ('accuracy', True), ('recall', True), ('gmae_score', True),
    ('price_loss', False), ('price_mae', False), ('MSE', False),
    ('price_mean_squared_error', False),
])
def test_errors_are_better_if_they_are_small(metric, is_higher):
  assert summary.is_higher_better(metric) is is_higher
