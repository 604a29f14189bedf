"""Evaluates a run on other data, or on clients that it has never seen.

    python -m binaries.evaluate --run=DIR [--data_dir=FILE] [--output_dir=DIR]
        [--export=saved_model] [--export_clients=NAMES] [--import=MODULES]

Evaluates a run, finished or not, at its last checkpoint, without changing the
run. FILE (.csv, .parquet, .npz, or a folder) has the columns of the training
data. Clients that trained adapt to their training data, then are tested on all
rows of FILE that `split` does not call train. New clients adapt as the method
says to their training rows (by `split`, else a share drawn by the run's
--train_fraction) and are tested on their other rows, or on all rows if the
method does not adapt. Features are preprocessed as in training. Without FILE,
the run's own test data are evaluated again. Writes clients.csv, and with
--export the models for binaries.predict.
"""

import collections
import contextlib
import dataclasses
import os
import sys
from typing import Any, Iterator, Mapping, NamedTuple

import numpy as np
import tensorflow as tf

from tff_pers.data import client_data
from tff_pers.data import named_arrays
from tff_pers.data import new_data
from tff_pers.data import on_demand
from tff_pers.data import split as split_lib
from tff_pers.data import table_remarks
from tff_pers.data import tables
from tff_pers.evaluation import results
from tff_pers.experiments import continuing
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import outputs
from tff_pers.experiments import processes
from tff_pers.experiments import resume_flags
from tff_pers.experiments import runner
from tff_pers.experiments import saved_runs
from tff_pers.simulation import program
from tff_pers.simulation import store


# In the folder of an evaluation: records the run and the data.
RECORD = 'evaluation.json'
# Number of labels tried to find out whether a method adapts.
_PROBED = 20


class Opened(NamedTuple):
  """A run and the clients to evaluate.

  Attributes:
    experiment: The run; its task expects the new clients.
    data: What the clients adapt to and are tested on; `index` is that of the
      process.
    names: Their names as texts.
    seen: Whether each of them trained.
    drawn: Whether new clients' test rows are drawn, not given by the file.
  """

  experiment: experiment_lib.Experiment
  data: program.Data
  names: list[str]
  seen: list[bool]
  drawn: bool = False


def open_run(folder: str, data_dir: str) -> Opened:
  """Returns a run with the clients of a file, or its own for ''.

  Raises:
    flags.UsageError: If there is no run, or its data or the file cannot be
      used.
    damaged.DamagedError: If a file of the run is damaged.
  """
  table = flags.all_flags(flags.own_flag('algo', '', ''))
  saved = saved_runs.read_trained('run', folder, table)
  experiment = experiment_lib.build(
      {**saved['given'], 'algo': saved['variant']}, table
  )
  experiment_lib.check_same(saved, experiment.config)
  if not data_dir:
    return _own(experiment)
  with flags.usage_errors('', ['data_dir']):
    return _of_file(experiment, folder, flags.resolve_path(data_dir))


def _own(experiment) -> Opened:
  """Returns the clients whose results a run writes."""
  task = experiment.task
  seen = program.Data(task.train, task.test).pick(task.evaluated)
  unseen = experiment.unseen
  numbers = [*experiment.clients[task.evaluated], *experiment.unseen_clients]
  return Opened(
      experiment,
      program.Data(
          on_demand.join(seen.train, unseen.train),
          on_demand.join(seen.test, unseen.test),
      ),
      [str(name) for name in experiment.names(numbers)],
      [True] * len(seen.train) + [False] * len(unseen.train),
  )


def _of_file(experiment, folder: str, path: str) -> Opened:
  """Returns the clients of a file; those that never trained get new indices."""
  task = experiment.task
  fitted = results.read_features(folder)
  if task.named_arrays:
    [path] = tables.locate(path, 'npz')
    table = named_arrays.read(path, task.model.x_spec, task.model.y_spec)
    y = table.y
  else:
    table = new_data.read(path, fitted, task.model.x_spec.shape[1:].as_list())
    y = new_data.labels(
        table, task.num_classes, None if fitted is None else fitted.classes
    )
  for remark in table.remarks:
    print(remark, file=sys.stderr)
  trained = {
      str(name): position for position, name in
      enumerate(experiment.names(experiment.clients))
  }
  names = [str(name) for name in table.names]
  strangers = [name for name in names if name not in trained]
  say_alike(experiment, {
      name: int(np.sum(table.client == names.index(name))) for name in strangers
  })
  index = {**trained, **{
      name: task.num_clients + number for number, name in enumerate(strangers)
  }}
  train, test = [], []
  for code, name in enumerate(names):
    rows = np.flatnonzero(table.client == code)
    part = lambda some, name=name: _dense_of(
        index[name], dict(x=table.x, y=y), some
    )
    if name in trained:
      # It adapts as in its run, and the file only tests it.
      train.append(task.train[trained[name]])
      test.append(part(
          rows if table.is_test is None else rows[table.is_test[rows]]
      ))
      continue
    adapt, tested = _split(experiment, table, rows, name)
    train.append(part(adapt))
    test.append(part(tested))
  tiers = task.tiers
  if tiers is not None:
    # Those that follow belong to clients that the run held out.
    tiers = np.asarray(tiers)[:task.num_clients]
    if table.tier is not None:
      own = [
          table.tier[np.argmax(table.client == names.index(name))]
          for name in strangers
      ]
      tiers = np.concatenate([tiers, np.array(own, tiers.dtype)])
  return Opened(
      dataclasses.replace(experiment, task=dataclasses.replace(
          task, num_new_clients=len(strangers), tiers=tiers
      )),
      program.Data(train, test), names, [name in trained for name in names],
      drawn=table.is_test is None,
  )


def say_alike(
    experiment: experiment_lib.Experiment, strangers: Mapping[str, int]
) -> None:
  """Warns of new clients whose names differ from others only in case.

  `strangers` are the numbers of rows by new client.
  """
  names = [str(name) for name in experiment.names(experiment.clients)]
  counts = dict(zip(names, experiment.task.sizes))
  known = set(map(table_remarks.spelling_key, names))
  new = [n for n in strangers if table_remarks.spelling_key(n) in known]
  alike = {table_remarks.spelling_key(name) for name in new}
  old = [n for n in names if table_remarks.spelling_key(n) in alike]
  remark = table_remarks.spelled_alike('Clients', [*old, *new], np.array([
      *(counts[name] for name in old), *(strangers[name] for name in new)
  ]))
  if remark:
    print(remark, file=sys.stderr)


def newcomer(experiment: experiment_lib.Experiment, name: str) -> Opened:
  """Returns the run with one more client of that name, without data."""
  task = experiment.task
  nothing = _emptied({**task.train[0], 'index': task.num_clients})
  tiers = task.tiers
  return Opened(
      dataclasses.replace(experiment, task=dataclasses.replace(
          task, num_new_clients=1,
          tiers=None if tiers is None else np.asarray(tiers)[:task.num_clients],
      )),
      program.Data([nothing], [nothing]), [name], [False],
  )


def _split(experiment, table: tables.Table, rows, name: str):
  """Returns the rows that a new client adapts to and is tested on."""
  if table.is_test is not None:
    is_test = table.is_test[rows]
    return rows[~is_test], rows[is_test]
  if len(rows) == 1:  # Nothing is left to adapt to.
    return rows[:0], rows
  fraction = experiment.flag('train_fraction') or 0.8
  [split] = split_lib.split_clients(
      [len(rows)], experiment.flag('seed'), fraction, names=[name],
      where=table.path,
  )
  return rows[split.train], rows[split.test]


def open_trainer(
    opened: Opened, states: store.ClientStateStore, folder: str
) -> Any:
  """Returns the training program of the run, with the new clients.

  Raises:
    flags.UsageError: If the method cannot evaluate new clients.
  """
  process = processes.build(opened.experiment).process
  task = opened.experiment.task
  if not continuing.has_form_of(states, process, opened.experiment):
    raise flags.UsageError(
        '`--data_dir` must hold only clients that trained, because the run in'
        f' {folder} kept no state for new ones, found'
        f' {task.num_new_clients} new ones. Tip: train with'
        ' --holdout_clients=1.'
    )
  return program.TrainingProgram(
      process, program.Data(task.train, task.test), states,
      seed=opened.experiment.flag('seed'),
  )


@contextlib.contextmanager
def taking_new(opened: Opened) -> Iterator[None]:
  """Raises one sentence if a method has no model for new clients."""
  try:
    yield
  except Exception as error:
    if all(opened.seen):
      raise
    raise flags.UsageError(
        f'`--data_dir` must hold only clients that trained, because'
        f' {opened.experiment.variant} has no model for others, found'
        f' {opened.names[opened.seen.index(False)]!r}.'
    ) from error


def testing_on_all(opened: Opened, trainer: Any) -> Opened:
  """Tests new clients on all of their rows if the method does not adapt.

  A method adapts if it deploys different weights for other labels y. If the
  file says which rows are for testing, that is kept.

  Raises:
    flags.UsageError: If the method cannot evaluate clients that never trained.
  """
  if all(opened.seen) or not opened.drawn:
    return opened
  train, test = list(opened.data.train), list(opened.data.test)
  # One without training rows would adapt to nothing.
  first = max(
      (client for client, seen in enumerate(opened.seen) if not seen),
      key=lambda client: int(train[client]['num_examples']),
  )
  if not train[first]['num_examples']:
    return opened
  with taking_new(opened):
    deployed = [
        tf.nest.flatten(trainer.deployed_weights(
            program.Data([data], [test[first]])
        )) for data in _of_each_y(
            train[first], opened.experiment.task.num_classes
        )
    ]
  if not all(
      np.array_equal(a, b)
      for other in deployed[1:] for a, b in zip(deployed[0], other)
  ):
    return opened
  print(
      f'{opened.experiment.variant} does not adapt to new clients: they are'
      ' tested on all of their rows.'
  )
  for client, seen in enumerate(opened.seen):
    if not seen:
      test[client] = collections.OrderedDict(
          client_data.pool([train[client], test[client]]),
          index=train[client]['index'],
      )
      train[client] = _emptied(train[client])
  return opened._replace(data=program.Data(train, test))


def _of_each_y(data: Mapping[str, Any], num_classes: int) -> Iterator[Any]:
  """Yields a client's data with its first x repeated, once per label.

  No single model is best for every label of one x (or for both a very small and
  a very large target), so a method that chooses among models reveals it here.
  """
  of_each = tf.nest.map_structure
  x, y = (of_each(np.asarray, data['examples'][name]) for name in ('x', 'y'))
  first = of_each(lambda rows: np.repeat(rows[:1], len(rows), axis=0), x)

  def filled(rows, value):
    # Labels of a user's model; every such model has the first two.
    if not num_classes and rows.dtype.kind != 'f':
      return np.full_like(rows, value > 0)
    far = 1.0 if num_classes else 1e3 * max(1.0, float(np.abs(rows).max()))
    return np.full_like(rows, value * far)

  for value in range(min(num_classes, _PROBED)) if num_classes else (-1, 1):
    yield client_data.dense(
        data['index'], first, of_each(lambda rows, v=value: filled(rows, v), y)
    )


def _emptied(data: Mapping[str, Any]) -> Any:
  """Returns the data of a client with no rows."""
  return _dense_of(data['index'], data['examples'], slice(0))


def _dense_of(index: int, examples: Mapping[str, Any], rows: Any) -> Any:
  """Returns rows of examples as the dense data of a client."""
  take = lambda array: np.asarray(array)[rows]
  return client_data.dense(index, *(
      tf.nest.map_structure(take, examples[name]) for name in ('x', 'y')
  ))


def _run(given: dict[str, Any]) -> int:
  folder = flags.resolve_path(given['run'] or '.')
  data_dir = given['data_dir']
  asked_for = dict(run=folder, data_dir=data_dir)
  top = given['output_dir'] or resume_flags.own_folder(
      resume_flags.numbered(os.path.join(folder, 'evaluation')), RECORD,
      asked_for,
  )
  record = os.path.join(top, RECORD)
  resume_flags.check(record, asked_for)
  opened = open_run(folder, data_dir)
  asked = exports.request(given)
  chosen = asked.positions(opened.names, 'clients that are evaluated')
  runner.use_runtime(opened.experiment.flag, None)
  with saved_runs.states(folder, read_only=True) as states:
    trainer = open_trainer(opened, states, folder)
    opened = testing_on_all(opened, trainer)
    with taking_new(opened):
      metrics = trainer.evaluate(opened.data)
    resume_flags.write(record, asked_for)
    found = outputs.client_rows(
        opened.names, 1, opened.data, metrics, opened.experiment.task.model
    )
    written = [
        dict(row, seen=int(seen)) for row, seen in zip(found, opened.seen)
    ]
    experiment = opened.experiment
    if outputs.has_quality(experiment.task, experiment.metric):
      outputs.add_quality(
          experiment.task, written, trainer.predictions(opened.data), top
      )
    results.write_clients(top, written)
    if chosen:
      weights = trainer.deployed_weights(opened.data)
      fitted = results.read_features(folder)
      if fitted is not None:
        results.write_features(top, fitted)
      exports.write_models(
          os.path.join(top, exports.FOLDER), trainer.deployed, asked.kind,
          {opened.names[c]: weights[c] for c in chosen}, names=opened.names,
          task=experiment.task,
      )
  clients = results.read_clients(top)
  assert clients is not None  # They have just been written.
  print(outputs.final_table(clients))
  sentence = outputs.rarity_sentence(top)
  if sentence:
    print(sentence)
  print(f'Results are in {top}: clients.csv has a row for each client.')
  return 0


main = flags.Program(
    'evaluate', __doc__, _run,
    flags.own_flag('run', '', 'Folder of the run.'),
    flags.own_flag('data_dir', '', 'File with the examples.'),
    flags.own_flag(
        'output_dir', '', 'Folder of the results; empty: `evaluation` in'
        ' --run, `evaluation_2` for other data, and so on.'
    ),
    flags.own_flag(
        'import_', '', 'Your own modules that the run was started with.'
    ),
    *exports.FLAGS,
)
