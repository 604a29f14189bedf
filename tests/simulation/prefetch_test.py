"""Tests of `prefetch`."""

import threading

import numpy as np
import pytest

from tff_pers.data import errors
from tff_pers.data import on_demand
from tff_pers.simulation import prefetch

_SIZES = [1, 2, 3, 4]


def _arrays(position):
  return np.full([_SIZES[position], 1], position), np.zeros(_SIZES[position])


def _indices(data):
  return [int(client['index']) for client in data]


def test_the_next_cohort_is_read_before_it_is_asked_for():
  read = threading.Event()
  names = []

  def load(position):
    names.append(threading.current_thread().name)
    read.set()
    return _arrays(position)

  reader = prefetch.Prefetch(on_demand.OnDemand(load, _SIZES))
  with reader:
    reader.begin(np.array([3, 1], np.int32))
    assert read.wait(timeout=20.0)
    assert _indices(reader.take(np.array([3, 1], np.int32))) == [3, 1]
  assert len(names) == 2  # Nobody is read a second time.
  assert threading.current_thread().name not in names


def test_another_cohort_than_was_begun_is_read_itself():
  reader = prefetch.Prefetch(on_demand.OnDemand(_arrays, _SIZES))
  with reader:
    reader.begin([0, 1])
    assert _indices(reader.take([2])) == [2]
    assert _indices(reader.take([0, 1])) == [0, 1]


def test_an_error_comes_out_where_the_cohort_is_needed():
  def load(position):
    if position == 2:
      raise errors.DataError('Client 2 must be whole.')
    return _arrays(position)

  reader = prefetch.Prefetch(on_demand.OnDemand(load, _SIZES))
  with reader:
    reader.begin([2])
    assert _indices(reader.take([0])) == [0]
    reader.begin([1, 2])
    with pytest.raises(errors.DataError, match='Client 2 must be whole'):
      reader.take([1, 2])


@pytest.mark.parametrize('fails', [False, True])
def test_no_thread_is_left(fails):
  before = set(threading.enumerate())
  reader = prefetch.Prefetch(on_demand.OnDemand(_arrays, _SIZES))
  with pytest.raises(KeyboardInterrupt):
    with reader:
      reader.begin([0])
      if not fails:
        reader.take([0])
      raise KeyboardInterrupt
  assert set(threading.enumerate()) == before
  reader.begin([0])
  assert set(threading.enumerate()) == before


def test_lists_need_no_thread():
  before = set(threading.enumerate())
  clients = list(on_demand.OnDemand(_arrays, _SIZES))
  with prefetch.Prefetch(clients) as reader:
    reader.begin([1])
    assert set(threading.enumerate()) == before
    [data] = reader.take([1])
  assert data is clients[1]


def test_waiting_is_measured():
  """What was read meanwhile costs nothing, what was not costs its reading."""
  is_open = threading.Event()

  def load(position):
    is_open.wait(timeout=60.0)
    return _arrays(position)

  reader = prefetch.Prefetch(on_demand.OnDemand(load, _SIZES))
  with reader:
    reader.begin([0])
    threading.Timer(0.5, is_open.set).start()
    reader.take([0])
    waited = reader.seconds_waiting
    assert waited > 0.2
    reader.begin([1])
    reader.take([1])
    assert reader.seconds_waiting - waited < 0.2
