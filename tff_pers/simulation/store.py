"""Client states between rounds, and checkpoints, in one SQLite file.

The committed tables hold the last checkpoint: server state, client states,
messages in flight and position, replaced together in one transaction. States
that changed since then are in a bounded cache; those that do not fit are in the
table `working`, which is ignored until the next checkpoint and dropped when the
file is opened.
"""

import collections
import contextlib
import functools
import io
import json
import os
import pathlib
import sqlite3
import types
from typing import Any, Iterator, Mapping, Optional, Union

import numpy as np
import tensorflow as tf

# Maximum bytes of a row, so that no large leaf is copied as a whole.
CHUNK_BYTES = 64 * 2**20
# Page size of a new file. SQLite's default of 4 KiB needs more pages.
_PAGE_BYTES = 16384
# Small compared with what TensorFlow takes, so that memory does not grow with
# the number of clients that have a state.
MAX_CACHED_BYTES = 64 * 2**20
# Share of a full cache that is kept: many states are evicted in one
# transaction, because each waits for the disk.
_LEFT_SHARE = 0.75
_SERVER = -1
_PENDING = -2  # And below: pending structures, by number.
_VERSION = 1
_BFLOAT16 = tf.bfloat16.as_numpy_dtype
# Errors of reading bytes that are damaged or of another structure.
_BYTES = (ValueError, TypeError, IndexError, AttributeError, MemoryError)
_TABLES = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS committed (
    owner INTEGER, leaf INTEGER, chunk INTEGER, npy BLOB,
    PRIMARY KEY (owner, leaf, chunk));
CREATE TABLE IF NOT EXISTS working (
    owner INTEGER, leaf INTEGER, chunk INTEGER, npy BLOB,
    PRIMARY KEY (owner, leaf, chunk));
"""


class StoreError(OSError):
  """The store's file cannot be written or read (disk full, damaged, locked)."""


class ClientStateStore:
  """Stores states by client, and the last checkpoint.

  A state is any structure of arrays. Its leaves are stored as .npy bytes, its
  structure is not: reading needs an example. Opening a file restores exactly
  the last `commit`, whatever happened to the process that wrote it.
  """

  def __init__(
      self,
      path: Optional[Union[str, os.PathLike[str]]] = None,
      *,
      max_cached_bytes: int = MAX_CACHED_BYTES,
      read_only: bool = False,
  ):
    """Opens or creates a store.

    Args:
      path: The file; None: in memory, and lost when closed.
      max_cached_bytes: Bound on the states kept as arrays in memory, >= 0.
      read_only: Whether nothing is written, so that a full or read-only disk
        suffices; but if the process that wrote the file was killed while
        writing, the file is repaired.

    Raises:
      StoreError: If the file cannot be opened or is not a store.
    """
    self._path = os.fspath(path) if path is not None else ':memory:'
    self._max_cached_bytes = max_cached_bytes
    self._cache: collections.OrderedDict[int, Any] = collections.OrderedDict()
    self._cached_bytes, self._at_least = 0, 1
    self._dirty: set[int] = set()
    # Where the newest states are. A read-only store ignores `working`, which a
    # killed process may have left.
    self._tables = ('committed',) if read_only else ('working', 'committed')
    with self._errors():
      if not read_only or not self._open_to_read():
        self._open()
      self._known = {
          owner
          for (owner,) in self._db.execute(
              'SELECT DISTINCT owner FROM committed WHERE owner >= 0'
          )
      }

  def _open(self) -> None:
    # Transactions are opened and closed by hand, see `_transaction`.
    self._db = sqlite3.connect(self._path, isolation_level=None)
    # Before the tables are created: it has no effect on a file with pages.
    self._db.execute(f'PRAGMA page_size = {_PAGE_BYTES}')
    # A commit must survive a power failure, not only a kill.
    self._db.execute('PRAGMA synchronous = FULL')
    with self._transaction():
      for statement in _TABLES.split(';'):
        self._db.execute(statement)
      self._db.execute(
          f"INSERT OR IGNORE INTO meta VALUES ('version', '{_VERSION}')"
      )
      # Deleting from an empty table might still write to the file; opening a
      # finished store must not change it.
      if self._db.execute('SELECT 1 FROM working LIMIT 1').fetchone():
        self._db.execute('DELETE FROM working')
    self._check_version()

  def _open_to_read(self) -> bool:
    """Opens the file read-only; False if it must be repaired first."""
    uri = f'{pathlib.Path(self._path).absolute().as_uri()}?mode=ro'
    self._db = sqlite3.connect(uri, isolation_level=None, uri=True)
    try:
      if not self._db.execute('SELECT 1 FROM sqlite_master').fetchone():
        # The disk was full before anything was written.
        self._db.close()
        self._path = ':memory:'
        return False
      self._check_version()
      return True
    except sqlite3.OperationalError:
      self._db.close()
      return False

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    self.close()

  @property
  def path(self) -> str:
    """The file that holds the states and the checkpoint."""
    return self._path

  def __contains__(self, client: int) -> bool:
    return int(client) in self._known

  def keep_at_least(self, number: int) -> None:
    """Keeps the newest `number` states in memory, at least 1, however large.

    A round holds the states of its cohort in memory anyway, and a run of all
    clients would otherwise write and read all of them in every round.

    Args:
      number: Number of states.
    """
    self._at_least = max(number, 1)

  def clients(self) -> list[int]:
    """Returns the clients that have a state, ascending."""
    return sorted(self._known)

  def get(self, client: int, like: Any) -> Any:
    """Returns the state of a client, arrays in the structure of `like`.

    Args:
      client: Its index.
      like: An example of a state; its leaves are not read.

    Raises:
      KeyError: If the client has no state.
      StoreError: If it cannot be read, or has another structure.
    """
    client = int(client)
    if client not in self._known:
      raise KeyError(f'Client {client} has no state.')
    if client not in self._cache:
      # `working` is newer than `committed`.
      with self._errors(_BYTES):
        state = tf.nest.pack_sequence_as(
            like,
            next(filter(None, (
                self._read(table, client) for table in self._tables
            )), []),
        )
      self._remember(client, state)
    self._cache.move_to_end(client)
    return self._cache[client]

  def put(self, client: int, state: Any) -> None:
    """Sets the state of a client; it is lost unless a `commit` follows.

    Args:
      client: Its index, >= 0.
      state: A structure of arrays.

    Raises:
      StoreError: If memory is full and the file cannot be written.
    """
    client = int(client)
    # A round's results are views of one array of the whole cohort, which each
    # of them would keep alive.
    state = tf.nest.map_structure(_own, state)
    self._known.add(client)
    self._dirty.add(client)
    self._remember(client, state)

  def commit(
      self, server_state: Any, position: Mapping[str, Any],
      pending: Mapping[int, Any] = types.MappingProxyType({}),
  ) -> None:
    """Makes server state, client states and position the checkpoint.

    Args:
      server_state: A structure of arrays.
      position: Further JSON values that a resumed run needs.
      pending: Structures of arrays by number >= 0, e.g. messages in flight.

    Raises:
      StoreError: If it cannot be written; the last checkpoint is then intact.
    """
    with self._errors(), self._transaction():
      self._db.execute(
          'DELETE FROM committed WHERE owner IN'
          ' (SELECT owner FROM working WHERE leaf = 0 AND chunk = 0)'
      )
      self._db.execute('INSERT INTO committed SELECT * FROM working')
      self._db.execute('DELETE FROM working')
      # After `working`: of a client in both, the cache has the newer state.
      for client in sorted(self._dirty & set(self._cache)):
        self._write('committed', client, self._cache[client])
      self._db.execute('DELETE FROM committed WHERE owner <= ?', (_PENDING,))
      for number, structure in pending.items():
        self._write('committed', _PENDING - number, structure)
      self._write('committed', _SERVER, server_state)
      self._write_position(position)
    # Only now: if the transaction fails, these states must still be written.
    self._dirty.clear()

  def position(self) -> Optional[dict[str, Any]]:
    """Returns the position of the last checkpoint, None if there is none.

    Raises:
      StoreError: If it cannot be read.
    """
    with self._errors(_BYTES):
      text = self._meta('position')
      return None if text is None else _read_position(text)

  def set_position(self, position: Mapping[str, Any]) -> None:
    """Changes only the position of the last checkpoint.

    Args:
      position: JSON values, as `commit` takes them.

    Raises:
      StoreError: If it cannot be written.
    """
    with self._errors(), self._transaction():
      self._write_position(position)

  def server_state(self, like: Any) -> Any:
    """Returns the server state of the last checkpoint, structured as `like`.

    Args:
      like: An example of a server state; its leaves are not read.

    Raises:
      StoreError: If it cannot be read, is not there, or has another structure.
    """
    with self._errors(_BYTES):
      return tf.nest.pack_sequence_as(like, self._read('committed', _SERVER))

  def pending(self) -> list[int]:
    """Returns the numbers of the last checkpoint's pending structures, sorted.

    Raises:
      StoreError: If it cannot be read.
    """
    with self._errors(_BYTES):
      rows = self._db.execute(
          'SELECT DISTINCT owner FROM committed WHERE owner <= ?', (_PENDING,)
      )
      return sorted(_PENDING - owner for (owner,) in rows)

  def get_pending(self, number: int, like: Any) -> Any:
    """Returns the pending structure of a number, structured as `like`.

    Args:
      number: One of `pending`.
      like: An example of it; its leaves are not read.

    Raises:
      StoreError: If it cannot be read, is not there, or has another structure.
    """
    with self._errors(_BYTES):
      return tf.nest.pack_sequence_as(
          like, self._read('committed', _PENDING - number)
      )

  def close(self) -> None:
    """Closes the file; what was not committed is lost."""
    self._db.close()

  def _meta(self, key: str) -> Any:
    """Returns a value of the table `meta`, None if it is not there."""
    row = self._db.execute(
        'SELECT value FROM meta WHERE key = ?', (key,)
    ).fetchone()
    return row and row[0]

  def _check_version(self) -> None:
    version = self._meta('version')
    if version != str(_VERSION):
      raise StoreError(
          f'{self._path} must be a store of version {_VERSION}, found version'
          f' {version}.'
      )

  def _write_position(self, position: Mapping[str, Any]) -> None:
    self._db.execute(
        "INSERT OR REPLACE INTO meta VALUES ('position', ?)",
        (json.dumps(position),),
    )

  def _remember(self, client: int, state) -> None:
    """Puts a state into the cache, and evicts the least recently used."""
    if client in self._cache:
      self._cached_bytes -= _num_bytes(self._cache.pop(client))
    self._cache[client] = state
    self._cached_bytes += _num_bytes(state)
    if not self._exceeds(self._max_cached_bytes):
      return
    with self._errors(), self._transaction():
      while self._exceeds(_LEFT_SHARE * self._max_cached_bytes):
        oldest, value = self._cache.popitem(last=False)
        self._cached_bytes -= _num_bytes(value)
        if oldest in self._dirty:
          self._write('working', oldest, value)

  def _exceeds(self, num_bytes: float) -> bool:
    """Whether evictable states take more than `num_bytes`."""
    return (
        self._cached_bytes > num_bytes and len(self._cache) > self._at_least
    )

  def _write(self, table: str, owner: int, state) -> None:
    self._db.execute(f'DELETE FROM {table} WHERE owner = ?', (owner,))
    self._db.executemany(f'INSERT INTO {table} VALUES (?, ?, ?, ?)', (
        (owner, number, *chunk)
        for number, leaf in enumerate(tf.nest.flatten(state))
        for chunk in enumerate(_npy_chunks(np.asarray(leaf)))
    ))

  def _read(self, table: str, owner: int) -> list[Any]:
    """Returns the leaves of an owner, an empty list if there are none."""
    rows = self._db.execute(
        f'SELECT chunk, npy FROM {table} WHERE owner = ? ORDER BY leaf, chunk',
        (owner,),
    )
    return list(_leaves(rows))

  @contextlib.contextmanager
  def _transaction(self) -> Iterator[None]:
    """Executes all statements inside, or none."""
    self._db.execute('BEGIN IMMEDIATE')
    try:
      yield
    except BaseException:
      if self._db.in_transaction:
        self._db.execute('ROLLBACK')
      raise
    self._db.execute('COMMIT')

  @contextlib.contextmanager
  def _errors(self, others: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turns SQLite's and other errors into `StoreError`s that name the file."""
    path = self._path
    kinds: tuple[type[Exception], ...] = (sqlite3.Error, *others)
    try:
      yield
    except kinds as error:
      reason = ' '.join(f'{error}'.split())[:200].rstrip('.')
      raise StoreError(
          f'{path} cannot be read or written: {reason or type(error).__name__}.'
      ) from error


def _read_position(text: str) -> dict[str, Any]:
  position = json.loads(text)
  if not isinstance(position, dict):
    raise ValueError(f'the position is {position!r}')
  return position


def _num_bytes(state) -> int:
  return sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(state))


def _own(leaf):
  """Returns an array that keeps no larger one alive; other leaves unchanged."""
  if isinstance(leaf, np.ndarray) and leaf.base is not None:
    return leaf.copy()
  return leaf


def _npy_chunks(array: np.ndarray) -> Iterator[bytes]:
  """Yields the .npy file of `array` in chunks: first the header, then data."""
  if array.dtype.hasobject or (
      array.dtype.kind == 'V' and array.dtype != _BFLOAT16
  ):
    raise TypeError(
        f'A state must have leaves of numbers, found dtype {array.dtype}.'
    )
  yield _header(array.dtype, array.shape)
  # This makes a scalar an array of one entry; the header keeps the shape ().
  data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
  for start in range(0, len(data), CHUNK_BYTES):
    yield data[start:start + CHUNK_BYTES].data


# The states of all clients have the same few headers, and NumPy takes longer to
# write or read one than SQLite takes for a small state.
@functools.lru_cache
def _header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
  header = io.BytesIO()
  np.lib.format.write_array_header_1_0(header, dict(
      descr=np.lib.format.dtype_to_descr(dtype), fortran_order=False,
      shape=shape,
  ))
  return header.getvalue()


def _leaves(rows) -> Iterator[Any]:
  """Yields the arrays (scalars for shape ()) of rows (chunk number, bytes)."""
  array: Optional[np.ndarray] = None
  offset = 0
  for number, chunk in rows:
    if number == 0:
      if array is not None:
        yield array[()]
      array, offset = np.empty(*_shape_and_dtype(chunk)), 0
    else:
      assert array is not None  # Number 0 comes first.
      flat = array.reshape(-1).view(np.uint8)
      flat[offset:offset + len(chunk)] = np.frombuffer(chunk, np.uint8)
      offset += len(chunk)
  if array is not None:
    yield array[()]


@functools.lru_cache
def _shape_and_dtype(header: bytes) -> tuple[tuple[int, ...], np.dtype]:
  file = io.BytesIO(header)
  np.lib.format.read_magic(file)
  shape, _, dtype = np.lib.format.read_array_header_1_0(file)
  # NumPy has no name for bfloat16, and writes it as two bytes without a type.
  return shape, _BFLOAT16 if dtype.kind == 'V' else dtype
