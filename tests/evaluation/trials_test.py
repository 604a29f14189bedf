"""`trials`: order, lines, table and figure of a search."""

import math

import pytest

from tff_pers.evaluation import trials as trials_lib


def _trial(number, validation, state='complete', **values):
  return trials_lib.Trial(number, state, 10, validation, 2.5, values)


TRIALS = [
    _trial(1, 0.5, rate=0.1), _trial(2, 0.9, 'pruned', rate=1.0),
    _trial(3, 0.7, rate=0.3, mode='free'), _trial(4, math.nan, 'diverged'),
    _trial(5, 0.7, 'stopped', rate=0.4), _trial(6, 0.99, 'running'),
    _trial(7, math.nan, 'stopped'), _trial(8, math.nan, 'refused'),
]


@pytest.mark.parametrize('metric, numbers', [
    ('accuracy', [3, 5, 1]), ('loss', [1, 3, 5]),
])
def test_the_best_are_first_and_of_equal_ones_the_earlier(metric, numbers):
  """Pruned, diverged, running ones, and those without a number, never win."""
  found = [trial.number for trial in trials_lib.ranked(TRIALS, metric)]
  assert found == numbers
  assert not trials_lib.ranked(TRIALS[1:2], metric)


def test_a_line_says_what_was_tried_and_what_is_best():
  assert trials_lib.line(TRIALS[0], TRIALS, 'accuracy') == (
      'defaults: rate=0.1, accuracy 0.5000, 2.5 s, best 0.7000 of trial 3'
  )
  assert trials_lib.line(TRIALS[1], TRIALS, 'accuracy') == (
      'rate=1.0, accuracy 0.9000, pruned after round 10, 2.5 s, best 0.7000 of'
      ' trial 3'
  )
  assert trials_lib.line(TRIALS[2], TRIALS, 'accuracy') == (
      'rate=0.3 mode=free, accuracy 0.7000, 2.5 s'
  )
  assert 'diverged after round 10' in trials_lib.line(TRIALS[3], [], 'loss')


def test_the_table_has_a_column_for_every_hyperparameter():
  columns, rows = trials_lib.table(dict(a=TRIALS[:3], b=TRIALS[3:4]))
  assert columns == [*trials_lib.COLUMNS, 'rate', 'mode']
  assert [row['algo'] for row in rows] == ['a', 'a', 'a', 'b']
  assert rows[0]['mode'] is None and rows[2]['mode'] == 'free'
  assert set(rows[0]) == set(columns)
