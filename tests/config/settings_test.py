"""The table of settings: every name in it is one, every value is allowed."""

import pytest

import baselines  # pylint: disable=unused-import  Registers its methods.
from tff_pers import algorithms  # pylint: disable=unused-import  As above.
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.config import settings
from tff_pers.data import tasks


def _names(method):
  return set(hp.as_dict(methods.get(method).hyperparameters()))


@pytest.mark.parametrize('row', sorted(settings.TABLE))
def test_names_are_tasks_methods_and_hyperparameters(row):
  assert row.split('/')[0] in tasks.names()
  everything = set().union(*map(_names, methods.names()))
  for method, values in settings.TABLE[row].items():
    known = everything if method == '' else _names(method)
    assert values and set(values) <= known


@pytest.mark.parametrize('row', sorted(settings.TABLE))
def test_values_are_allowed_for_every_method(row):
  task, *regimes = row.split('/')
  for name in methods.names():
    method = methods.get(name)
    values = settings.of(task, name, _names(name), regimes)
    # As programs do: what is said of all methods need not act in each.
    values = hp.without_idle(method.hyperparameters, values, {})
    made = hp.replace(method.hyperparameters(), **values)
    assert {k: hp.as_dict(made)[k] for k in values} == values


def _of(monkeypatch, *regimes):
  monkeypatch.setattr(settings, 'TABLE', {
      'one': {'': dict(a=1, b=1, c=1, d=1), 'it': dict(b=2, c=2)},
      'one/small': {'': dict(b=3, d=3), 'it': dict(c=4)},
      'one/late': {'it': dict(c=5)},
  })
  return settings.of('one', 'it', ['a', 'b', 'c', 'd', 'e'], regimes)


def test_the_method_comes_before_all_methods_and_regimes_before_the_task(
    monkeypatch
):
  assert _of(monkeypatch) == dict(a=1, b=2, c=2, d=1)
  assert _of(monkeypatch, 'small') == dict(a=1, b=2, c=4, d=3)
  assert _of(monkeypatch, 'small', 'late') == dict(a=1, b=2, c=5, d=3)


def test_only_what_the_method_has_is_given(monkeypatch):
  _of(monkeypatch)
  assert settings.of('one', 'other', ['a']) == dict(a=1)
  assert settings.of('another task', 'it', ['a']) == {}


def test_raises_on_a_regime_without_a_row(monkeypatch):
  with pytest.raises(ValueError, match='`regimes` must have a row.*one/large'):
    _of(monkeypatch, 'large')
