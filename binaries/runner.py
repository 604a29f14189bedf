"""Runs one experiment in its folder: what train and compare have in common."""

import os
import traceback
from typing import Any, Mapping, Optional

import numpy as np
import tensorflow as tf

from binaries import experiment as experiment_lib
from binaries import flags
from tff_pers.data import partition
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.evaluation import summary
from tff_pers.runtime import native
from tff_pers.simulation import cohort
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import release
from tff_pers.simulation import store

DEFAULT_ALGO = 'perm'


class Diverged(flags.Failure):
  """Training met NaN or infinity."""


def prepare(
    given: Mapping[str, Any],
    table: Mapping[str, flags.Flag],
    folder: str,
    *,
    resume: bool,
    same_flags: bool = False,
    brackets_win: bool = False,
) -> experiment_lib.Experiment:
  """Returns the experiment to run in `folder`; writes nothing.

  Args:
    given: Values of the flags that were given.
    table: All flags.
    folder: Where to run; flags that are not given take what the run that is
      there was started with.
    resume: Whether the folder may hold a run.
    same_flags: Whether flags that are not given must mean the same again: the
      runs of a comparison must not differ.
    brackets_win: See `experiment.build`.

  Raises:
    flags.UsageError: If the flags are bad, or the folder holds a run and
      `resume` is False or the run is another.
  """
  saved = None
  if os.path.exists(os.path.join(folder, results.CONFIG)):
    if not resume:
      raise flags.UsageError(
          f'`--output_dir` must not hold a run already, found one in {folder}.'
          ' Tip: continue it with --resume.'
      )
    saved = results.read_config(folder)
    if not same_flags:
      given = experiment_lib.resumed(given, saved)
  experiment = experiment_lib.build(
      {'algo': DEFAULT_ALGO, **given}, table, brackets_win=brackets_win
  )
  if saved is not None:
    experiment_lib.check_same(saved, experiment.config)
  return experiment


def is_finished(folder: str) -> bool:
  """Whether `folder` holds a run with all its results."""
  path = os.path.join(folder, results.CHECKPOINT)
  if not os.path.exists(path):
    return False
  states = store.ClientStateStore(path)
  position = states.position()
  states.close()
  return position is not None and position['finished']


def execute(
    experiment: experiment_lib.Experiment,
    folder: str,
    *,
    export: str = '',
    quiet: bool = False,
) -> None:
  """Trains to the end and writes all results; a finished run stays as it is.

  Args:
    experiment: What to run.
    folder: Where; a run that is there continues from its last checkpoint.
    export: Clients whose weights are written, as `3,17`.
    quiet: Whether to leave out the tables of the data and of the results.

  Raises:
    Diverged: If the loss is not finite.
    flags.Failure: If something else stops the run. The sentence names the last
      checkpoint.
  """
  exported = _parse_clients(export, experiment)
  try:
    if is_finished(folder):
      print(f'{folder}: finished already, nothing changed.')
      return
    native.use()
    process = experiment_lib.build_process(experiment)
    if not os.path.exists(os.path.join(folder, results.CONFIG)):
      results.write_config(folder, experiment.config)
    _describe(experiment, folder, quiet)
    with store.ClientStateStore(
        os.path.join(folder, results.CHECKPOINT)
    ) as states:
      _train(experiment, process, states, folder, exported)
    if not quiet:
      print(final_table(results.read_run(folder).clients))
      print(f'Results are in {folder}.')
  except (flags.UsageError, flags.Failure):
    raise
  except program.NonFiniteError as error:
    named = program.NonFiniteError(
        error.round_num, experiment.clients[error.clients].tolist()
    )
    raise Diverged(f'{named} {_last_checkpoint(folder)}') from error
  except Exception as error:
    if not isinstance(error, (OSError, tf.errors.OpError)):
      traceback.print_exc()
    text = ' '.join(f'{type(error).__name__}: {error}'.split())[:500]
    raise flags.Failure(
        f'{text.rstrip(".")}. {_last_checkpoint(folder)}'
    ) from error


def _train(experiment, process, states, folder, exported) -> None:
  """Trains, evaluates and writes the results."""
  task = experiment.task
  data = program.Data(task.train, task.test)
  trainer = program.TrainingProgram(
      process, data, states, seed=experiment.flag('seed')
  )
  start = trainer.position.round
  if start:
    print(f'Continuing after round {start}.')
  with release.Releases(
      folder, program.columns(process), start
  ) as releases, progress.Progress(task.rounds, start) as shown:
    metrics = trainer.run(
        cohort.uniform(task.num_clients, task.clients_per_round),
        rounds=task.rounds, eval_every=task.eval_every, releases=releases,
        progress=shown,
    )
  unseen = trainer.evaluate(experiment.unseen, first=task.num_clients)
  rows = _client_rows(experiment.clients, 1, data, metrics)
  rows += _client_rows(experiment.unseen_clients, 0, experiment.unseen, unseen)
  results.write_clients(folder, sorted(rows, key=lambda row: row['client']))
  if 'mixing' in trainer.state:
    mixing = _dense(trainer.state['mixing'], task.num_clients)
    np.save(os.path.join(folder, results.MIXING), mixing)
  for client in exported:
    _export(trainer, experiment, client, folder)
  plots.plot_run(folder)
  trainer.finish()


def final_table(clients: Mapping[str, np.ndarray]) -> str:
  """Returns the summary over clients, a row per metric, as Markdown."""
  rows = []
  for seen, who in ((1, ''), (0, ' of held-out clients')):
    for metric in ('accuracy', 'loss'):
      chosen = clients['seen'] == seen
      values = clients[metric][chosen]
      if not np.all(np.isnan(values)):
        numbers = summary.summarize(
            values, clients['num_test'][chosen],
            higher_is_better=metric == 'accuracy',
        )
        rows.append({'metric': metric + who, **numbers._asdict()})
  return results.markdown(('metric', *summary.Summary._fields), rows)


def _describe(experiment, folder: str, quiet: bool) -> None:
  """Prints what is run on what; writes the data map."""
  task = experiment.task
  held = len(experiment.unseen_clients)
  print(
      f'{experiment.variant} on {task.name} ({task.partition}):'
      f' {task.num_clients} clients' + (f' and {held} held out' if held else '')
      + f', {sum(int(d["num_examples"]) for d in task.train)} training and'
      f' {sum(int(d["num_examples"]) for d in task.test)} test examples,'
      f' {task.rounds} rounds.'
  )
  if task.class_counts is not None:
    if not quiet:
      print(partition.table(task.class_counts, task.groups))
    results.write_data(
        folder, experiment.clients, task.class_counts, task.groups
    )


def _client_rows(clients, seen: int, data: program.Data, metrics):
  """Returns the rows of `clients.csv`."""
  return [
      dict(
          client=int(client), seen=seen,
          num_train=int(data.train[i]['num_examples']),
          num_test=int(data.test[i]['num_examples']),
          accuracy=_cell(metrics.get('accuracy'), i),
          loss=_cell(metrics['loss'], i),
      )
      for i, client in enumerate(clients)
  ]


def _cell(values, i: int) -> Optional[float]:
  """Returns a client's metric, None if it has no test examples."""
  if values is None or np.isnan(values[i]):
    return None
  return values[i].item()


def _parse_clients(text: str, experiment) -> list[int]:
  """Returns the positions of the clients to export."""
  known = {str(client): i for i, client in enumerate(experiment.clients)}
  for client in filter(None, text.split(',')):
    if client not in known:
      raise flags.UsageError(
          '`--export_clients` must be numbers of clients that train, found'
          f' {client!r}.'
      )
  return [known[client] for client in filter(None, text.split(','))]


def _dense(mixing, num_clients: int) -> np.ndarray:
  """Returns mixing weights as float32[N, N], also those of sparse rows."""
  if not isinstance(mixing, Mapping):
    return np.asarray(mixing)
  dense = np.zeros([num_clients, num_clients], np.float32)
  rows = np.arange(num_clients)[:, None]
  np.add.at(dense, (rows, mixing['columns']), mixing['values'])
  return dense


def _export(trainer, experiment, client: int, folder: str) -> None:
  """Writes what a client deploys to export/client_<number>.npz."""
  weights = trainer.client_weights(client)
  os.makedirs(os.path.join(folder, 'export'), exist_ok=True)
  number = experiment.clients[client]
  leaves = {
      '/'.join(map(str, path)): np.asarray(leaf)
      for path, leaf in _flatten_with_path(weights)
  }
  np.savez(os.path.join(folder, 'export', f'client_{number}.npz'), **leaves)


def _flatten_with_path(structure, path=()):
  """Yields (path, leaf) of nested mappings and sequences."""
  if isinstance(structure, Mapping):
    items = structure.items()
  elif isinstance(structure, (tuple, list)):
    items = enumerate(structure)
  else:
    yield path or ('weights',), structure
    return
  for name, member in items:
    yield from _flatten_with_path(member, (*path, name))


def _last_checkpoint(folder: str) -> str:
  """Returns the sentence that names the last good checkpoint."""
  path = os.path.join(folder, results.CHECKPOINT)
  position = None
  if os.path.exists(path):
    try:
      with store.ClientStateStore(path) as states:
        position = states.position()
    except OSError as error:
      return f'The last checkpoint cannot be read: {error}'
  if position is None:
    return 'There is no checkpoint yet.'
  return (
      f'The last good checkpoint is {path}, round {position["round"]}. Tip:'
      ' continue with --resume.'
  )
