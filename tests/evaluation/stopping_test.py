"""When `--rounds=auto` ends a run."""

import math

import pytest

from tff_pers.config import cadence as cadence_lib
from tff_pers.evaluation import stopping


def _rows(scores, metric='accuracy', every=10):
  """Returns rows of metrics; test data say the opposite."""
  return [
      {
          'round': every * (position + 1),
          f'{metric}_validation': score, f'{metric}_mean': -score,
          **({} if metric == 'loss' else {'loss_validation': 1.0}),
      }
      for position, score in enumerate(scores)
  ]


def _end(scores, patience, metric='accuracy', every=10, **cadence):
  """Returns (round of the end or None, watch)."""
  watch = stopping.Watch(
      stopping.Rule(metric, patience, cadence_lib.Cadence(**cadence))
  )
  for row in _rows(scores, metric, every):
    if watch(row):
      return row['round'], watch
  return None, watch


def test_ends_after_as_many_evaluations_as_patience():
  scores = [0.5, 0.7, 0.6, 0.7, 0.7, 0.9]
  end, watch = _end(scores, patience=3)
  assert end == 50
  assert (watch.best_round, watch.best, watch.last) == (20, 0.7, 0.7)
  assert _end(scores, patience=4)[0] is None
  assert _end([0.5, 0.5], patience=1)[0] == 20


def test_an_improvement_within_noise_is_none_but_small_ones_add_up():
  assert _end([0.5, 0.5005, 0.5009], patience=2)[0] == 30
  end, watch = _end([0.5, 0.5006, 0.5012, 0.5018], patience=2)
  assert end is None and watch.best_round == 30


def test_losses_fall_and_a_share_of_them_is_noise():
  assert _end([9.0, 8.0, 7.0], patience=1, metric='loss')[0] is None
  assert _end([1000.0, 999.5, 999.2], patience=2, metric='loss')[0] == 30
  assert _end([1e-5, 0.9e-5, 0.8e-5], patience=1, metric='loss')[0] is None


def test_what_is_not_finite_is_no_improvement():
  end, watch = _end([math.nan, 0.5, math.nan, math.nan], patience=2)
  assert end == 40 and watch.best_round == 20
  # An accuracy beside a loss that is not finite counts for nothing.
  watch = stopping.Watch(stopping.Rule('accuracy', 1))
  watch({'round': 1, 'accuracy_validation': 0.9, 'loss_validation': math.inf})
  assert math.isnan(watch.best)


def test_every_client_has_its_turn_before_the_end():
  assert _end([0.5] * 9, patience=2, cycle=45)[0] == 60
  assert _end([0.5] * 9, patience=2, cycle=5)[0] == 30


def test_rounds_of_another_stage_are_not_compared():
  # One model for all was better than personal ones ever are.
  end, watch = _end([0.9, 0.9, 0.9, 0.4, 0.5, 0.5], patience=1, first=30)
  assert end == 60 and watch.best_round == 50


def test_models_are_compared_at_ends_of_cycles():
  scores = [0.5, 0.9, 0.5, 0.1, 0.5, 0.9, 0.5]
  end, watch = _end(
      scores, patience=1, every=2, first=2, cycle=4, at_ends=True
  )
  # After 6, 10, 14.
  assert end == 10 and watch.best_round == 6


@pytest.mark.parametrize('cut', range(1, 6))
def test_a_resumed_run_ends_where_it_would_have_ended(cut):
  rows = _rows([0.5, 0.7, 0.6, 0.7, 0.7, 0.9])
  rule = stopping.Rule('accuracy', 3)
  watch = stopping.Watch(rule)
  for row in rows[:cut]:
    watch(row)
  left = [] if watch.is_over else rows[cut:]
  assert watch.is_over == (cut == 5)
  ends = [row['round'] for row in left if watch(row)]
  assert ends[:1] == ([] if cut == 5 else [50])


def test_says_what_the_results_are():
  _, watch = _end([0.5, 0.7, 0.6, 0.65], patience=2)
  assert watch.sentence(40) == (
      'Ended after round 40: validation accuracy has not improved since round'
      ' 20 (0.7000). All results are those of the last round (0.6500). Tip:'
      ' --rounds=20 trains only up to the best round.'
  )
  _, watch = _end([0.5, 0.7], patience=2)
  assert watch.sentence(20).startswith('Ended at --max_rounds=20: validation')
