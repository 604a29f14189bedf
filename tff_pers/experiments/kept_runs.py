"""Keeps complete runs where other programs find them (`--trials_dir`).

The key of a run is a hash of its method with options, all its flags, the data
of its clients and the source code. A program that needs a run with the same key
copies it instead of training again.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import pathlib
import shutil
import sys
from typing import Any, Iterator, Optional

import numpy as np
import tensorflow as tf

from tff_pers.config import methods
from tff_pers.core import locks
from tff_pers.data import on_demand
from tff_pers.data import tasks
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import runner

# In the configuration of a run: its key when it was begun.
_KEY = 'trial_key'
# Flags that say where data and results are, not what they are.
_PLACES = ('data_dir', 'output_dir')
# Fields of a task with what clients hold.
_OF_CLIENTS = (
    'train', 'test', 'validation', 'groups', 'tiers', 'client_names',
    'global_test', 'optimum',
)
FLAG = flags.own_flag(
    'trials_dir', '',
    'Folder in which tune and choose keep complete runs for one another: a run'
    ' with the same flags, data and code is copied from there, not trained.'
    ' Empty: none.',
)
_INSTALLED = (sys.prefix, sys.base_prefix)


def key(experiment: experiment_lib.Experiment) -> str:
  """Returns the key of a run, a text of 32 hexadecimal digits."""
  own = {
      name: value for name, value in experiment.config['flags'].items()
      if name not in _PLACES
  }
  text = json.dumps(
      [experiment.variant, own, experiment.config['versions']], sort_keys=True
  )
  found = hashlib.sha256(text.encode())
  found.update(_code(frozenset(
      registry.get(name).build.__module__
      for registry in (methods, tasks) for name in registry.names()
  )))
  for part in _data(experiment):
    found.update(part)
  return found.hexdigest()[:32]


@contextlib.contextmanager
def shared(
    experiment: experiment_lib.Experiment, folder: str, kept: Optional[str]
) -> Iterator[experiment_lib.Experiment]:
  """Copies the run to its folder before the block, if it is kept.

  After the block, the run is kept, also if it diverged. A run that was begun
  without this function, or with other code or data, is not. Without a folder of
  kept runs (None or ''), nothing is copied.

  Yields:
    The experiment to run, whose configuration records the key.
  """
  if not kept:
    yield experiment
    return
  own = key(experiment)
  place = os.path.join(flags.resolve_path(kept), own)
  experiment = dataclasses.replace(
      experiment, config={**experiment.config, _KEY: own}
  )
  is_begun = os.path.exists(os.path.join(folder, results.CONFIG))
  if os.path.exists(place) and not is_begun:
    shutil.copytree(
        place, folder, dirs_exist_ok=True,
        ignore=shutil.ignore_patterns(results.CONFIG),
    )
    # Last, because a folder with a configuration holds a run. Paths of the data
    # may differ.
    config = results.read_config(place)
    results.write_config(folder, {**config, **experiment.config})
  try:
    yield experiment
  except runner.Diverged:
    _keep(folder, place)
    raise
  _keep(folder, place)


def _keep(folder: str, place: str) -> None:
  """Keeps a copy of a run, unless there is one or the run has another key."""
  own = results.read_config(folder).get(_KEY)
  if os.path.exists(place) or own != os.path.basename(place):
    return
  kept = os.path.dirname(place)
  os.makedirs(kept, exist_ok=True)
  with locks.held(kept):
    # A process that was killed may have left a part of a copy.
    shutil.rmtree(f'{place}.part', ignore_errors=True)
    shutil.copytree(folder, f'{place}.part')
    if not os.path.exists(place):
      os.rename(f'{place}.part', place)


def _data(experiment: experiment_lib.Experiment) -> Iterator[bytes]:
  """Yields what clients hold, or their files if they are read on demand."""
  task, unseen = experiment.task, experiment.unseen
  parts: list[Any] = [getattr(task, name) for name in _OF_CLIENTS]
  parts += [unseen.train, unseen.test]
  if experiment.plan.schedule is not None:
    parts.append(experiment.plan.schedule)
  if any(isinstance(part, on_demand.OnDemand) for part in parts):
    given = experiment.config['flags']['data_dir']
    for path in _files(flags.resolve_path(given)) if given else ():
      stat = os.stat(path)
      yield _of_file(path, stat.st_size, stat.st_mtime_ns)
    return
  for leaf in tf.nest.flatten(parts):
    array = np.asarray(leaf)
    yield f'{array.dtype} {array.shape} '.encode()
    # None and texts of any length are objects.
    is_object = array.dtype == object
    yield repr(array.tolist()).encode() if is_object else array.tobytes()


def _files(path: str) -> list[str]:
  """Returns a file, or all files in a folder."""
  if os.path.isfile(path):
    return [path]
  return sorted(str(p) for p in pathlib.Path(path).rglob('*') if p.is_file())


@functools.lru_cache(maxsize=None)
def _of_file(path: str, size: int, changed: int) -> bytes:
  """Returns the hash of a file, which is read once while it is the same."""
  del size, changed
  found = hashlib.sha256()
  with open(path, 'rb') as file:
    while block := file.read(2 ** 20):
      found.update(block)
  return found.digest()


@functools.lru_cache(maxsize=None)
def _code(registered: frozenset[str]) -> bytes:
  """Returns the hash of the source of this package and of all plug-ins.

  `registered` are the modules that register methods and tasks. What these
  import counts unless it is installed.
  """
  packages = {name.partition('.')[0] for name in registered} | {'tff_pers'}
  paths: set[str] = set()
  for name, module in list(sys.modules.items()):
    path, top = getattr(module, '__file__', None) or '', name.partition('.')[0]
    if not path.endswith('.py') or top in ('__main__', 'binaries'):
      continue
    if name in packages and hasattr(module, '__path__'):
      paths.update(_files(os.path.dirname(path)))
    elif top in packages or not path.startswith(_INSTALLED):
      paths.add(path)  # What is not installed, a plug-in may have imported.
  found = hashlib.sha256()
  for path in sorted(path for path in paths if path.endswith('.py')):
    stat = os.stat(path)
    found.update(_of_file(path, stat.st_size, stat.st_mtime_ns))
  return found.digest()
