"""Locks that the kernel releases when their process ends, however it ends.

A lock is held on a file or folder that exists, so that nothing is left behind.
"""

import contextlib
import fcntl
import os
from typing import Iterator, Optional


class Lock:
  """A lock that is held until `release`, or until the process ends.

  `with` releases it at the end.
  """

  def __init__(self, descriptor: int):
    self._descriptor = descriptor

  def release(self) -> None:
    """Releases the lock."""
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
