"""Runtimes that execute TFF computations: `fused`, `native`, `remote`."""

from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:  # Imports TensorFlow, which `binaries.worker` must not do.
  from tff_pers.runtime import context

RUNTIMES = ('fused', 'native', 'remote')


def use(name: str = 'fused', *args: Any, **options: Any) -> 'context.Installed':
  """Installs a runtime as TFF's default context.

  Args:
    name: One of `RUNTIMES`.
    *args: Arguments of `use` of that runtime's module, e.g. the device.
    **options: Keyword arguments of that `use`.

  Returns:
    The installed runtime, a context manager.

  Raises:
    ValueError: If the runtime is unknown.
  """
  if name not in RUNTIMES:
    raise ValueError(
        f'`name` must be one of {", ".join(RUNTIMES)}, found {name!r}.'
    )
  # Imported here, because `binaries.worker` needs no TensorFlow in Python.
  # pylint: disable=g-import-not-at-top
  if name == 'fused':
    from tff_pers.runtime import fused
    return fused.use(*args, **options)
  if name == 'native':
    from tff_pers.runtime import native
    return native.use(*args, **options)
  from tff_pers.runtime import remote
  return remote.use(*args, **options)
