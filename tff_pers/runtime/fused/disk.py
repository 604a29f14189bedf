"""A folder of entries that later processes read, such as compiled graphs.

An entry is a description in JSON and bytes; reading one executes nothing. Only
the user may have access to the folder, because an entry decides what is
computed. Whatever is wrong with the folder or an entry costs one line
in the log, and the entry is made again.
"""

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from typing import Any, Mapping, NamedTuple, Optional

from absl import logging

# Environment variable with the folder, or with `OFF`, see `path_of_programs`.
VARIABLE = 'TFF_PERS_COMPILE_CACHE'
OFF = 'off'
# A build and a round of PERM take 2.2 MB.
_MOST_BYTES = 2**28
# Of an entry, and of one that is being written.
_NAME = re.compile(r'[0-9a-f]{64}(_\w+)?')


class Entry(NamedTuple):
  """What is kept under a key.

  Attributes:
    description: Values of JSON by name.
    content: Bytes, whose meaning is the caller's.
  """

  description: Mapping[str, Any]
  content: bytes = b''


class Folder:
  """Entries by key in files of a folder, those used last."""

  def __init__(self, path: str, most_bytes: int = _MOST_BYTES):
    """Makes the folder; it is ignored if anyone else may write or read there.

    If it is larger than `most_bytes`, what was not used for longest goes.
    """
    self._path: Optional[str] = path
    self._most_bytes = most_bytes
    try:
      os.makedirs(path, mode=0o700, exist_ok=True)
      found = os.lstat(path)
      if not stat.S_ISDIR(found.st_mode) or not _is_own(found, 0o077):
        raise ValueError('it must be of this user and of mode 0700')
    except (OSError, ValueError) as error:
      self._ignore(error)

  def get(self, key: str) -> Optional[Entry]:
    """Returns an entry, None without a valid one; notes that it is used."""
    if self._path is None:
      return None
    path = os.path.join(self._path, key)
    try:
      entry = _read(path, key)
      with contextlib.suppress(OSError):  # The folder may be read-only.
        os.utime(path)
      return entry
    except FileNotFoundError:
      return None
    except (OSError, ValueError) as error:
      logging.warning('The compiled graph %s is made again: %s.', path, error)
      return None

  def put(self, key: str, entry: Entry) -> None:
    """Writes an entry, completely or not at all, and makes room."""
    if self._path is None:
      return
    description = json.dumps(entry.description).encode()
    rest = description + b'\n' + entry.content
    if 4 * len(rest) > self._most_bytes:
      return  # It would make all others go.
    try:
      # Several processes may write the same entry: each has its own file.
      descriptor, path = tempfile.mkstemp(dir=self._path, prefix=f'{key}_')
      try:
        with open(descriptor, 'wb') as file:
          file.write(_checksum(key, rest) + b'\n' + rest)
        os.replace(path, os.path.join(self._path, key))
      except OSError:
        with contextlib.suppress(FileNotFoundError):
          os.remove(path)
        raise
      self._make_room()
    except FileNotFoundError:
      pass  # Another process has made room.
    except OSError as error:
      self._ignore(error)

  def _make_room(self) -> None:
    """Removes what was not used for longest, parts of killed processes too."""
    assert self._path is not None
    found = []
    for each in os.scandir(self._path):
      if not _NAME.fullmatch(each.name):
        continue  # It is somebody else's.
      try:
        status = each.stat(follow_symlinks=False)
        found.append((status.st_mtime_ns, status.st_size, each.path))
      except FileNotFoundError:
        pass  # Another process has removed it.
    size = sum(size for _, size, _ in found)
    for _, bytes_of_file, path in sorted(found):
      if size <= self._most_bytes:
        break
      with contextlib.suppress(FileNotFoundError):
        os.remove(path)
      size -= bytes_of_file

  def _ignore(self, error) -> None:
    logging.warning(
        'The folder %s keeps no compiled graphs: %s.', self._path, error
    )
    self._path = None


def path_of_programs() -> Optional[str]:
  """Returns the folder that programs use, None for none.

  It is that of `--compile_cache`, which the processes that a program starts see
  in their environment, or else one among this user's caches.
  """
  chosen = os.environ.get(VARIABLE)
  if chosen:
    return None if chosen == OFF else chosen
  caches = os.environ.get('XDG_CACHE_HOME', '')
  if not os.path.isabs(caches):  # Others are to be ignored.
    caches = os.path.expanduser('~/.cache')
  # A user without a home keeps nothing.
  return os.path.join(caches, 'tff_pers') if os.path.isabs(caches) else None


def _is_own(status: os.stat_result, forbidden: int) -> bool:
  """Whether a file is this user's, and its mode has no forbidden bits."""
  return status.st_uid == os.geteuid() and not status.st_mode & forbidden


def _read(path: str, key: str) -> Entry:
  """Returns the entry in a file.

  Raises:
    OSError: If the file cannot be read.
    ValueError: If it is not what this user has written under this key.
  """
  with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), 'rb') as file:
    if not _is_own(os.fstat(file.fileno()), 0o022):
      raise ValueError('it must be of this user')
    head, _, rest = file.read().partition(b'\n')
  if head != _checksum(key, rest):
    raise ValueError('its checksum differs')
  description, _, content = rest.partition(b'\n')
  return Entry(json.loads(description), content)


def _checksum(key: str, rest: bytes) -> bytes:
  """Returns the first line of an entry, which an entry of another key lacks."""
  return hashlib.sha256(key.encode() + b'\n' + rest).hexdigest().encode()
