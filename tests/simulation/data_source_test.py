"""Dense data as a data source of `tff.program`."""

import copy

import numpy as np
import pytest

from tff_pers.testing import tiny
from tff_pers.data import client_data
from tff_pers.simulation import cohort
from tff_pers.simulation import data_source

CLIENTS = tiny.clients((5, 12, 7, 9), seed=0)


def _indices(datasets):
  return [int(next(iter(d))['index'][0]) for d in datasets]


def test_cohorts_are_those_of_the_sampler_and_go_on_from_bytes():
  source = data_source.ClientDataSource(CLIENTS, seed=4)
  expected = [cohort.uniform(4, 2)(4, i).tolist() for i in range(4)]
  iterator = source.iterator()
  assert [_indices(iterator.select(2)) for _ in range(2)] == expected[:2]
  others = [
      copy.deepcopy(iterator),
      data_source.ClientDataIterator.from_bytes(iterator.to_bytes()),
  ]
  assert iterator == others[0] == others[1]
  for other in [iterator, *others]:  # None moves another one.
    assert [_indices(other.select(2)) for _ in range(2)] == expected[2:]
  assert _indices(source.iterator().select()) == [0, 1, 2, 3]


def test_data_sets_hold_the_examples():
  source = data_source.ClientDataSource(CLIENTS)
  for data, dataset in zip(CLIENTS, source.datasets):
    assert dataset.element_spec == source.datasets[0].element_spec
    [batch] = dataset.as_numpy_iterator()
    assert set(batch['index']) == {int(data['index'])}
    for name, rows in data['examples'].items():
      np.testing.assert_array_equal(batch[name], rows)


@pytest.mark.parametrize('clients, seed', [(CLIENTS[1:], 0), (CLIENTS[:2], 1)])
def test_a_saved_position_is_of_its_data_and_seed(clients, seed):
  saved = data_source.ClientDataSource(CLIENTS[:2]).iterator().to_bytes()
  other = data_source.ClientDataSource(clients, seed=seed)
  assert other.iterator().to_bytes() != saved
  with pytest.raises(ValueError, match='found one of other data'):
    data_source.ClientDataIterator.from_bytes(saved)


@pytest.mark.parametrize('k', [0, 5])
def test_cohorts_of_more_clients_than_there_are_are_refused(k):
  iterator = data_source.ClientDataSource(CLIENTS).iterator()
  with pytest.raises(ValueError, match=f'in 1..4, .* found {k}'):
    iterator.select(k)


def test_clients_without_examples_are_refused():
  empty = client_data.dense(7, np.zeros([0, 3]), np.zeros([0], np.int32))
  with pytest.raises(ValueError, match='Client 7 must have an example'):
    data_source.ClientDataSource([empty])
  with pytest.raises(ValueError, match='found none'):
    data_source.ClientDataSource([])
