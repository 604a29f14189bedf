"""Imports methods and tasks of other packages before flags are parsed.

They define flags, so they must be imported before flags are parsed.
"""

import functools
import shlex
import sys

from tff_pers import plugins
from tff_pers.experiments import import_stubs


@functools.lru_cache(maxsize=None)
def load_installed() -> None:
  """Registers plug-ins of installed packages; reports problems once.

  Raises:
    ImportError: If there is a problem while libraries are replaced by stubs,
      which may be its cause: the help is then retried without stubs.
  """
  problems = plugins.load()
  if problems and import_stubs.are_in_place():
    raise ImportError(problems[0])
  for problem in problems:
    print(f'An installed plug-in was left out. {problem}', file=sys.stderr)


def require(modules: str, path: str) -> None:
  """Refuses modules named by a file unless they are already imported.

  A file may come from anybody, and importing a module runs its code, so imports
  must be requested on the command line. Names have commas between them.

  Raises:
    ValueError: If a module is not imported.
  """
  for name in filter(None, (part.strip() for part in modules.split(','))):
    if name not in sys.modules:
      raise ValueError(
          f'`import` must name the modules of {path}, because a file must not'
          f' decide what code runs, found no {name!r}. Tip: if you trust them,'
          f' add --import={shlex.quote(modules)}.'
      )
