"""Methods and tasks of other packages.

An installed package names the modules that register them:

    [options.entry_points]
    tff_pers.methods =
        trimmed_prox = my_package.trimmed_prox
    tff_pers.tasks =
        moons = my_package.moons

Programs find these automatically; a script calls `plugins.load()`. For code
that is not installed, name it to a program: `--import=my_package.trimmed_prox`.
"""

from tff_pers.config import discovery
from tff_pers.config import entry_points
from tff_pers.config import methods
from tff_pers.data import tasks


def load() -> list[str]:
  """Imports what installed packages have registered.

  One broken package must not stop all programs, so this function returns what
  is wrong.

  Returns:
    A sentence for every entry point whose module cannot be imported, or does
    not register its name.
  """
  problems = []
  for point in entry_points.of_plugins():
    known = methods if point.group == entry_points.GROUPS[0] else tasks
    try:
      discovery.import_named(point.value.partition(':')[0])
      if point.name not in known.names():
        raise ImportError(
            f'Module {point.value} must register the name {point.name}, found'
            ' no such name afterwards.'
        )
    except ImportError as error:
      problems.append(f'`{point.name}` of {point.group}: {error}')
  return problems


def import_named(text: str) -> None:
  """Imports modules that register methods or tasks.

  Args:
    text: Their names, with commas between them.

  Raises:
    ValueError: If one is not a name, or cannot be imported for any reason.
  """
  for name in filter(None, (part.strip() for part in text.split(','))):
    if not all(part.isidentifier() for part in name.split('.')):
      raise ValueError(
          '`import` must name modules, as my_package.my_method, found'
          f' {name!r}.'
      )
    try:
      discovery.import_named(name)
    except ImportError as error:
      raise ValueError(f'`import`: {error}') from error
