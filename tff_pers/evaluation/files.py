"""Files of results, which are written whole or not at all."""

import contextlib
import os
from typing import IO, Any, Iterator


@contextlib.contextmanager
def whole(path: str, mode: str = 'w') -> Iterator[IO[Any]]:
  """Opens a file that takes the place of `path` when the block has ended.

  If the block or the system fails, `path` is what it was.

  Args:
    path: The file; its folder must exist.
    mode: `w`, in UTF-8 and without changed ends of lines, or `wb`.
  """
  temporary = path + '_temp'
  options = {} if 'b' in mode else dict(encoding='utf-8', newline='')
  try:
    with open(temporary, mode, **options) as file:
      yield file
    os.replace(temporary, path)
  except BaseException:
    with contextlib.suppress(OSError):
      os.remove(temporary)
    raise


def write_text(path: str, text: str) -> None:
  """Writes a text, whole or not at all."""
  with whole(path) as file:
    file.write(text)
