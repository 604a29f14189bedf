"""Whether a folder can hold results, asked before any work is done."""

import os
import tempfile


def check(path: str) -> None:
  """Raises if no file can be written in `path`; leaves nothing behind.

  Args:
    path: An absolute path. Folders that are not there yet could be made.

  Raises:
    ValueError: Names what stands in the way.
  """
  nearest = path
  while not os.path.lexists(nearest):
    nearest = os.path.dirname(nearest)
  if not os.path.isdir(nearest):
    raise ValueError(
        '`output_dir` must be a folder, or a path at which one can be made,'
        f' found {nearest}, which is no folder.'
    )
  try:
    # Permissions do not tell: they do not bind root, and a file system may be
    # read-only or full. On Linux the file never has a name.
    with tempfile.TemporaryFile(dir=nearest):
      pass
  except OSError as error:
    raise ValueError(
        f'`output_dir` must be a folder that can be written, found {nearest}'
        f' ({error.strerror}).'
    ) from error
