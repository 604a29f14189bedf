"""Tests of the validation part of a task."""

import dataclasses

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import on_demand
from tff_pers.data import tasks
from tff_pers.data import validation
from tests import built
from tests import lazy_tasks

# A request that gives every family of tasks that needs no files.
FAMILIES = {
    'digits': dict(num_clients=4, partition='dirichlet[alpha=1]'),
    'floral_label_shift': {},
    'floral_linear': {},
    'floral_mlp': {},
    'synthetic_groups': dict(num_clients=4),
}


def _build(name, fraction, **request):
  return built.task(name, seed=3, validation_fraction=fraction, **request)


def _bytes(data):
  return [
      (int(d['index']), d['examples']['x'].tobytes(),
       d['examples']['y'].tobytes())
      for d in data
  ]


def _rows(data):
  """Returns the multiset of examples of each client, as sorted bytes."""
  return [
      sorted(
          x.tobytes() + y.tobytes()
          for x, y in zip(d['examples']['x'], d['examples']['y'])
      )
      for d in data
  ]


@pytest.mark.parametrize('name', FAMILIES)
def test_test_data_stay_and_training_data_are_dealt_out(name):
  whole = _build(name, 0.0, **FAMILIES[name])
  cut = _build(name, 0.3, **FAMILIES[name])
  assert whole.validation is None
  assert _bytes(cut.test) == _bytes(whole.test)
  for train, held, before in zip(
      _rows(cut.train), _rows(cut.validation), _rows(whole.train)
  ):
    assert sorted(train + held) == before
    assert len(held) == round(0.3 * len(before)) and len(train) >= 1
  for part in (cut.train, cut.validation):
    assert [int(d['index']) for d in part] == list(range(whole.num_clients))
    assert all(len(d['examples']['x']) == d['num_examples'] for d in part)


@pytest.mark.parametrize('fraction', [0.0, 0.4])
@pytest.mark.parametrize('name', ['digits', 'floral_label_shift'])
def test_class_counts_are_those_of_the_remaining_training_data(name, fraction):
  cut = _build(name, fraction, num_clients=4)
  for data, counts in zip(cut.train, cut.class_counts):
    np.testing.assert_array_equal(
        np.bincount(data['examples']['y'], minlength=10), counts
    )
  assert _build('floral_linear', fraction).class_counts is None


def test_a_client_keeps_an_example_to_train_on():
  cut = _build('floral_linear', 0.99)
  assert {int(d['num_examples']) for d in cut.train} == {1}
  assert {int(d['num_examples']) for d in cut.validation} == {6}


@pytest.mark.parametrize('fraction', [-0.1, 1.0, float('nan')])
def test_raises_on_fraction_out_of_range(fraction):
  with pytest.raises(
      ValueError, match=r'`validation_fraction` must be in \[0, 1\), found'
  ):
    tasks.TaskRequest(validation_fraction=fraction)


def test_raises_where_nobody_gets_an_example():
  with pytest.raises(
      errors.DataError, match='of task floral_linear .* found 0.01 of at most 7'
  ):
    _build('floral_linear', 0.01)


def test_clients_on_demand_are_cut_as_lists_without_being_read():
  task = _build('digits', 0.0, num_clients=5, partition='dirichlet[alpha=1]')
  reads = lazy_tasks.Reads()
  lazy = validation.hold_out(dataclasses.replace(
      reads.on_demand(task), class_counts=task.class_counts
  ), 0.3, 7)
  cut = validation.hold_out(task, 0.3, 7)
  assert not reads.train
  for part in ('train', 'validation'):
    clients = getattr(lazy, part)
    assert isinstance(clients, on_demand.OnDemand)
    # From the last to the first: any client can be drawn alone.
    assert _bytes([clients[i] for i in reversed(range(5))]) == _bytes(
        getattr(cut, part)[::-1]
    )
  assert lazy.test is not None and not reads.test
  assert lazy.class_counts is None


def test_the_rows_are_those_of_one_generator_client_by_client():
  # So many that for some half of a draw of 64 bits is left over.
  task = _build('digits', 0.0, num_clients=30, partition='dirichlet[alpha=1]')
  cut = validation.hold_out(task, 0.3, 7)
  rng = np.random.default_rng([7, 100])
  known = validation.kept_rows(on_demand.sizes(task.train), 0.3, 7)
  for before, kept, held, places in zip(
      task.train, cut.train, cut.validation, known
  ):
    size = int(before['num_examples'])
    rows = rng.permutation(size)
    number = round(0.3 * size)
    np.testing.assert_array_equal(places, np.sort(rows[number:]))
    for part, chosen in ((held, rows[:number]), (kept, rows[number:])):
      np.testing.assert_array_equal(
          part['examples']['x'], before['examples']['x'][np.sort(chosen)]
      )
