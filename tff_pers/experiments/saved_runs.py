"""Reads and checks the files of a run that is to be resumed."""

import os
from typing import Any, Mapping, Optional

from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.evaluation import damaged
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import plugin_imports
from tff_pers.simulation import position as position_lib
from tff_pers.simulation import store


def read(folder: str, table: Mapping[str, flags.Flag]) -> dict[str, Any]:
  """Returns `config.json` of a run; checks that its other files are readable.

  Raises:
    flags.UsageError: If it was started with `--import` of modules that are not
      imported, or by an earlier form of its method.
    damaged.DamagedError: Names the file that is damaged.
  """
  config = dict(results.read_run(folder).config)
  path = os.path.join(folder, results.CONFIG)
  if isinstance(config.get('given'), dict):
    with flags.usage_errors():
      plugin_imports.require(str(config['given'].get('import', '')), path)
  with damaged.reading(path, damaged.RUN_AGAIN):
    method = methods.get(brackets.parse(config['variant'])[0])
    if not isinstance(config.get('given'), dict):
      raise ValueError('no flags that were given')
    for name, value in config['given'].items():
      if name not in table or not hp.is_allowed(table[name].spec, value):
        raise ValueError(f'--{name}={value}')
  if config.get('revision', 1) != method.revision:
    raise flags.UsageError(
        f'{folder} must hold a run of {method.name} as it is now, found one of'
        ' an earlier form with other rounds. Tip: train it again in another'
        ' folder.'
    )
  position(folder)
  return config


def read_trained(
    flag: str, folder: str, table: Mapping[str, flags.Flag]
) -> dict[str, Any]:
  """Returns `config.json` of a run that must have a checkpoint; see `read`.

  Raises:
    flags.UsageError: If there is no run or no checkpoint; names the flag.
  """
  if not os.path.exists(os.path.join(folder, results.CONFIG)):
    raise flags.UsageError(
        f'`--{flag}` must name the folder of a run, found none in {folder}.'
    )
  saved = read(folder, table)
  if position(folder) is None:
    raise flags.UsageError(
        f'`--{flag}` must name a run with a checkpoint, found none in {folder}.'
    )
  return saved


def position(folder: str) -> Optional[position_lib.Position]:
  """Returns the position of a run's checkpoint, or None without one.

  Raises:
    damaged.DamagedError: If the checkpoint cannot be read.
  """
  path = os.path.join(folder, results.CHECKPOINT)
  if not os.path.exists(path):
    return None
  with damaged.reading(path, damaged.RUN_AGAIN), store.ClientStateStore(
      path, read_only=True
  ) as states:
    saved = states.position()
    return None if saved is None else position_lib.read(saved)


def states(folder: str, *, read_only: bool = False) -> store.ClientStateStore:
  """Opens the client states and the checkpoint of a run."""
  return store.ClientStateStore(
      os.path.join(folder, results.CHECKPOINT), read_only=read_only
  )


def rows(folder: str, last: int) -> list[dict[str, float]]:
  """Returns the rows of metrics up to round `last`; empty cells are NaN.

  Raises:
    damaged.DamagedError: If `metrics.csv` is damaged.
  """
  return [
      {name: float(text or 'nan') for name, text in row.items()}
      for row in results.read_rows(folder, results.METRICS)
      if int(row['round']) <= last
  ]
