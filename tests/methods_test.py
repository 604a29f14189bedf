"""The registry of methods."""

import types

import pytest

from tff_pers import hyperparameters as hp
from tff_pers import methods


@pytest.fixture(autouse=True)
def _empty_registry(monkeypatch):
  monkeypatch.setattr(methods, '_METHODS', {})


def _task(has_groups=True, full_participation=True):
  return types.SimpleNamespace(
      has_groups=has_groups, full_participation=full_participation
  )


def test_registered_method_is_known():

  @methods.register('second', hp.LocalTraining, summary='in one line')
  def build(task, hyperparameters):
    return task, hyperparameters

  methods.register('first', hp.LocalTraining)(build)
  assert methods.names() == ['first', 'second']
  method = methods.get('second')
  assert method.build is build
  assert method.hyperparameters is hp.LocalTraining
  assert method.summary == 'in one line'
  assert methods.missing_needs(method, _task(False, False)) == []


def test_missing_needs_are_sentences():
  methods.register(
      'picky', hp.LocalTraining, needs=('groups', 'full_participation')
  )(print)
  picky = methods.get('picky')
  assert methods.missing_needs(picky, _task()) == []
  assert methods.missing_needs(picky, _task(has_groups=False)) == [
      methods.NEEDS['groups']
  ]
  assert methods.missing_needs(picky, _task(False, False)) == [
      methods.NEEDS['groups'], methods.NEEDS['full_participation']
  ]


def test_raises_on_unknown_name():
  methods.register('known', hp.LocalTraining)(print)
  with pytest.raises(ValueError, match="must be one of known, found 'knwon'"):
    methods.get('knwon')


def test_raises_on_second_registration():
  methods.register('known', hp.LocalTraining)(print)
  with pytest.raises(ValueError, match='must be new, found known'):
    methods.register('known', hp.LocalTraining)(print)


def test_raises_on_unknown_need():
  with pytest.raises(ValueError, match='`needs` must be among .*found .*luck'):
    methods.register('odd', hp.LocalTraining, needs=('luck',))
