"""The store: exact, bounded, and atomic when its process dies."""

import collections
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import textwrap
import weakref

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.simulation import store

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def _state(seed):
  generator = np.random.default_rng(seed)
  return collections.OrderedDict(
      weights=(
          generator.standard_normal((5, 3)).astype(np.float32),
          generator.standard_normal(2),
      ),
      count=np.int32(seed),
      flags=np.array([True, False]),
      empty=np.zeros([0, 4], np.float32),
      half=np.asarray(generator.random(2), tf.bfloat16.as_numpy_dtype),
      nothing=(),
  )


def _assert_same(actual, expected):
  assert isinstance(actual, type(expected))
  if isinstance(expected, collections.OrderedDict):
    assert list(actual) == list(expected)
    for name in expected:
      _assert_same(actual[name], expected[name])
  elif isinstance(expected, tuple):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
      _assert_same(a, b)
  else:
    assert actual.dtype == expected.dtype and actual.shape == expected.shape
    np.testing.assert_array_equal(actual, expected)


@pytest.fixture(name='path', params=['disk', 'memory'])
def _path(request, tmp_path):
  return tmp_path / 'checkpoint.sqlite' if request.param == 'disk' else None


@pytest.mark.parametrize('max_cached_bytes', [0, 300, 2**30])
def test_returns_what_was_put_last(path, max_cached_bytes):
  states = store.ClientStateStore(path, max_cached_bytes=max_cached_bytes)
  generator = np.random.default_rng(0)
  expected = {}
  for step in range(60):
    client = int(generator.integers(8))
    expected[client] = step
    states.put(client, _state(step))
    if step % 17 == 16:
      states.commit(_state(step), {'round': step})
    for other, value in expected.items():
      _assert_same(states.get(other, _state(0)), _state(value))
  assert states.clients() == sorted(expected)
  assert 0 in states and 99 not in states
  with pytest.raises(KeyError, match='Client 99 has no state'):
    states.get(99, _state(0))


def test_opening_gives_exactly_the_last_commit(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  states = store.ClientStateStore(path, max_cached_bytes=0)
  assert states.position() is None
  for client in range(4):
    states.put(client, _state(client))
  states.commit(_state(100), {'round': 5, 'seconds': 1.25})
  for client in range(6):  # Spilled into `working`, never committed.
    states.put(client, _state(client + 50))
  states.close()
  reopened = store.ClientStateStore(path)
  assert reopened.position() == {'round': 5, 'seconds': 1.25}
  _assert_same(reopened.server_state(_state(0)), _state(100))
  assert reopened.clients() == [0, 1, 2, 3]
  for client in range(4):
    _assert_same(reopened.get(client, _state(0)), _state(client))


def test_commit_replaces_states_of_another_shape(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  states = store.ClientStateStore(path)
  states.commit((np.arange(10), np.arange(3)), {})
  states.commit((np.arange(2), np.arange(4)), {})
  _assert_same(
      store.ClientStateStore(path).server_state((0, 0)),
      (np.arange(2), np.arange(4)),
  )


def test_large_leaves_are_cut_into_rows(tmp_path, monkeypatch):
  monkeypatch.setattr(store, 'CHUNK_BYTES', 64)
  path = tmp_path / 'checkpoint.sqlite'
  large = np.arange(1001, dtype=np.float32)
  states = store.ClientStateStore(path)
  states.commit((large, np.asfortranarray(large[:1000].reshape(50, 20))), {})
  first, second = store.ClientStateStore(path).server_state((0, 0))
  np.testing.assert_array_equal(first, large)
  np.testing.assert_array_equal(second, large[:1000].reshape(50, 20))
  longest = sqlite3.connect(path).execute(
      'SELECT max(length(npy)) FROM committed WHERE chunk > 0'
  ).fetchone()
  assert longest == (64,)


def test_leaves_are_npy_files(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  states = store.ClientStateStore(path)
  states.commit((np.arange(6.0).reshape(2, 3),), {})
  rows = sqlite3.connect(path).execute(
      'SELECT npy FROM committed ORDER BY chunk'
  )
  (tmp_path / 'leaf.npy').write_bytes(b''.join(row[0] for row in rows))
  np.testing.assert_array_equal(
      np.load(tmp_path / 'leaf.npy'), np.arange(6.0).reshape(2, 3)
  )


def test_opening_changes_no_byte(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  states = store.ClientStateStore(path)
  states.commit((np.arange(3),), {'round': 1})
  states.close()
  before = (path.read_bytes(), path.stat().st_mtime_ns)
  store.ClientStateStore(path).close()
  assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_failed_commit_keeps_the_last_checkpoint(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  states = store.ClientStateStore(path)
  states.put(1, (np.arange(3),))
  states.commit((np.arange(3),), {'round': 1})
  states.put(1, (np.arange(4),))
  with pytest.raises(TypeError, match='leaves of numbers'):
    states.commit((np.array([object()]),), {'round': 2})
  assert states.position() == {'round': 1}
  states.commit((np.arange(5),), {'round': 2})  # Nothing was forgotten.
  reopened = store.ClientStateStore(path)
  np.testing.assert_array_equal(reopened.get(1, (0,))[0], np.arange(4))


def test_full_disk_is_one_sentence_and_loses_nothing(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  states = store.ClientStateStore(path)
  states.commit((np.arange(3),), {'round': 1})
  states._db.execute('PRAGMA max_page_count = 20')  # pylint: disable=protected-access
  with pytest.raises(store.StoreError, match='checkpoint.sqlite.*full'):
    states.commit((np.zeros(10**6),), {'round': 2})
  states.close()
  reopened = store.ClientStateStore(path)
  assert reopened.position() == {'round': 1}
  np.testing.assert_array_equal(reopened.server_state((0,))[0], np.arange(3))


def test_reading_writes_nothing(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  path.touch()  # As a full disk leaves it.
  with store.ClientStateStore(path, read_only=True) as states:
    assert states.position() is None and not states.clients()
  assert not path.stat().st_size
  with store.ClientStateStore(path) as states:
    states.put(1, (np.arange(4),))
    states.commit((np.arange(3),), {'round': 1})
  with store.ClientStateStore(path, read_only=True) as states:
    assert states.position() == {'round': 1} and states.clients() == [1]
    np.testing.assert_array_equal(states.get(1, (0,))[0], np.arange(4))
    with pytest.raises(store.StoreError, match='readonly'):
      states.set_position({'round': 2})


def test_raises_on_a_file_that_is_no_store(tmp_path):
  path = tmp_path / 'checkpoint.sqlite'
  path.write_text('these are not the bytes of a database' * 100)
  with pytest.raises(store.StoreError, match='not a database'):
    store.ClientStateStore(path)


_WRITER = """
    import os, signal, sys
    import numpy as np
    from tff_pers.simulation import store

    path, victim, moment = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    states = store.ClientStateStore(path, max_cached_bytes=100_000)
    def die():
      os.kill(os.getpid(), signal.SIGKILL)
    write = store.ClientStateStore._write
    def write_and_die(self, table, owner, state):
      write(self, table, owner, state)
      # The value is in the transaction (and partly on disk: it is larger than
      # SQLite's page cache), the commit is still to come.
      if (generation, table, owner) == (victim, 'committed', doomed):
        die()
    store.ClientStateStore._write = write_and_die
    doomed = -1 if moment == 'server' else 5 if moment == 'client' else None
    for generation in range(1, 5):
      for client in range(6):
        states.put(client, (np.full(20_000, generation, np.float32),))
      if (generation, moment) == (victim, 'spilled'):
        die()
      states.commit((np.full(3_000_000, generation, np.float32),),
                    {'generation': generation})
      if (generation, moment) == (victim, 'after'):
        die()
"""


@pytest.mark.parametrize('moment', ['server', 'client', 'spilled', 'after'])
def test_kill_leaves_one_whole_generation(tmp_path, moment):
  """SIGKILL inside and around a checkpoint."""
  path = tmp_path / 'checkpoint.sqlite'
  finished = subprocess.run(
      [sys.executable, '-c', textwrap.dedent(_WRITER), path, '3', moment],
      cwd=_ROOT, env={**os.environ, 'TF_CPP_MIN_LOG_LEVEL': '3'},
      stdin=subprocess.DEVNULL, timeout=120, check=False,
  )
  assert finished.returncode == -signal.SIGKILL
  expected = 3 if moment == 'after' else 2
  states = store.ClientStateStore(path)
  assert states.position() == {'generation': expected}
  np.testing.assert_array_equal(
      states.server_state((0,))[0], np.full(3_000_000, expected, np.float32)
  )
  for client in range(6):
    np.testing.assert_array_equal(
        states.get(client, (0,))[0], np.full(20_000, expected, np.float32)
    )
  check = sqlite3.connect(path).execute('PRAGMA integrity_check').fetchone()
  assert check == ('ok',)


def test_memory_holds_states_up_to_the_bound_whatever_their_number(path):
  states = store.ClientStateStore(path, max_cached_bytes=10_000)
  for client in range(200):
    states.put(client, np.full([100], client, np.float64))  # 800 bytes each.
    assert sum(s.nbytes for s in states._cache.values()) <= 10_000  # pylint: disable=protected-access
  for client in range(200):
    assert states.get(client, np.zeros([100]))[0] == client


def test_a_full_cache_makes_room_for_many_at_once(path):
  """Each time waits for the disk."""
  states = store.ClientStateStore(path, max_cached_bytes=10_000)
  transactions = []
  states._db.set_trace_callback(  # pylint: disable=protected-access
      lambda sql: transactions.append(sql) if 'COMMIT' in sql else None
  )
  for client in range(120):
    states.put(client, np.zeros([125]))  # 1000 bytes each.
  # 11 fill it over the bound, 7 stay, then every 4 do.
  assert len(transactions) == 1 + (120 - 11) // 4


def test_the_states_of_a_cohort_stay_in_memory_however_large(path):
  states = store.ClientStateStore(path, max_cached_bytes=0)
  states.keep_at_least(3)
  kept = [np.full([100], client) for client in range(5)]
  for client, state in enumerate(kept):
    states.put(client, state)
  assert [states.get(c, kept[0]) is kept[c] for c in (2, 3, 4)] == [True] * 3
  assert states.get(0, kept[0]) is not kept[0]


def test_a_state_keeps_no_array_of_its_whole_cohort_alive(path):
  states = store.ClientStateStore(path)
  cohort = np.random.default_rng(0).random([3, 4])  # Itself no view.
  gone = weakref.ref(cohort)
  states.put(7, {'weights': cohort[1]})
  expected = cohort[1].copy()
  del cohort
  assert gone() is None
  np.testing.assert_array_equal(
      states.get(7, {'weights': expected})['weights'], expected
  )
