"""The registry of methods."""

import dataclasses

import pytest

from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.config import registry
from tff_pers.config import traits


@pytest.fixture(autouse=True)
def _empty_registry(monkeypatch):
  monkeypatch.setattr(methods, '_METHODS', registry.Registry('algo'))


def _traits(groups=True, full_participation=True):
  return traits.Traits(
      groups=groups, full_participation=full_participation,
      classification=True, model='mlp',
  )


def test_missing_needs_are_sentences():
  methods.register(
      'picky', hp.LocalTraining, needs=('groups', 'full_participation')
  )(print)
  picky = methods.get('picky')
  assert methods.missing_needs(picky, _traits()) == []
  assert methods.missing_needs(picky, _traits(groups=False)) == [
      methods.NEEDS['groups']
  ]
  assert methods.missing_needs(picky, _traits(False, False)) == [
      methods.NEEDS['groups'], methods.NEEDS['full_participation']
  ]


@pytest.mark.parametrize(
    'default, alternatives, expected',
    [
        (_traits(), [], 'yes'),
        (_traits(groups=False), [], 'no'),
        (_traits(groups=False), [_traits()], 'flags'),
        # One flag helps one need, and another the other: not both.
        (_traits(False, False), [_traits(True, False)], 'no'),
        (_traits(groups=None), [], 'data'),
        (_traits(groups=None), [_traits()], 'flags'),
        (_traits(groups=None, full_participation=False), [], 'no'),
    ],
)
def test_fit_asks_for_all_needs_at_once(default, alternatives, expected):
  methods.register(
      'picky', hp.LocalTraining, needs=('groups', 'full_participation')
  )(print)
  methods.register('easy', hp.LocalTraining)(print)
  picky, easy = methods.get('picky'), methods.get('easy')
  assert methods.fit(picky, default, alternatives) == expected
  assert methods.fit(easy, default, alternatives) == 'yes'


def test_a_need_of_some_hyperparameters_is_no_need_of_others():
  needs = dict(groups=lambda hyperparameters: hyperparameters.batch_size == 20)
  methods.register('sometimes', hp.LocalTraining, needs=needs)(print)
  method, lacking = methods.get('sometimes'), _traits(groups=False)
  assert methods.missing_needs(method, lacking) == [methods.NEEDS['groups']]
  other = hp.LocalTraining(batch_size=5)
  assert methods.missing_needs(method, lacking, other) == []
  assert methods.fit(method, _traits()) == 'yes'
  assert methods.fit(method, lacking) == 'flags'


def test_every_need_is_a_sentence_and_a_predicate():
  for need in methods.NEEDS.values():
    answers = {
        bool(need.holds(dataclasses.replace(_traits(), **{field: value})))
        for field, value in (
            ('groups', False), ('full_participation', False),
            ('model', 'linear_regression'), ('model', 'mlp_bn'),
            ('model', 'least_squares'), ('rows_are_examples', False),
        )
    }
    assert answers == {True, False}
    assert need.sentence and need.tip


@pytest.mark.parametrize('fields, message', [
    (dict(needs=('luck',)), '`needs` must be among .*found .*luck'),
    (dict(driver='clock'), '`driver` must be one of rounds, events'),
])
def test_raises_on_an_unknown_need_or_driver(fields, message):
  with pytest.raises(ValueError, match=message):
    methods.register('odd', hp.LocalTraining, **fields)


def test_raises_on_a_hyperparameter_that_no_flag_can_be_made_of():
  @dataclasses.dataclass(frozen=True)
  class Own(hp.LocalTraining):
    share: float = 0.5

  with pytest.raises(ValueError, match='`Own.share` must be made by `hp.field`'):
    methods.register('odd', Own)
