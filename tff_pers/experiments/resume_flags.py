"""Records a program's flags, and checks them when it is resumed."""

import itertools
import json
import os
from typing import Any, Iterable, Iterator, Mapping, Sequence

from tff_pers.core import files
from tff_pers.evaluation import damaged
from tff_pers.experiments import flags


def check(
    path: str, given: Mapping[str, Any], *, free: Sequence[str] = (),
    growing: str = '',
) -> None:
  """Refuses flags that differ from those that a folder was started with.

  Without a file of those flags, any are accepted. Flags include the program's
  defaults; those in `free` may differ, the number of `growing` may increase.

  Raises:
    flags.UsageError: Names the first flag that differs, and both values.
    damaged.DamagedError: If the file was not written by `write`.
  """
  if not os.path.exists(path):
    return
  saved = read(path)
  if 0 < saved.get(growing, 0) < given.get(growing, 0):
    free = [*free, growing]
  for name in sorted({*saved, *given} - set(free)):
    if saved.get(name) != given.get(name):
      raise flags.UsageError(
          f'`--{name}` must be {_shown(saved, name)} as in'
          f' {os.path.basename(path)} to resume in this folder, found'
          f' {_shown(given, name)}. Tip: another --output_dir.'
      )


def own_folder(
    folders: Iterable[str], record: str, given: Mapping[str, Any]
) -> str:
  """Returns the first folder that is free or was started with these flags.

  `record` is the name of the file that `write` writes in each folder.
  """
  paths = ((folder, os.path.join(folder, record)) for folder in folders)
  return next(
      folder for folder, path in paths
      if not os.path.exists(path) or read(path) == given
  )


def numbered(folder: str) -> Iterator[str]:
  """Yields `folder`, `folder_2`, `folder_3`, ..."""
  yield folder
  for number in itertools.count(2):
    yield f'{folder}_{number}'


def read(path: str) -> dict[str, Any]:
  """Returns what `write` wrote.

  Raises:
    damaged.DamagedError: If the file was not written by `write`.
  """
  with damaged.reading(path, damaged.RUN_AGAIN):
    with open(path, encoding='utf-8') as file:
      saved = json.load(file)
    if not isinstance(saved, dict):
      raise ValueError(f'{saved!r:.40}')
  return saved


def write(path: str, given: Mapping[str, Any]) -> None:
  """Writes the flags atomically; makes the folder."""
  os.makedirs(os.path.dirname(path), exist_ok=True)
  files.write_text(path, json.dumps(dict(given), indent=2) + '\n')


def _shown(values: Mapping[str, Any], name: str) -> str:
  return repr(values[name]) if name in values else 'left out'
