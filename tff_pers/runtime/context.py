"""A runtime as TFF's default context, for good or for a `with` block."""

from typing import Callable

import tensorflow_federated as tff


class Installed:
  """A runtime that has become TFF's default context.

  What every `use` of this folder returns. Ignored, the runtime stays; as a
  context manager it is closed at the end, and the one before comes back:

      with remote.use(['host:8000']):
        process.next(...)
  """

  def __init__(self, context, close: Callable[[], None] = lambda: None):
    """Installs `context`; `close` is called at the end of a `with` block."""
    self._before = tff.framework.get_context_stack().current
    self._close = close
    tff.framework.set_default_context(context)

  def __enter__(self):
    return self

  def __exit__(self, *error):
    tff.framework.set_default_context(self._before)
    self._close()
