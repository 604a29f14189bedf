"""The lock of a study's journal, which the kernel releases, too."""

import fcntl
import os
from typing import Optional


class JournalLock:
  """The lock of Optuna's journal, which is held on the file itself.

  A process that is killed while it writes leaves half a line, behind which
  nobody could read what others append; whoever comes next cuts it off.
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
    """Lets others have it."""
    assert self._descriptor is not None  # It has been acquired.
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
