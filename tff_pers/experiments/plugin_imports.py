"""Methods and tasks of other packages, imported before flags are known.

They bring flags with them, so that this happens before flags are parsed.
"""

import functools
import shlex
import sys
from typing import Sequence

from tff_pers import plugins
from tff_pers.experiments import import_stubs
from tff_pers.experiments import startup


@functools.lru_cache(maxsize=None)
def load_installed() -> None:
  """Registers what installed packages have; says once what is wrong.

  Raises:
    ImportError: If something is wrong while libraries have stand-ins, which may
      be the reason: the help is then tried again without.
  """
  problems = plugins.load()
  if problems and import_stubs.are_in_place():
    raise ImportError(problems[0])
  for problem in problems:
    print(f'An installed plug-in was left out. {problem}', file=sys.stderr)


def import_asked(argv: Sequence[str]) -> None:
  """Imports the modules of `--import`.

  Args:
    argv: The command line, not parsed yet.

  Raises:
    ValueError: If one cannot be imported.
  """
  plugins.import_named(startup.value_of(argv[1:], 'import'))


def require(modules: str, path: str) -> None:
  """Refuses modules that a file names unless they are imported already.

  A file may come from anybody, and importing a module runs its code: that must
  be asked for on the command line.

  Args:
    modules: Their names, with commas between them.
    path: The file.

  Raises:
    ValueError: If one is not there.
  """
  for name in filter(None, (part.strip() for part in modules.split(','))):
    if name not in sys.modules:
      raise ValueError(
          f'`import` must name the modules of {path}, because no file decides'
          f' what code runs, found no {name!r}. Tip: if you trust them, add'
          f' --import={shlex.quote(modules)}.'
      )
