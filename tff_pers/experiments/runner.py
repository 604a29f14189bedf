"""Runs one experiment in its folder, for train, compare and others."""

import contextlib
import os
import re
import sys
import traceback
from typing import Any, Callable, Mapping, Optional

import numpy as np
import tensorflow as tf

from tff_pers import runtime
from tff_pers.client_works import local_step
from tff_pers.composition import finetuning
from tff_pers.config import hyperparameters as hp
from tff_pers.core import process as process_lib
from tff_pers.data import client_data
from tff_pers.data import errors as data_errors
from tff_pers.data import on_demand
from tff_pers.data import partition
from tff_pers.evaluation import clusters
from tff_pers.evaluation import damaged
from tff_pers.evaluation import finetuning as finetuning_rows
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.evaluation import stopping
from tff_pers.experiments import continuing
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import exports
from tff_pers.experiments import flags
from tff_pers.experiments import folders
from tff_pers.experiments import outputs
from tff_pers.experiments import privacy
from tff_pers.experiments import processes
from tff_pers.experiments import saved_runs
from tff_pers.runtime import errors
from tff_pers.runtime.fused import disk
from tff_pers.simulation import asynchrony_program
from tff_pers.simulation import cohort
from tff_pers.simulation import non_finite
from tff_pers.simulation import program
from tff_pers.simulation import progress
from tff_pers.simulation import rate_check
from tff_pers.simulation import release
from tff_pers.simulation import store

DEFAULT_ALGO = 'perm'
# File in a run's folder with the choices of the fused runtime.
RUNTIME_CHOICES = 'runtime.json'
# Flags that only one runtime uses.
_RUNTIME_FLAGS = dict(
    device='fused', strategy='fused', tf32='fused', deterministic='fused',
    workers='remote', connect_seconds='remote', round_seconds='remote',
    tls_cert='remote', tls_key='remote', tls_ca='remote',
)


class Diverged(flags.Failure):
  """Training produced NaN or infinity."""


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  fork = flags.resolve_path(given['fork']) if given.get('fork') else ''
  algo = experiment_lib.folder_name(given.get('algo', DEFAULT_ALGO))
  task, seed = (given.get(n, flags.DEFAULTS[n]) for n in ('task', 'seed'))
  # An absolute path stays what it is.
  folder = flags.output_dir(
      given, f'{fork}_fork' if fork else f'{algo}_{task}_seed{seed}'
  )
  experiment = prepare(
      given, table, folder, resume=given.get('resume', False), fork=fork
  )
  execute(experiment, folder, export=exports.request(given), fork=fork)
  return 0


def prepare(
    given: Mapping[str, Any],
    table: dict[str, flags.Flag],
    folder: str,
    *,
    resume: bool,
    same_flags: bool = False,
    brackets_win: bool = False,
    fork: str = '',
) -> experiment_lib.Experiment:
  """Returns the experiment to run in `folder`; writes nothing.

  Args:
    given: Values of the flags that were given.
    table: All flags.
    folder: Where to run; flags that are not given are taken from the run in
      this folder, if there is one.
    resume: Whether the folder may hold a run that was started with other flags
      than these; a run with the same flags is always resumed.
    same_flags: Whether flags that are not given must have their default in the
      existing run too, because runs of a comparison must not differ.
    brackets_win: See `experiment.build`.
    fork: Folder of a run from whose checkpoint a new run starts, with its flags
      unless others are given; '': none.

  Raises:
    flags.UsageError: If the flags are bad, or the folder holds a run and
      `resume` is False or it is a different run.
    damaged.DamagedError: If a file of that run is damaged.
  """
  with flags.usage_errors():
    folders.check(folder)
  saved = None
  if os.path.exists(os.path.join(folder, results.CONFIG)):
    saved = saved_runs.read(folder, table)
    if not resume and not experiment_lib.is_same_command(given, saved):
      raise flags.UsageError(
          f'`--output_dir` must not hold another run, found one in {folder}.'
          ' Tip: resume it with --resume, or with the command that started it.'
      )
    if not same_flags:
      given = experiment_lib.resumed(given, saved)
  elif fork:
    given = continuing.forked(fork, given, table)
  steps = finetune_steps(given.get('finetune_steps', ''))
  if given.get('finetune_learning_rate') and not steps:
    raise flags.UsageError(
        '`--finetune_learning_rate` must be left out without --finetune_steps,'
        f' found {given["finetune_learning_rate"]:g}.'
    )
  experiment = experiment_lib.build(
      {'algo': DEFAULT_ALGO, **given}, table, brackets_win=brackets_win
  )
  if saved is not None:
    experiment_lib.check_same(saved, experiment.config)
  if experiment.flag('finetune_steps') and not _finetune_rate(experiment):
    raise flags.UsageError(
        '`--finetune_learning_rate` must be > 0 if clients train with step size'
        f' 0, found 0 with {experiment.variant}.'
    )
  return experiment


def _finetune_rate(experiment) -> float:
  return (
      experiment.flag('finetune_learning_rate')
      or experiment.hyperparameters.learning_rate
  )


def is_finished(folder: str) -> bool:
  """Whether `folder` holds a run with all its results."""
  position = saved_runs.position(folder)
  return position is not None and position.finished


def execute(
    experiment: experiment_lib.Experiment,
    folder: str,
    *,
    export: exports.Request = exports.Request(),
    fork: str = '',
    quiet: bool = False,
    # A lambda, so that tests can patch plots.plot_run.
    draw: Optional[Callable[[str], Any]] = lambda run: plots.plot_run(run),
    is_enough: Callable[[Mapping[str, Any]], bool] = lambda row: False,
) -> None:
  """Trains to the end and writes all results; leaves a finished run as is.

  Args:
    experiment: What to run.
    folder: Where to run; an existing run resumes from its last checkpoint.
    export: Which clients' models to export, and how.
    fork: Run from whose checkpoint a new run starts; '': none.
    quiet: Whether to leave out the tables of the data and of the results.
    draw: Plots the results in a folder; None: no plots.
    is_enough: Whether the run ends after an evaluated round, given its row of
      metrics; see `TrainingProgram.run`.

  Raises:
    Diverged: If the loss is not finite.
    flags.Failure: If something else stops the run. The message names the last
      checkpoint.
  """
  exported = exports.positions(export, experiment)
  absent = ''
  with flags.usage_errors():
    lock = folders.FolderLock(folder)
  with lock, _sentences(experiment, folder):
    if os.path.exists(os.path.join(folder, results.CONFIG)):
      continuing.reopen(folder, experiment.config)
    if is_finished(folder):
      print(f'{folder} holds a finished run; no round is left to train.')
      if exported:
        _export_finished(experiment, folder, exported, export.kind)
    else:
      use_runtime(experiment.flag, folder)
      planned = continuing.planned_rounds(folder, fork)
      process, kernel_names = processes.build(
          continuing.as_planned(experiment, planned)
      )
      _check_unseen(experiment, process)
      if fork:
        continuing.check_fits(fork, process, experiment)
      # Only after the process is built, so that bad flags leave no run behind.
      if not os.path.exists(os.path.join(folder, results.CONFIG)):
        # First, so that a run with a configuration also has its features.
        if experiment.task.features is not None:
          results.write_features(folder, experiment.task.features)
        results.write_config(folder, dict(
            experiment.config,
            parameters=outputs.parameters(
                process, experiment.task.model, experiment.hyperparameters
            ),
            cost=outputs.cost(
                process, experiment.task, experiment.hyperparameters
            ),
            initial_loss=outputs.initial_loss(
                experiment.task, experiment.flag('seed')
            ),
            kernels_as_factors=list(kernel_names),
            about=experiment.task.about,
            **planned,
            **(
                dict(fork=continuing.copy_checkpoint(fork, folder))
                if fork else {}
            ),
        ))
      results.write_diverged(folder, None)
      _describe(experiment, folder, quiet)
      with saved_runs.states(folder) as states:
        trainer = _train(
            experiment, process, states, folder, is_enough, draw
        )
        exports.write(experiment, trainer, folder, exported, export.kind)
        absent = outputs.absent_sentence(
            len(states.clients()), experiment.task.num_clients
        )
        # Last: a run that is killed before this rewrites its results.
        trainer.finish()
    finished = results.read_run(folder)
    if not quiet:
      print(outputs.final_table(finished.final_clients))
      mixed = outputs.mixing_sentence(finished.metrics)
      if mixed:
        print(mixed)
    last_round = int(finished.metrics['round'][-1])
    for sentence in (
        privacy.sentence(experiment.promised, last_round), absent,
        outputs.dropped_sentence(folder), outputs.worse_sentence(finished),
        outputs.rarity_sentence(folder),
    ):
      if sentence:
        print(f'{experiment.variant}: {sentence}')
    if not quiet:
      print(outputs.where(folder))


@contextlib.contextmanager
def _sentences(experiment, folder: str):
  """Turns any error that stops a run into one sentence."""
  try:
    yield
  # These are sentences already.
  except (flags.UsageError, flags.Failure, damaged.DamagedError):
    raise
  except non_finite.NonFiniteError as error:
    # The program numbers only the clients that train; users know their names,
    # or their numbers in the whole task.
    named = type(error)(
        error.round_num, experiment.names(experiment.clients[error.clients])
    )
    with contextlib.suppress(OSError):  # A full disk must not hide the error.
      results.write_diverged(folder, str(named))
    scale = ''
    if experiment.task.about and not experiment.flag('standardize'):
      scale = ' Or scale the features with --standardize.'
    raise Diverged(
        f'{named}{scale} {_last_checkpoint(folder)}'
        f'{_other_rate(experiment, folder)}'
    ) from error
  except data_errors.DataError as error:
    raise flags.Failure(f'{error} {_last_checkpoint(folder)}') from error
  except Exception as error:
    # These usually have external causes (a full disk, no memory, bad data). All
    # others are bugs, for which a traceback helps.
    if not isinstance(
        error, (OSError, tf.errors.OpError, errors.ComputationError)
    ):
      traceback.print_exc()
    raise flags.Failure(
        f'{flags.outside_cause(error)} {_last_checkpoint(folder)}'
    ) from error


def use_runtime(flag: Callable[[str], Any], folder: Optional[str]) -> None:
  """Installs the runtime that the flags name.

  `flag` returns the value of a flag; the runtime saves its choices in the
  folder, if there is one.

  Raises:
    flags.UsageError: If the flags do not fit the runtime or the machine.
    flags.Failure: If the workers do not answer.
  """
  name = flag('runtime')
  for other, needs in _RUNTIME_FLAGS.items():
    if flag(other) != flags.DEFAULTS[other] and name != needs:
      raise flags.UsageError(
          f'`--{other}` must be left out with --runtime={name}, found'
          f' {flag(other)}. Tip: it needs --runtime={needs}.'
      )
  try:
    with flags.usage_errors(names=tuple(_RUNTIME_FLAGS)):
      if name == 'fused':
        # Computations shared by several runs are compiled once (`processes`).
        runtime.use(
            'fused', again=True,
            choices=folder and os.path.join(folder, RUNTIME_CHOICES),
            device=flag('device') or None, strategy=flag('strategy'),
            tf32=flag('tf32'), deterministic=flag('deterministic'),
            compile_cache=disk.path_of_programs(),
        )
      elif name == 'remote':
        runtime.use(
            'remote', flag('workers').replace(',', ' ').split(),
            connect_seconds=flag('connect_seconds'),
            round_seconds=flag('round_seconds'), tls_cert=flag('tls_cert'),
            tls_key=flag('tls_key'), tls_ca=flag('tls_ca'),
        )
      else:
        runtime.use('native')
  except RuntimeError as error:
    raise flags.Failure(str(error)) from error


def _check_unseen(experiment, process) -> None:
  """Refuses held-out clients if the method cannot evaluate them.

  Methods that keep a table with one model per client have no models for them.
  """
  if not experiment.unseen.train:
    return
  task = experiment.task
  trainer = program.TrainingProgram(
      process, program.Data(task.train, task.test), store.ClientStateStore()
  )
  try:
    trainer.evaluate(experiment.unseen)
  except Exception as error:
    raise flags.UsageError(
        f'`--holdout_clients` must be 0 because {experiment.variant} cannot'
        ' evaluate clients that never train, found'
        f' {len(experiment.unseen.train)}.'
    ) from error


def open_trainer(
    experiment: experiment_lib.Experiment,
    process: process_lib.PersonalizedProcess, states: store.ClientStateStore,
) -> program.TrainingProgram:
  """Returns the training program of a run at the checkpoint in `states`."""
  task, plan = experiment.task, experiment.plan
  data = program.Data(task.train, task.test, task.validation)
  options = dict(
      seed=experiment.flag('seed'),
      groups=task.groups if task.has_groups else None,
      byzantine=task.byzantine, evaluated=task.eval_clients,
      optimum=task.optimum,
      on_non_finite=experiment.flag('on_non_finite'),
      metric=experiment.metric, own_metrics=task.metrics,
      epsilon=experiment.promised and experiment.promised.epsilon,
  )
  if plan.schedule is None:
    return program.TrainingProgram(
        process, data, states, clock=plan.clock, **options
    )
  with flags.usage_errors(names=('delays',)):
    return asynchrony_program.AsynchronousProgram(
        process, data, states, plan.schedule, **options
    )


def _export_finished(experiment, folder, exported, kind) -> None:
  """Exports models of a finished run; changes nothing else."""
  use_runtime(experiment.flag, folder)
  process = processes.build(experiment).process
  with saved_runs.states(folder) as states:
    trainer = open_trainer(experiment, process, states)
    exports.write(experiment, trainer, folder, exported, kind)


def _train(
    experiment, process, states, folder, is_enough, draw
) -> program.TrainingProgram:
  """Trains, evaluates and writes the results, but does not finish."""
  task = experiment.task
  trainer = open_trainer(experiment, process, states)
  start = trainer.position.round
  if start:
    print(f'Resuming after round {start}.')
  watch = experiment.stopping and stopping.Watch(experiment.stopping)
  # A run that ended itself before a kill is only evaluated.
  is_over = watch is not None and any([
      watch(row) for row in saved_runs.rows(folder, start)
  ])
  with release.Releases(
      folder, trainer.columns, start,
      _tier_table(experiment, process, trainer, folder),
  ) as releases, progress.Progress(
      task.rounds, start, may_end=experiment.stopping is not None,
      remark=_rate_check(experiment, folder),
  ) as shown:
    metrics = trainer.run(
        # The events of the run already say which client trains when.
        trainer.sampler
        if isinstance(trainer, asynchrony_program.AsynchronousProgram)
        else cohort.uniform(task.num_clients, task.clients_per_round),
        rounds=start if is_over else task.rounds,
        eval_every=task.eval_every, releases=releases, progress=shown,
        is_enough=lambda row: (
            (watch is not None and watch(row)) or is_enough(row)
        ),
    )
  if watch is not None:
    print(f'{experiment.variant}: {watch.sentence(trainer.position.round)}')
  _write_clients(experiment, trainer, folder, metrics)
  _write_validation(experiment, trainer, folder)
  _write_arrays(task, trainer, folder, metrics)
  _write_finetuning(experiment, process, trainer, folder)
  if experiment.flag('on_non_finite') == 'drop' or trainer.position.dropped:
    dropped = dict(sorted(
        (experiment.clients[client], rounds)
        for client, rounds in trainer.position.dropped
    ))
    results.write_dropped(
        folder, dict(zip(experiment.names(dropped), dropped.values()))
    )
  if draw is not None:
    draw(folder)
  return trainer


def _rate_check(experiment, folder: str) -> Callable[[int, float], str]:
  """Returns a function that warns if the learning rate is too large."""
  if experiment.task.byzantine is not None:
    # Attacks also make the loss rise.
    return lambda round_num, loss: ''
  tip = 'lower the learning rate'
  rate = getattr(experiment.hyperparameters, 'learning_rate', None)
  if rate:
    tip = f'--{experiment.method.name}_learning_rate={rate / 10:g}'
  if experiment.task.about and not experiment.flag('standardize'):
    tip = f'scale the features with --standardize, or {tip}'
  initial_loss = results.read_config(folder).get('initial_loss')
  return rate_check.RateCheck(initial_loss, f'{tip}.')


def _tier_table(
    experiment, process, trainer, folder: str
) -> Callable[[int], None]:
  """Returns a function that adds the tiers' models to `tiers.csv`."""
  task = experiment.task
  common = task.global_test
  if common is None and len(process.tiers) > 1:
    common = client_data.pool([task.test[client] for client in task.evaluated])
  if common is None or process.evaluate_global is None:
    return lambda round_num: None
  rows: list[Mapping[str, Any]] = [
      # Tables of before had no rounds.
      row for row in results.read_rows(folder, results.TIERS)
      if int(row.get('round', sys.maxsize)) <= trainer.position.round
  ]

  def add(round_num):
    rows.extend(outputs.tier_rows(
        experiment.variant, experiment.flag('seed'), round_num,
        process.tier_parameters, trainer.evaluate_global(common),
    ))
    results.write_tiers(folder, rows)

  return add


def _write_clients(experiment, trainer, folder: str, metrics) -> None:
  """Writes `clients.csv`: evaluated training clients and held-out clients."""
  task = experiment.task
  seen = program.Data(task.train, task.test).pick(task.evaluated)
  unseen = trainer.evaluate(experiment.unseen)
  numbers = [*experiment.clients[task.evaluated], *experiment.unseen_clients]
  names = experiment.names(numbers)
  rows = outputs.client_rows(
      names[:len(seen.train)], 1, seen, metrics, task.model
  ) + outputs.client_rows(
      names[len(seen.train):], 0, experiment.unseen, unseen, task.model
  )
  if outputs.has_quality(experiment.task, experiment.metric):
    outputs.add_quality(experiment.task, rows, [
        each for data in (seen, experiment.unseen)
        for each in trainer.predictions(data)
    ], folder)
  results.write_clients(folder, [rows[row] for row in np.argsort(numbers)])


def _write_validation(experiment, trainer, folder: str) -> None:
  """Writes `validation.csv`, if there are validation data."""
  task = experiment.task
  if task.validation is None:
    return
  data = program.Data(task.train, task.validation).pick(task.evaluated)
  names = experiment.names(experiment.clients[task.evaluated])
  rows = [
      dict(
          client=row['client'], num_validation=row['num_test'],
          accuracy=row['accuracy'], loss=row['loss'],
          **{name: row[name] for name in outputs.own_metrics(task.model)},
      )
      for row in outputs.client_rows(
          names, 1, data, trainer.evaluate(data), task.model
      )
  ]
  if outputs.has_quality(task, experiment.metric):
    outputs.add_quality(task, rows, trainer.predictions(data))
  results.write_validation(folder, rows)


def _write_finetuning(experiment, process, trainer, folder: str) -> None:
  """Evaluates the global model after local steps, if requested."""
  steps = finetune_steps(experiment.flag('finetune_steps'))
  if not steps:
    return
  if '1' not in process.tiers:
    print(
        f'{experiment.variant} has no global model: --finetune_steps has no'
        ' effect.'
    )
    return
  training = experiment.hyperparameters
  computation = finetuning.build_evaluate_finetuned(
      process, process.tiers['1'], steps,
      learning_rate=_finetune_rate(experiment), batch_size=training.batch_size,
      local=(
          local_step.build(training)
          if isinstance(training, hp.LocalTraining) else local_step.PLAIN
      ),
  )
  task = experiment.task
  seen = program.Data(task.train, task.test).pick(task.evaluated)
  rows = []
  for is_seen, data in ((1, seen), (0, experiment.unseen)):
    rows += finetuning_rows.rows(
        is_seen, trainer.evaluate_finetuned(computation, data)
    )
  results.write_finetuning(folder, rows)


def finetune_steps(text: str) -> list[int]:
  """Returns the numbers in `--finetune_steps`.

  Raises:
    flags.UsageError: If they are not increasing integers >= 0.
  """
  items = [item for item in text.split(',') if item]
  # At most nine digits, so that each fits into TensorFlow's integers.
  numbers = [int(item) for item in items if re.fullmatch('[0-9]{1,9}', item)]
  if len(numbers) < len(items) or numbers != sorted(set(numbers)):
    raise flags.UsageError(
        '`--finetune_steps` must be increasing integers >= 0 with commas'
        f' between them, such as 0,1,2,5,10, found {text!r}.'
    )
  return numbers


def _write_arrays(task, trainer, folder: str, metrics) -> None:
  """Writes mixing weights and routers, if the method has them."""
  if 'mixing' in trainer.state:
    mixing = clusters.dense_mixing(trainer.state['mixing'], task.num_clients)
    results.write_matrix(folder, results.MIXING, mixing)
  if 'router' in metrics:
    known = metrics['router']
    router = np.full_like(
        known, np.nan, shape=[task.num_clients, *known.shape[1:]]
    )
    router[task.evaluated] = known
    results.write_matrix(folder, results.ROUTER, router)


def _describe(experiment, folder: str, quiet: bool) -> None:
  """Prints method, task and data sizes; writes the data map."""
  task = experiment.task
  names = experiment.names(experiment.clients)
  held = len(experiment.unseen_clients)
  byzantine = task.num_clients - len(task.honest)
  notes = [f'{byzantine} Byzantine'] if byzantine else []
  if task.eval_clients is not None:
    notes.append(f'{len(task.eval_clients)} are evaluated')
  total = lambda part: on_demand.sizes(part).sum()
  print(
      f'{experiment.variant} on {task.name} ({task.partition}):'
      f' {task.num_clients} clients'
      + (f' ({", ".join(notes)})' if notes else '')
      + (f' and {held} held out' if held else '')
      + f', {total(task.train)} training'
      + (f', {total(task.validation)} validation' if task.validation else '')
      + f' and {total(task.test)} test examples,'
      + ('' if experiment.stopping is None else ' at most')
      + f' {task.rounds}'
      + (' rounds.' if task.arrivals is None else ' server updates,'
         f' {task.arrivals.in_flight} clients in flight,'
         f' largest delay {task.arrivals.max_delay} updates.')
  )
  for remark in (
      experiment.remark, task.about,
      experiment_lib.remark_on_cohorts(experiment),
  ):
    if remark:
      print(remark)
  if task.class_counts is not None and not quiet:
    print(partition.table(
        task.class_counts, task.groups, names=names, classes=task.class_names
    ))
  described = experiment.hyperparameters.describe(task)
  if described and not quiet:
    print(described)
  if (
      task.class_counts is not None or task.client_names is not None
      or task.has_groups
  ):
    results.write_data(
        folder, names, task.class_counts, task.groups, task.class_names
    )


def _other_rate(experiment, folder: str) -> str:
  """Returns a tip: restart with another rate, or fork from the checkpoint."""
  if saved_runs.position(folder) is None:
    return ''
  losses = [
      float(row['loss_mean'])
      for row in results.read_rows(folder, results.METRICS)
  ]  # A fork may have none: its checkpoint comes from another run.
  first = results.read_config(folder).get('initial_loss') or (losses or [0])[0]
  flag = f'--{experiment.method.name}_learning_rate=... --output_dir=...'
  if losses and not losses[-1] <= first:
    return (
        f' Its test loss was {losses[-1]:.4g}, after {first:.4g} at first: do'
        f' not resume, but start a new run with another rate: {flag}'
    )
  return f' Or fork from it with another rate: --fork={folder} {flag}'


def _last_checkpoint(folder: str) -> str:
  """Returns the sentence that names the last good checkpoint."""
  try:
    position = saved_runs.position(folder)
  except damaged.DamagedError as error:
    return f'The last checkpoint cannot be read: {error}'
  if not os.path.isdir(folder):
    return f'Its folder was deleted: {folder}.'
  if position is None:
    return 'There is no checkpoint yet.'
  path = os.path.join(folder, results.CHECKPOINT)
  return (
      f'The last good checkpoint is {path}, round {position.round}. Tip:'
      ' rerun the same command to resume from there.'
  )


_HELP = """Trains one method on one task with one seed.

    python -m binaries.train --algo=NAME --task=NAME [--flag=value ...]

Trains one method on one task with one seed. Writes config.json, metrics.csv,
clients.csv, checkpoint.sqlite, TensorBoard events and plots to --output_dir.
Rerun the same command to resume after an interruption.
"""

main = flags.Program(
    'train', _HELP, _run,
    flags.own_flag(
        'algo', DEFAULT_ALGO,
        'Method, see above; brackets set its options: perm[lambda=0.1].',
    ),
    flags.own_flag(
        'fork', '',
        'Folder of a run: starts a new run from its last checkpoint, with its'
        ' flags unless others are given, such as another learning rate.',
    ),
    *exports.FLAGS, without=(), fills=(), resumes=True,
)
