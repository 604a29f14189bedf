"""Grids of hyperparameters."""

import pytest

from tff_pers.evaluation import grids


def test_an_option_joins_the_others():
  assert grids.with_option('a', 'b', '1') == 'a[b=1]'
  assert grids.with_option('a[c=[d=2]]', 'b', '1') == 'a[c=[d=2],b=1]'
  with pytest.raises(ValueError, match='`algos` must leave b to `grid`'):
    grids.with_option('a[b=2]', 'b', '1')


def test_a_grid_is_a_name_and_distinct_values():
  assert grids.parse_grids('rate: 0.1, 1', ['m']) == {
      'm': (('rate',), ['0.1', '1'])
  }
  for text in ('', 'rate', 'rate:', ':1', 'rate:1,,2', 'rate:0.1,0.10',
               'rate:1;', 'rate:1;rate:2'):
    with pytest.raises(ValueError, match='`grid` must be a hyperparameter and'):
      grids.parse_grids(text, ['m'])


def test_a_grid_of_several_has_all_combinations():
  grid = grids.parse_grids('a:1,2; b:3,4', ['m[c=0]'])['m[c=0]']
  assert grid == (('a', 'b'), ['1;3', '1;4', '2;3', '2;4'])
  assert grids.with_options('m[c=0]', grid.options('2;3')) == 'm[c=0,a=2,b=3]'


def test_a_method_has_its_own_hyperparameters_beside_the_common_ones():
  variants = ['perm', 'perm[sketch=9]', 'perfedavg']
  found = grids.parse_grids(
      'rate:1;perm.warmup_rounds:5,10;perfedavg.steps:1,20', variants
  )
  perm = (('rate', 'warmup_rounds'), ['1;5', '1;10'])
  assert found == {
      'perm': perm, 'perm[sketch=9]': perm,
      'perfedavg': (('rate', 'steps'), ['1;1', '1;20']),
  }
  assert grids.common(found) == ['rate']


def test_unequal_grids_and_methods_that_are_not_compared_are_refused():
  with pytest.raises(ValueError, match='as many values .* found a 4, b 2.'):
    grids.parse_grids('rate:1,2;a.k:3,4', ['a', 'b'])
  with pytest.raises(ValueError, match='methods in `algos`, found c.k.'):
    grids.parse_grids('rate:1,2;c.k:3,4', ['a', 'b'])
  with pytest.raises(ValueError, match='found both for a.rate.'):
    grids.parse_grids('a.rate:3,4;rate:1,2', ['a', 'b'])
