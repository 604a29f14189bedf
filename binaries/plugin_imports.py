"""Methods and tasks of other packages, imported before flags are known.

They bring flags with them, so that this happens before flags are parsed.
"""

import contextlib
import functools
import sys
from typing import Callable, Sequence

from binaries import config_files
from binaries import stand_ins
from binaries import startup
from tff_pers import plugins


@functools.lru_cache(maxsize=None)
def load_installed() -> None:
  """Registers what installed packages have; says once what is wrong.

  Raises:
    ImportError: If something is wrong while libraries have stand-ins, which may
      be the reason: the help is then tried again without.
  """
  problems = plugins.load()
  if problems and stand_ins.are_in_place():
    raise ImportError(problems[0])
  for problem in problems:
    print(f'An installed plug-in was left out. {problem}', file=sys.stderr)


def import_asked(
    argv: Sequence[str], resolve_path: Callable[[str], str] = str
) -> None:
  """Imports the modules of `--import`, on the command line or in `--config`.

  Args:
    argv: The command line, not parsed yet.
    resolve_path: Returns the path that a flag means.

  Raises:
    ValueError: If one cannot be imported.
  """
  plugins.import_named(asked(argv, resolve_path))


def asked(
    argv: Sequence[str], resolve_path: Callable[[str], str] = str
) -> str:
  """Returns the value of `--import`; see `import_asked`."""
  modules, config = (
      startup.value_of(argv[1:], name) for name in ('import', 'config')
  )
  if modules or not config:
    return modules
  # What is wrong with the file is reported where it is read for its flags.
  with contextlib.suppress(ValueError):
    return config_files.modules(resolve_path(config))
  return ''
