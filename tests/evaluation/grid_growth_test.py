"""What is tried beyond the ends of grids, without any training."""

import dataclasses
import math

import pytest

from tff_pers.config import hyperparameters as hp
from tff_pers.evaluation import grid_growth
from tff_pers.evaluation import grids as grids_lib
from tff_pers.evaluation import tuning


@dataclasses.dataclass(frozen=True)
class Example:
  rate: float = hp.field(0.1, '', above=0.0)
  other: float = hp.field(0.1, '', above=0.0)
  momentum: float = hp.field(0.0, '', minimum=0.0, below=1.0)
  steps: int = hp.field(1, '', minimum=0, maximum=40)
  shift: float = hp.field(0.0, '')
  adaptive: bool = hp.field(True, '')
  split: str = hp.field('', '')


SPECS = hp.specs(Example)


def _choice(scores, metric='accuracy'):
  finite = {v: score for v, score in scores.items() if math.isfinite(score)}
  best = max if metric == 'accuracy' else min
  return tuning.Choice(
      metric, dict(scores),
      best(finite, key=finite.__getitem__) if finite else None,
  )


def _grow(grid, score, *, variants=('m',), times=3, can_run=None,
          metric='accuracy'):
  """Returns the scores by variant and value, in the order of the trials.

  Args:
    grid: Value of `--grid`.
    score: `(variant, value) -> number`.
    variants: Names.
    times: How often grids may grow.
    can_run: `(variant, value) -> bool`; None: everything can run.
    metric: See `tuning.Choice`.
  """
  grids = grids_lib.parse_grids(grid, variants)
  scores = {
      variant: {value: score(variant, value) for value in own.values}
      for variant, own in grids.items()
  }
  for _ in range(times):
    more = grid_growth.more_trials(
        grids, {v: _choice(own, metric) for v, own in scores.items()},
        dict.fromkeys(variants, SPECS), can_run or (lambda *key: True),
    )
    for variant, value in more.items():
      assert value not in scores[variant]
      scores[variant][value] = score(variant, value)
  return scores


def _near(peak):
  """Returns a score that is best at a number, on a logarithmic scale."""
  return lambda variant, value: -abs(math.log(float(value) / peak))


def _gained(grid, score, **options):
  """Returns the values that the grid of the one variant gained."""
  scores = _grow(grid, score, **options)['m']
  return list(scores)[len(grids_lib.parse_grids(grid, ['m'])['m'].values):]


@pytest.mark.parametrize('grid, peak, gained', [
    ('rate:0.03,0.1', 3.7, ['0.333', '1.11', '3.7']),
    ('rate:0.03,0.1', 1000, ['0.333', '1.11', '3.7']),  # Three times at most.
    ('rate:0.03,0.1', 0.3, ['0.333', '1.11']),  # The second is worse.
    ('rate:1,0.3,0.1', 0.001, ['0.0333', '0.0111', '0.0037']),
    ('rate:0.1,0.3,1', 0.3, []),
    ('rate:0.1', 7, []),
    # In the type and the range of the hyperparameter, of which 0 is no scale.
    ('momentum:0.5,0.7', 0.99, ['0.98']),
    ('steps:4,6', 100, ['9', '14', '22']),
    ('steps:5,10', 100, ['20', '40']),
    ('steps:2,5', 1, ['1']),
    ('shift:-2,-1', -9, ['-4', '-8', '-16']),
])
def test_a_grid_grows_by_its_own_ratio(grid, peak, gained):
  assert _gained(grid, _near(peak)) == gained


def test_zero_has_no_ratio():
  largest = lambda variant, value: float(value)
  smallest = lambda variant, value: -float(value)
  assert not _gained('momentum:0,0.5', largest)
  assert not _gained('momentum:0,0.1,0.5', smallest)
  assert not _gained('shift:-1,1', largest)
  assert _gained('momentum:0,0.1,0.2', largest, times=1) == ['0.4']


@pytest.mark.parametrize('metric', ['accuracy', 'loss'])
def test_a_diverged_end_is_no_border(metric):
  scores = {'0.1': 1.0, '0.3': 2.0, '1': math.nan}
  sign = 1 if metric == 'accuracy' else -1
  score = lambda variant, value: sign * scores[value]
  assert not _gained('rate:0.1,0.3,1', score, metric=metric)


def test_where_all_values_diverge_smaller_ones_are_tried():
  score = lambda variant, value: 1.0 if float(value) < 0.02 else math.nan
  # The best is at the end again, and the one below is no better.
  assert _gained('rate:0.1,0.3', score) == ['0.0333', '0.0111', '0.0037']


def test_what_is_no_number_does_not_grow():
  largest = lambda variant, value: float(value.split(';')[0])
  assert not _gained('adaptive:0,1', largest)
  assert not _gained('split:a,b', lambda variant, value: 0.5)
  assert not _gained('unknown:1,2', largest)
  assert _gained('rate:1,2;split:a,b', largest, times=1) == ['4;a']


def test_what_cannot_run_is_a_bound():
  """Ranges may depend on other hyperparameters and on the task."""
  can_run = lambda variant, value: float(value) < 0.5
  assert _gained('rate:0.03,0.1', _near(9), can_run=can_run) == ['0.333']


@pytest.mark.parametrize('values, peak, third', [
    ('0.1,0.4,1.6', 0.5, '0.8'),  # The better neighbour is the larger,
    ('0.1,0.4,1.6', 0.3, '0.2'),  # and here the smaller.
])
def test_other_variants_have_as_many_trials(values, peak, third):
  """One at whose ends the best is not, between it and its better neighbour."""
  score = lambda variant, value: _near(dict(far=99, near=peak)[variant])(
      variant, value
  )
  scores = _grow(f'rate:{values}', score, variants=('far', 'near'))
  assert list(scores['far'])[3:] == ['6.4', '25.6', '102']
  assert list(scores['near'])[3] == third
  assert len(scores['near']) == 6
  # One alone would not have been tried again.
  assert len(_grow(f'rate:{values}', score, variants=('near',))['near']) == 3


def test_nothing_in_between_is_not_tried_again():
  score = lambda variant, value: -abs(
      float(value) - dict(far=99, near=2)[variant]
  )
  scores = _grow('steps:1,2,3', score, variants=('far', 'near'))
  # Of the integers next to the best none is left, but some beyond the ends.
  assert list(scores['near'])[3:] == ['4', '5', '6']
  assert len(scores['far']) == 6


def test_no_grid_grows_where_another_cannot():
  """More trials are an advantage."""
  score = lambda variant, value: -ord(value[0])
  scores = _grow('a.rate:1,2;b.split:p,q', score, variants=('a', 'b'))
  assert [len(own) for own in scores.values()] == [2, 2]
  assert _gained('rate:1,2', score, times=1) == ['0.5']


def test_several_hyperparameters_take_turns():
  """All others stay as in the best."""
  def score(variant, value):
    rate, other = map(float, value.split(';'))
    return -abs(math.log(rate / 9)) - abs(math.log(other / 0.01))
  assert _gained('rate:1,2;other:0.1,1', score) == [
      '4;0.1', '4;0.01', '8;0.01'
  ]


def test_of_several_the_one_at_whose_end_the_best_is_goes_on():
  def score(variant, value):
    rate, steps = map(float, value.split(';'))
    return -abs(math.log(rate / 0.3)) - abs(math.log(steps / 10))
  assert _gained('rate:0.1,0.3,1;steps:5,10', score) == ['0.3;20']
