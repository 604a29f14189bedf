"""Where computations run: `fused`, `native`, `remote`."""

from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:  # It imports TensorFlow, which `binaries.worker` must not.
  from tff_pers.runtime import context

RUNTIMES = ('fused', 'native', 'remote')


def use(name: str = 'fused', *args: Any, **options: Any) -> 'context.Installed':
  """Installs a runtime as TFF's default context.

  Args:
    name: One of `RUNTIMES`.
    *args: What `use` of that runtime's module takes, e.g. the device.
    **options: As above.

  Returns:
    The installed runtime, a context manager.

  Raises:
    ValueError: If there is no such runtime.
  """
  if name not in RUNTIMES:
    raise ValueError(
        f'`name` must be one of {", ".join(RUNTIMES)}, found {name!r}.'
    )
  # Imported here: `binaries.worker` needs no TensorFlow in Python.
  # pylint: disable=g-import-not-at-top
  if name == 'fused':
    from tff_pers.runtime import fused
    return fused.use(*args, **options)
  if name == 'native':
    from tff_pers.runtime import native
    return native.use(*args, **options)
  from tff_pers.runtime import remote
  return remote.use(*args, **options)
