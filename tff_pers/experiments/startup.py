"""Prepares a program before it imports TensorFlow."""

import gc
import importlib
import os
import sys
from typing import Any, Callable, Optional, Sequence

from tff_pers.config import entry_points
from tff_pers.experiments import import_stubs

# Packages that declarations do not need. Omitting one only makes --help slower.
_LIBRARIES = (
    'google', 'grpc', 'keras', 'matplotlib', 'optuna', 'pandas', 'pyarrow',
    'scipy', 'sklearn', 'tensorflow', 'tensorflow_federated',
)
_OURS = ('baselines', 'binaries', 'tff_pers')


def program(name: str, module: str) -> Any:
  """Returns `main` of a module: the whole script of a program.

  Called with the script's `__name__`. As `__main__`, runs the program instead,
  and answers `--help` without TensorFlow.
  """
  load = lambda: importlib.import_module(module).main
  # TensorFlow reads this when it is imported.
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  if name != '__main__':
    return load()
  # NumPy reads this. Its threads wait busily after every small product, for
  # half of the CPU seconds that a run's figures take.
  os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')
  if wants_help(sys.argv):
    code = _answer(load)
    if code is not None:
      sys.exit(code)
  # What imports make is no garbage; until they are done (`flags.run`), looking
  # for some would take a second.
  gc.disable()
  sys.exit(load()(sys.argv))


def wants_help(argv: Sequence[str]) -> bool:
  """Whether one of the arguments asks for help."""
  return any(word in ('--help', '-h', '-help', '--helpfull') for word in argv)


def take(argv: Sequence[str], name: str) -> tuple[str, list[str]]:
  """Returns the last value of a flag, '' if not given, and all other words.

  The words of the command line have not been parsed yet.
  """
  found, rest, words = '', [], iter(argv)
  for word in words:
    flag, equals, value = word.lstrip('-').partition('=')
    if word.startswith('-') and flag == name:
      found = value if equals else next(words, '')
    else:
      rest.append(word)
  return found, rest


def _plugins(argv: Sequence[str]) -> list[str]:
  """Returns the top-level packages of plug-ins, see `tff_pers.plugins`."""
  values = [point.value for point in entry_points.of_plugins()]
  values += take(argv, 'import')[0].split(',')
  return [value.strip().partition('.')[0] for value in values]


def _answer(load: Callable[[], Any]) -> Optional[int]:
  """Prints the help of a program that is loaded; returns its exit code.

  Returns None if a module (such as a user's method) cannot be imported with
  stubs; then nothing was printed, and TensorFlow is needed.
  """
  with import_stubs.in_place_of(_LIBRARIES, (*_OURS, *_plugins(sys.argv))):
    try:
      return load()(sys.argv)
    except Exception:  # pylint: disable=broad-except
      return None
