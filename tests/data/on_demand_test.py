"""Tests of `on_demand`."""

import numpy as np
import pytest

from tff_pers.data import client_data as cd
from tff_pers.data import errors
from tff_pers.data import on_demand


def _clients(read=None, sizes=(2, 0, 3, 1)):
  """Returns clients whose every number is 10 times their position."""
  read = [] if read is None else read

  def load(position):
    read.append(position)
    rows = sizes[position]
    return (
        np.full([rows, 2], 10 * position, np.float32),
        np.full([rows], 10 * position, np.int32),
    )

  return on_demand.OnDemand(load, sizes)


def test_reads_the_client_that_is_asked_for_and_nobody_else():
  read = []
  clients = _clients(read)
  assert len(clients) == 4
  assert clients.sizes.tolist() == [2, 0, 3, 1]
  assert not read
  data = clients[2]
  assert read == [2]
  assert (data['index'], data['num_examples']) == (2, 3)
  np.testing.assert_array_equal(data['examples']['y'], [20, 20, 20])


def test_takes_numpy_integers_negative_places_and_slices():
  clients = _clients()
  assert clients[np.int32(3)]['index'] == clients[-1]['index'] == 3
  assert [data['index'] for data in clients[1:3]] == [1, 2]
  assert [data['index'] for data in clients] == [0, 1, 2, 3]
  with pytest.raises(IndexError):
    clients[4]  # pylint: disable=pointless-statement


def test_nobody_can_change_what_was_read():
  with pytest.raises(ValueError):
    _clients()[0]['examples']['x'][0, 0] = 1.0


def test_a_client_of_another_size_than_counted_is_named():
  clients = on_demand.OnDemand(
      lambda position: (np.zeros([5, 1]), np.zeros([5])), [5, 4]
  )
  assert clients[0]['num_examples'] == 5
  with pytest.raises(errors.DataError, match='Client 1 must have the 4'):
    clients[1]  # pylint: disable=pointless-statement


def test_picks_of_picks_keep_data_and_renumber():
  read = []
  picked = _clients(read).pick([3, 2, 0], first=7).pick([1, 2])
  assert not read
  assert picked.sizes.tolist() == [3, 2]
  assert [
      (int(data['index']), int(data['examples']['y'][0])) for data in picked
  ] == [(0, 20), (1, 0)]
  assert read == [2, 0]


def test_lists_are_picked_and_counted_alike():
  clients = _clients()
  listed = list(clients)
  assert on_demand.sizes(listed).tolist() == on_demand.sizes(clients).tolist()
  for one, other in zip(
      on_demand.pick(listed, [2, 0], 4), on_demand.pick(clients, [2, 0], 4)
  ):
    assert one['index'] == other['index']
    np.testing.assert_array_equal(one['examples']['x'], other['examples']['x'])
  assert listed[2]['index'] == 2
  assert isinstance(cd.dense(0, [1], [1]), type(listed[0]))


def test_picks_keep_their_indices_if_asked_to():
  clients = _clients()
  picked = clients.pick([3, 1, 2], first=5)
  for some in (picked, list(picked)):
    kept = on_demand.pick(some, [2, 0], first=None)
    assert [
        (int(data['index']), int(data['num_examples'])) for data in kept
    ] == [(7, 3), (5, 1)]


def test_two_joined_keep_their_indices_and_are_read_one_by_one():
  read = []
  clients = _clients(read)
  one, other = clients.pick([3, 1], first=None), clients.pick([2], first=9)
  joined = on_demand.join(one, other)
  assert not read
  assert joined.sizes.tolist() == [1, 0, 3]
  assert (joined[2]['index'], joined[0]['index']) == (9, 3)
  assert read == [2, 3]
  assert [
      (int(data['index']), data['examples']['y'].tolist())
      for data in on_demand.join(list(one), list(other))
  ] == [(3, [30]), (1, []), (9, [20, 20, 20])]
