"""Checks that an output folder is writable, and locks it."""

import errno
import os
import tempfile

from tff_pers.core import locks


def check(path: str) -> None:
  """Raises if no file can be written to a path; leaves nothing behind.

  Missing folders of the absolute path count as writable if they could be made.

  Raises:
    ValueError: Names the path that prevents it.
  """
  nearest = path
  while not os.path.lexists(nearest):
    nearest = os.path.dirname(nearest)
  if not os.path.isdir(nearest):
    raise ValueError(
        '`output_dir` must be a folder, or a path at which one can be made,'
        f' found {nearest}, which is not a folder.'
    )
  try:
    # Permission bits are not enough: root ignores them, and a file system may
    # be read-only or full. On Linux this file never has a name.
    with tempfile.TemporaryFile(dir=nearest):
      pass
  except OSError as error:
    raise ValueError(
        f'`output_dir` must be a folder that can be written, found {nearest}'
        f' ({error.strerror}).'
    ) from error


class FolderLock:
  """Keeps other processes out of a folder while a `with` block writes to it.

  The folder is made if needed, and removed again if the block leaves it empty.
  The kernel releases the lock when this process ends, however it ends.
  """

  def __init__(self, path: str):
    """Raises ValueError if another process holds the folder."""
    self._made, self._lock = _make(path), None
    try:
      self._lock = locks.attempt(path)
    except OSError as error:
      # A network file system without locks: other processes cannot be excluded.
      if error.errno not in (errno.EBADF, errno.ENOLCK, errno.ENOTSUP):
        raise
    else:
      if self._lock is None:
        raise ValueError(
            '`output_dir` must be a folder that no other process writes to,'
            f' found one writing to {path}. Tip: wait for it, or use another'
            ' folder.'
        )

  def __enter__(self):
    return self

  def __exit__(self, kind, error, trace):
    try:
      for path in self._made:
        os.rmdir(path)
    except OSError:
      pass  # It holds results.
    if self._lock is not None:
      self._lock.release()


def _make(path: str) -> list[str]:
  """Makes a folder; returns the newly made ones, the innermost first."""
  missing = []
  while not os.path.isdir(path):
    missing.append(path)
    path = os.path.dirname(path)
  for path in reversed(missing):
    os.makedirs(path, exist_ok=True)  # Another process may have just made it.
  return missing
