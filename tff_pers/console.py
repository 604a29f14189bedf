"""The console programs, `tff-pers-train` and the others.

The programs and the baselines are packages with common names, `binaries` and
`baselines`. Another package may contain a folder of that name, and so may the
user's current directory if PYTHONPATH has it. So before a program is imported,
the folder of this package is put in front of such places. The program imports
`binaries` and `baselines` by name, so this file is part of neither.
"""

import os
import pathlib
import runpy
import sys

_OURS = ('baselines', 'binaries')
# Packages that only the programs import: the extra `programs`.
_OF_PROGRAMS = (
    'h5py', 'matplotlib', 'optuna', 'pandas', 'psutil', 'sklearn', 'yaml',
)
PROGRAMS = (
    'choose', 'compare', 'compare_tuned', 'cost', 'evaluate', 'pareto', 'plot',
    'predict', 'report', 'robustness', 'sweep_splits', 'train', 'tune',
    'worker',
)


def put_ours_first(path: list[str], root: str) -> None:
  """Puts a folder before the first one that contains modules of our names.

  Child processes that are spawned get a copy of the path.

  Args:
    path: `sys.path`, changed in place.
    root: The folder that holds our packages.
  """
  for position, folder in enumerate(path):
    # '' is the current directory.
    folder = os.path.abspath(folder)
    if folder == os.path.abspath(root):
      return
    if any(
        os.path.exists(os.path.join(folder, name + ending))
        for name in _OURS for ending in ('', '.py')
    ):
      path.insert(position, root)
      return


def _run(program: str) -> None:
  root = str(pathlib.Path(__file__).resolve().parents[1])
  put_ours_first(sys.path, root)
  try:
    # As `python -m binaries.train` does.
    runpy.run_module(f'binaries.{program}', run_name='__main__', alter_sys=True)
  except ModuleNotFoundError as error:
    if error.name not in _OF_PROGRAMS:
      raise
    sys.exit(
        f'The programs need {error.name}, which is not installed. Tip: install'
        " tff_pers with its extra, as in pip install '.[programs]'."
    )


def __getattr__(name: str):
  """Returns the entry point of a program: `tff_pers.console:train`."""
  if name not in PROGRAMS:
    raise AttributeError(f'There is no program {name}.')
  return lambda: _run(name)
