"""`--quiet`: shows only errors and the last line of output."""

import contextlib
import io
import logging
import os
import sys
from typing import Iterator, TextIO, cast


class _LastLine(io.TextIOBase):
  """A text stream that keeps its last line."""

  def __init__(self):
    super().__init__()
    self.line = ''
    self._open = ''

  def write(self, text: str) -> int:
    *ended, self._open = (self._open + text).split('\n')
    for line in ended:
      self.line = line or self.line
    return len(text)


def begin() -> None:
  """Captures what is printed from now on, until `scope` ends."""
  # Implements as much of `TextIO` as is needed.
  sys.stdout = cast(TextIO, _LastLine())
  logging.getLogger('absl').addFilter(_is_no_warning)


def is_begun() -> bool:
  """Whether output is being captured."""
  return isinstance(sys.stdout, _LastLine)


@contextlib.contextmanager
def silence() -> Iterator[None]:
  """Keeps output and warnings from the terminal; errors still show."""
  logger = logging.getLogger('absl')
  is_shown = lambda record: _is_no_warning(record)  # A new object, to remove.
  logger.addFilter(is_shown)
  try:
    with open(os.devnull, 'w', encoding='utf-8') as nowhere:
      with contextlib.redirect_stdout(nowhere):
        yield
  finally:
    logger.removeFilter(is_shown)


@contextlib.contextmanager
def scope() -> Iterator[None]:
  """Ends the capture that `begin` started; prints its last line on success."""
  before = sys.stdout
  try:
    yield
    kept = sys.stdout
    if isinstance(kept, _LastLine) and kept is not before and kept.line:
      print(kept.line, file=before)
  finally:
    if sys.stdout is not before:
      sys.stdout = before
      logging.getLogger('absl').removeFilter(_is_no_warning)


def _is_no_warning(record: logging.LogRecord) -> bool:
  # Warnings go to the run's log only.
  return record.levelno != logging.WARNING
