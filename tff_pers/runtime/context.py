"""Installs a runtime as TFF's default context, also for a `with` block."""

import contextlib
from typing import Any, Callable

from tff_pers import tff


class Installed:
  """A runtime that was installed as TFF's default context.

  Every `use` of this package returns one. Ignored, the runtime stays installed;
  as a context manager it is closed at the end, and the previous one restored:

      with remote.use(['host:8000']):
        process.next(...)

  If other code, such as `tff.program`, has installed a context for a `with`
  block, that block takes precedence and keeps its context.
  """

  def __init__(self, context: Any, close: Callable[[], None] = lambda: None):
    """Installs `context`; `close` is called at the end of a `with` block."""
    stack = tff.framework.get_context_stack()
    # Not `current`, which may belong to another `with` block.
    self._before = stack._stack[0]  # pylint: disable=protected-access
    self.context, self._close = context, close
    self._block = contextlib.ExitStack()
    tff.framework.set_default_context(context)

  def __enter__(self):
    stack = tff.framework.get_context_stack()
    if stack.current is not self.context:
      self._block.enter_context(stack.install(self.context))
    return self

  def __exit__(self, *error):
    self._block.close()
    tff.framework.set_default_context(self._before)
    self._close()
