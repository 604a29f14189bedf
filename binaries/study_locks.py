"""Locks that the kernel releases when their process ends, however it ends.

A lock is held on a file or folder that exists, so that nothing is left behind.
"""

import contextlib
import fcntl
import os
from typing import Iterator, Optional


class Lock:
  """A lock that is held until `release`, or until the process ends.

  `with` releases it in the end.
  """

  def __init__(self, descriptor: int):
    self._descriptor = descriptor

  def release(self) -> None:
    """Lets others have it."""
    os.close(self._descriptor)

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    self.release()


def attempt(path: str) -> Optional[Lock]:
  """Returns the lock on a file or folder, None if another holds it."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except OSError as error:
    os.close(descriptor)
    if isinstance(error, BlockingIOError):
      return None
    raise
  return Lock(descriptor)


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
  """Waits for the lock on a file or folder, and holds it."""
  descriptor = os.open(path, os.O_RDONLY)
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
  finally:
    os.close(descriptor)


class JournalLock:
  """The lock of Optuna's journal, which is held on the file itself.

  A process that is killed while it writes leaves half a line, behind which
  nobody could read what others append; whoever comes next cuts it off.
  """

  def __init__(self, path: str):
    self._path, self._descriptor = path, None

  def acquire(self) -> bool:
    """Waits for the lock."""
    descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _cut_half_line(descriptor)
    self._descriptor = descriptor
    return True

  def release(self) -> None:
    """Lets others have it."""
    os.close(self._descriptor)
    self._descriptor = None


def _cut_half_line(descriptor: int) -> None:
  """Cuts off what stands behind the last end of a line."""
  size = os.fstat(descriptor).st_size
  if not size or os.pread(descriptor, 1, size - 1) == b'\n':
    return
  # Lines are short beside this.
  start = max(0, size - 2 ** 20)
  tail = os.pread(descriptor, size - start, start)
  os.ftruncate(descriptor, start + tail.rfind(b'\n') + 1)
