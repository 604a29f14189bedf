"""Conditions between hyperparameters: what holds, what is said, what raises."""

import pytest

from tff_pers.config import conditions

VALUES = {'router': 'oracle', 'rank': 0, 'rate': 0.0, 'center': True}


@pytest.mark.parametrize('condition, expected', [
    ('router=oracle', True),
    ('router=learned', False),
    ('router!=learned', True),
    ('rank=0', True),
    ('rate=0', True),
    ('rate!=0', False),
    ('center=true', True),
    ('router=oracle and rank=1', False),
    ('router=learned or rank=0', True),
    ('router=learned and rank=0 or center=true', True),
    ('center=true or router=learned and rank=0', True),
    ('router=learned or rank=0 and center=false', False),
])
def test_holds(condition, expected):
  assert conditions.holds(condition, VALUES) is expected


@pytest.mark.parametrize('condition', [
    'router', 'router=oracle or speed=1', 'rank>0', 'router=oracle, rank=0', '',
])
def test_raises_on_what_is_no_condition(condition):
  with pytest.raises(ValueError, match='A condition must be made of'):
    conditions.holds(condition, VALUES)


def test_found_names_each_hyperparameter_once():
  assert conditions.found(
      'router=learned and rate=1 or router=oracle and center!=true', VALUES
  ) == 'router=oracle and rate=0 and center=true'
