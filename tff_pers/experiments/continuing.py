"""Continues runs for more rounds, and forks runs from a checkpoint."""

import contextlib
import dataclasses
import os
import sqlite3
from typing import Any, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.core import process as process_lib
from tff_pers.data import brackets
from tff_pers.evaluation import damaged
from tff_pers.evaluation import results
from tff_pers.experiments import flags
from tff_pers.experiments import saved_runs
from tff_pers.simulation import store

# These decide which examples each client trains on: with another value, a run
# might be tested on examples that the checkpoint was trained on.
_SAME_DATA = (
    'task', 'seed', 'partition', 'num_clients', 'holdout_clients',
    'train_fraction', 'validation_fraction', 'standardize', 'num_byzantine',
    'dp_noise_multiplier', 'dp_clip', 'dp_target_delta',
)
# These decide which messages are in flight at a checkpoint.
_SAME_EVENTS = (
    'driver', 'delays', 'network_delays', 'in_flight', 'redispatch',
    'fedbuff_buffer_size',
)

# The entry of `config.json` of a run that grew or was forked: its first rounds.
_PLANNED = 'planned_rounds'


def last_round_flag(recorded: Mapping[str, Any]) -> str:
  """Returns the name of the flag that bounds a run's rounds."""
  return 'max_rounds' if recorded.get('rounds') == 'auto' else 'rounds'


def grows(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
  """Whether more rounds are requested than a run was started with.

  `saved` is its `config.json`; the flags asked for may include the run's
  `last_round_flag`.
  """
  name = last_round_flag(saved['flags'])
  before, after = saved['flags'].get(name), asked.get(name)
  return isinstance(before, int) and isinstance(after, int) and after > before


def check_data(saved: Mapping[str, Any], config: Mapping[str, Any]) -> None:
  """Refuses a run whose rows are others now, or split or scaled differently.

  `saved` is the run's `config.json`, `config` what the same flags give now.

  Raises:
    flags.UsageError: If they are.
  """
  if saved.get('rows', config['rows']) != config['rows']:
    raise flags.UsageError(
        '`--data_dir` must hold the clients and rows that the run was trained'
        ' on, found others: they have changed since, so that test rows of now'
        ' may have been training rows. Tip: put the old ones back, or train'
        ' with another --output_dir.'
    )
  if saved.get('splits', '') != config['splits']:
    raise flags.UsageError(
        'A run can only be resumed if its rows are split into training and test'
        ' rows as before, found a run whose config.json says they were split'
        f' by {saved.get("splits") or "the order of clients"!r}, but now they'
        f' would be split by {config["splits"]!r}. Tip: another --output_dir.'
    )
  if (saved.get('y_is_scaled', False), saved.get('x_scale', 1.0)) != (
      config['y_is_scaled'], config['x_scale']
  ):
    raise flags.UsageError(
        'A run can only be resumed if x and y are scaled as in its training,'
        ' but regression now scales them differently than it did for this run.'
        ' Tip: another --output_dir.'
    )


def reopen(folder: str, config: Mapping[str, Any]) -> None:
  """Allows an existing run to continue to the rounds of a new configuration.

  If it is killed before it continues, it counts as not finished. Its method
  stays the one that was planned for the first number of rounds.
  """
  saved = results.read_config(folder)
  if not grows(saved, config['flags']):
    return
  name = last_round_flag(saved['flags'])
  position = saved_runs.position(folder)
  if position is not None and position.finished:
    with saved_runs.states(folder) as states:
      states.set_position(position._replace(finished=False)._asdict())
  results.write_config(folder, {
      _PLANNED: saved['flags'][name], **saved, **{
          part: {**saved[part], name: config['flags'][name]}
          for part in ('flags', 'given')
      },
  })


def planned_rounds(folder: str, fork: str = '') -> dict[str, int]:
  """Returns the entry of `config.json` with the rounds a method plans with.

  It is empty if these are the rounds of the run itself: unless the run of the
  folder grew, or is a new one that is forked from another.
  """
  try:
    saved = results.read_config(folder)
  except FileNotFoundError:
    if not fork:
      return {}
    saved = results.read_config(fork)
    saved.setdefault(_PLANNED, saved['flags'][last_round_flag(saved['flags'])])
  return {_PLANNED: saved[_PLANNED]} if _PLANNED in saved else {}


def as_planned(experiment: Any, planned: Mapping[str, int]) -> Any:
  """Returns the experiment from whose task the method is built.

  A method may plan with the number of rounds, as PERM its warm-up. For a run
  that grew or was forked, this is the first number: with the new one, a method
  might go back to what it has done already. `planned` is of `planned_rounds`.
  """
  if not planned:
    return experiment
  rounds = planned[_PLANNED]
  changed: dict[str, Any] = dict(rounds=rounds)
  if experiment.plan.schedule is not None:
    changed['arrivals'] = experiment.task.arrivals._replace(
        max_delay=experiment.plan.schedule.max_delay(rounds)
    )
  return dataclasses.replace(
      experiment, task=dataclasses.replace(experiment.task, **changed)
  )


def forked(
    source: str, given: Mapping[str, Any], table: dict[str, flags.Flag]
) -> dict[str, Any]:
  """Returns the flags of a fork: its source's, overridden by those given.

  Raises:
    flags.UsageError: If the folder has no run or no checkpoint, or a flag would
      distribute the data differently.
    damaged.DamagedError: If a file of the source run is damaged.
  """
  saved = saved_runs.read_trained('fork', source, table)
  private = bool(saved['flags'].get('dp_noise_multiplier'))
  # A privacy guarantee covers all rounds and assumes one cohort size.
  same_data = (*_SAME_DATA, *['clients_per_round'] * private)
  for name in (*same_data, *_SAME_EVENTS):
    before = saved['flags'].get(name, flags.DEFAULTS.get(name))
    if name in given and given[name] != before:
      what = (
          'examples are for training and which for testing, or what privacy'
          ' costs' if name in same_data
          else 'messages are in flight at its checkpoint'
      )
      raise flags.UsageError(
          f'`--{name}` must be {before!r} as in the run of --fork, because it'
          f' decides which {what}, found {given[name]!r}.'
      )
  own = {'output_dir', 'fork'}
  if given.get('rounds', 'auto') != 'auto':
    own |= {'patience', 'max_rounds'}  # They act only with --rounds=auto.
  return {
      **{k: v for k, v in saved['given'].items() if k not in own}, **given
  }


def copy_checkpoint(source: str, folder: str) -> dict[str, Any]:
  """Copies the checkpoint of a run atomically.

  Returns:
    The fork's `config.json` entry about it: `folder` and `round`.

  Raises:
    damaged.DamagedError: If the checkpoint cannot be read.
  """
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, results.CHECKPOINT)
  origin = os.path.join(source, results.CHECKPOINT)
  with damaged.reading(origin, damaged.RUN_AGAIN):
    # By SQLite's backup, because the run may be writing to it.
    with contextlib.closing(
        sqlite3.connect(f'file:{origin}?mode=ro', uri=True)
    ) as old, contextlib.closing(sqlite3.connect(path + '_temp')) as new:
      old.backup(new)
  os.replace(path + '_temp', path)
  with saved_runs.states(folder) as states:
    position = dict(states.position(), finished=False)
    states.set_position(position)
  return dict(folder=source, round=position['round'])


def check_fits(
    source: str, process: process_lib.PersonalizedProcess,
    experiment: Any,
) -> None:
  """Refuses a fork whose states do not match its checkpoint.

  Raises:
    flags.UsageError: If the splits, the method, the model or the clients
      differ, or no round is left.
  """
  saved = results.read_config(source)
  check_data(saved, experiment.config)
  # States of two methods may look alike and mean different things.
  method = brackets.parse(saved['variant'])[0]
  if experiment.method.name != method:
    raise flags.UsageError(
        f'`--algo` must be {method} as in the run of --fork, found'
        f' {experiment.method.name}.'
    )
  with saved_runs.states(source, read_only=True) as states:
    done = states.position()['round']
    fits = has_form_of(states, process, experiment)
  if not fits:
    raise flags.UsageError(
        '`--fork` must name a run whose checkpoint fits the states of'
        f' {experiment.variant}, found other states in {source}. Tip: use the'
        ' same model; rates and numbers of steps may differ.'
    )
  if experiment.task.rounds <= done:
    name = 'rounds' if experiment.stopping is None else 'max_rounds'
    raise flags.UsageError(
        f'`--{name}` must be > the {done} rounds that the run of --fork has'
        f' done, found {experiment.task.rounds}.'
    )


def has_form_of(
    states: store.ClientStateStore, process: process_lib.PersonalizedProcess,
    experiment: Any,
) -> bool:
  """Whether the states in a checkpoint have the form of a process's."""
  like = process.initialize_seeded(experiment.flag('seed'))
  try:
    if _form(states.server_state(like)) != _form(like):
      return False
    for client in states.clients()[:1]:
      own = process.initialize_client(like, client)
      if _form(states.get(client, own)) != _form(own):
        return False
  except store.StoreError:
    return False
  return bool(states.clients()) <= process.is_stateful


def _form(state) -> list[Any]:
  """Returns shapes and dtypes of a state's leaves."""
  leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(state)]
  return [(leaf.shape, leaf.dtype) for leaf in leaves]
