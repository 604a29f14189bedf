"""A runtime as TFF's default context, for good or for a `with` block."""

import contextlib
from typing import Any, Callable

from tff_pers import tff


class Installed:
  """A runtime that has become TFF's default context.

  What every `use` of this folder returns. Ignored, the runtime stays; as a
  context manager it is closed at the end, and the one before comes back:

      with remote.use(['host:8000']):
        process.next(...)

  Within a block that somebody else has installed a context for, as `tff.program`
  has it, the `with` block comes first, and leaves that context as it is.
  """

  def __init__(self, context: Any, close: Callable[[], None] = lambda: None):
    """Installs `context`; `close` is called at the end of a `with` block."""
    stack = tff.framework.get_context_stack()
    # Not `current`, which may be of somebody's `with` block.
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
