"""Locks a study's journal; the kernel releases locks of dead processes."""

import fcntl
import os
from typing import Optional


class JournalLock:
  """A lock for Optuna's journal, held on the journal file itself.

  A process killed while writing leaves half a line, after which entries that
  others append would be unreadable; the next to lock the file removes it.
  """

  def __init__(self, path: str):
    self._path = path
    self._descriptor: Optional[int] = None

  def acquire(self) -> bool:
    """Waits for the lock."""
    descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    _cut_half_line(descriptor)
    self._descriptor = descriptor
    return True

  def release(self) -> None:
    """Releases the lock."""
    assert self._descriptor is not None  # It has been acquired.
    os.close(self._descriptor)
    self._descriptor = None


def _cut_half_line(descriptor: int) -> None:
  """Removes everything after the last newline."""
  size = os.fstat(descriptor).st_size
  if not size or os.pread(descriptor, 1, size - 1) == b'\n':
    return
  # Lines are much shorter than this.
  start = max(0, size - 2 ** 20)
  tail = os.pread(descriptor, size - start, start)
  os.ftruncate(descriptor, start + tail.rfind(b'\n') + 1)
