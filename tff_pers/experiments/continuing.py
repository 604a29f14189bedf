"""Runs that go on: for more rounds, or as another run from a checkpoint."""

import contextlib
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

# What decides which examples of whom are trained on: with another value a run
# might be tested on what the checkpoint was trained on.
_SAME_DATA = (
    'task', 'seed', 'partition', 'num_clients', 'holdout_clients',
    'train_fraction', 'validation_fraction', 'standardize', 'num_byzantine',
    'dp_noise_multiplier', 'dp_clip', 'dp_target_delta',
)
# What decides which messages are under way at a checkpoint.
_SAME_EVENTS = (
    'driver', 'delays', 'network_delays', 'in_flight', 'redispatch',
    'fedbuff_buffer_size',
)


def last_round_flag(recorded: Mapping[str, Any]) -> str:
  """Returns the flag that bounds a run's rounds, of its flags by name."""
  return 'max_rounds' if recorded.get('rounds') == 'auto' else 'rounds'


def grows(saved: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
  """Whether a run is asked for more rounds than it was started with.

  Args:
    saved: `config.json` of the run.
    asked: Flags by name, the run's `last_round_flag` perhaps among them.
  """
  name = last_round_flag(saved['flags'])
  before, after = saved['flags'].get(name), asked.get(name)
  return isinstance(before, int) and isinstance(after, int) and after > before


def check_splits(saved: Mapping[str, Any], config: Mapping[str, Any]) -> None:
  """Refuses a run whose rows would now be split or scaled in another way.

  Args:
    saved: `config.json` of the run.
    config: That of the same flags now.

  Raises:
    flags.UsageError: Says so.
  """
  if saved.get('splits', '') != config['splits']:
    raise flags.UsageError(
        'The rows of a run must stay what they were, to train or to test on,'
        f' for it to be gone on with, found a run in whose config.json they are'
        f' split by {saved.get("splits") or "the order of clients"!r}, and not'
        f' by {config["splits"]!r}. Tip: another --output_dir.'
    )
  if (saved.get('y_is_scaled', False), saved.get('x_scale', 1.0)) != (
      config['y_is_scaled'], config['x_scale']
  ):
    raise flags.UsageError(
        'A run must have been trained on x and y as they are scaled now in'
        ' regression for it to be gone on with, found one that was not. Tip:'
        ' another --output_dir.'
    )


def reopen(folder: str, config: Mapping[str, Any]) -> None:
  """Lets a run that is there go on up to the rounds of a new configuration.

  A run that is killed in between is one that has to write its results again.
  """
  saved = results.read_config(folder)
  if not grows(saved, config['flags']):
    return
  name = last_round_flag(saved['flags'])
  position = saved_runs.position(folder)
  if position is not None and position.finished:
    with store.ClientStateStore(
        os.path.join(folder, results.CHECKPOINT)
    ) as states:
      states.set_position(position._replace(finished=False)._asdict())
  results.write_config(folder, dict(saved, **{
      part: {**saved[part], name: config['flags'][name]}
      for part in ('flags', 'given')
  }))


def forked(
    source: str, given: Mapping[str, Any], table: dict[str, flags.Flag]
) -> dict[str, Any]:
  """Returns the flags of a fork: those of its source, and then the given.

  Args:
    source: The folder of the run whose checkpoint it starts from.
    given: Values of the flags that were given.
    table: All flags.

  Raises:
    flags.UsageError: If there is no run or no checkpoint in the folder, or a
      flag would deal the data in another way.
    damaged.DamagedError: If a file of that run is damaged.
  """
  if not os.path.exists(os.path.join(source, results.CONFIG)):
    raise flags.UsageError(
        f'`--fork` must name the folder of a run, found none in {source}.'
    )
  saved = saved_runs.read(source, table)
  if saved_runs.position(source) is None:
    raise flags.UsageError(
        f'`--fork` must name a run with a checkpoint, found none in {source}.'
    )
  private = bool(saved['flags'].get('dp_noise_multiplier'))
  # A promise of privacy is about all rounds, of cohorts of one size.
  for name in (*_SAME_DATA, *(['clients_per_round'] if private else [])):
    before = saved['flags'].get(name)
    if name in given and given[name] != before:
      raise flags.UsageError(
          f'`--{name}` must be {before!r} as in the run of --fork, because it'
          ' decides which examples are trained on and which are tested, or what'
          f' privacy costs, found {given[name]!r}.'
      )
  for name in _SAME_EVENTS:
    before = saved['flags'].get(name, flags.DEFAULTS.get(name))
    if name in given and given[name] != before:
      raise flags.UsageError(
          f'`--{name}` must be {before!r} as in the run of --fork, because it'
          ' decides which messages are under way at its checkpoint, found'
          f' {given[name]!r}.'
      )
  own = {'output_dir', 'fork'}
  if given.get('rounds', 'auto') != 'auto':
    own |= {'patience', 'max_rounds'}  # They act with --rounds=auto alone.
  return {
      **{k: v for k, v in saved['given'].items() if k not in own}, **given
  }


def copy_checkpoint(source: str, folder: str) -> dict[str, Any]:
  """Copies the checkpoint of a run, whole or not at all.

  Returns:
    What `config.json` of the fork says about it: `folder` and `round`.

  Raises:
    damaged.DamagedError: If it cannot be read.
  """
  os.makedirs(folder, exist_ok=True)
  path = os.path.join(folder, results.CHECKPOINT)
  origin = os.path.join(source, results.CHECKPOINT)
  with damaged.reading(origin, damaged.RUN_AGAIN):
    # SQLite's own way: the run may be at work.
    with contextlib.closing(
        sqlite3.connect(f'file:{origin}?mode=ro', uri=True)
    ) as old, contextlib.closing(sqlite3.connect(path + '_temp')) as new:
      old.backup(new)
  os.replace(path + '_temp', path)
  with store.ClientStateStore(path) as states:
    position = dict(states.position(), finished=False)
    states.set_position(position)
  return dict(folder=source, round=position['round'])


def check_fits(
    source: str, process: process_lib.PersonalizedProcess,
    experiment: Any,
) -> None:
  """Refuses a fork whose states are not those of its checkpoint.

  Raises:
    flags.UsageError: Says that the splits, the method, the model or the clients
      differ, or that no round is left.
  """
  saved = results.read_config(source)
  check_splits(saved, experiment.config)
  # States of two methods may look alike and mean different things.
  method = brackets.parse(saved['variant'])[0]
  if experiment.method.name != method:
    raise flags.UsageError(
        f'`--algo` must be {method} as in the run of --fork, found'
        f' {experiment.method.name}.'
    )
  path = os.path.join(source, results.CHECKPOINT)
  with store.ClientStateStore(path, read_only=True) as states:
    done = states.position()['round']
    fits = has_form_of(states, process, experiment)
  if not fits:
    raise flags.UsageError(
        '`--fork` must name a run whose checkpoint holds what'
        f' {experiment.variant} keeps, found another state in {source}. Tip:'
        ' the same model, with other rates and numbers of steps.'
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
  """Whether a checkpoint holds the states of a process.

  Args:
    states: The store with the checkpoint.
    process: The process.
    experiment: What it was built for.
  """
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
