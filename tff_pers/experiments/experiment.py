"""Builds from flags one method on one task with one seed."""

import dataclasses
from importlib import metadata
import platform
import re
from typing import Any, Collection, Iterable, Mapping, Optional, Sequence

import numpy as np
from scipy import stats
import tensorflow as tf

import baselines  # pylint: disable=unused-import
from tff_pers import attacks
from tff_pers.aggregators import robust
import tff_pers.algorithms  # pylint: disable=unused-import
from tff_pers.analysis import privacy
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.config import settings
from tff_pers.data import brackets
from tff_pers.data import client_data
from tff_pers.data import holdout
from tff_pers.data import on_demand
from tff_pers.data import task as task_lib
from tff_pers.data import tasks
from tff_pers.evaluation import stopping as stopping_lib
from tff_pers.experiments import auto_rounds
from tff_pers.experiments import continuing
from tff_pers.experiments import events
from tff_pers.experiments import flags
from tff_pers.experiments import privacy as privacy_flags
from tff_pers.simulation import cohort
from tff_pers.simulation import program
from tff_pers import tff

# Flags that may differ when a run is resumed, because they change no number.
_FREE = (
    'output_dir', 'resume', 'fork', 'export', 'export_clients', 'config',
    'import', 'quiet', 'compile_cache',
)
# Shared flags that brackets may set: `fedavg[client_weighting=uniform]`.
_IN_BRACKETS = ('client_weighting', 'driver', 'eval_every', 'rounds')
# Shared flags whose defaults are fields of the task.
_FROM_TASK = (
    'client_weighting', 'clients_per_round', 'rounds', 'eval_every',
    'tier_assignment',
)
# A cohort has "often" too many attackers above this share of rounds.
_OFTEN = 0.05


@dataclasses.dataclass(frozen=True)
class Experiment:
  """Everything that determines a run.

  Attributes:
    variant: The method with its bracket options, e.g. `perm[lambda=0.1]`.
    method: The method.
    hyperparameters: Its hyperparameters.
    task: The task, without the held-out clients.
    clients: For each client of `task`, its number in the whole task.
    unseen: Data of the honest held-out clients, indexed after those of `task`.
    unseen_clients: Their numbers in the whole task.
    config: Contents of `config.json`.
    stopping: Rule by which validation data end the run early; None: no rule.
    plan: Virtual timing of the run.
    metric: Metric of validation data by which choices are made.
    promised: Privacy guarantee to the clients; None: no guarantee.
  """

  variant: str
  method: methods.Method
  hyperparameters: Any
  task: task_lib.Task
  clients: np.ndarray
  unseen: program.Data
  unseen_clients: np.ndarray
  config: Mapping[str, Any]
  stopping: Optional[stopping_lib.Rule] = None
  plan: events.Plan = events.Plan()
  metric: str = 'accuracy'
  promised: Optional[privacy.Guarantee] = None

  @property
  def remark(self) -> str:
    """A sentence on the model that was chosen for the method, or ''."""
    return self.config.get('remark', '')

  def names(self, numbers: Iterable[int]) -> list[Any]:
    """Returns the names of clients, given their numbers in the whole task.

    They are texts as in the data, or the numbers if there are no names.
    """
    if self.task.client_names is None:
      return [int(number) for number in numbers]
    everybody = [*self.clients, *self.unseen_clients]
    names = dict(zip(everybody, self.task.client_names))
    return [names[number] for number in numbers]

  def flag(self, name: str) -> Any:
    """Returns the value of a flag after all defaults are applied."""
    return self.config['flags'][name]


def build(
    given: Mapping[str, Any],
    table: Mapping[str, flags.Flag],
    *,
    brackets_win: bool = False,
    task: Optional[task_lib.Task] = None,
    byzantine_last: bool = False,
) -> Experiment:
  """Returns the experiment that the flags describe.

  Args:
    given: Values of the flags that were given, including `algo` (possibly with
      brackets).
    table: All flags, see `flags.all_flags`.
    brackets_win: Whether bracket options may contradict flags, and flags may
      have no effect (as in compare, whose flags are for all variants).
    task: The whole task of these flags, if it has been built already.
    byzantine_last: Whether Byzantine clients come after all others, so that
      their indices do not depend on the seed.

  Raises:
    flags.UsageError: If flags conflict, or the data cannot be used.
  """
  # Recorded because resuming needs the same modules with methods and tasks.
  imports = {'import': given['import']} if given.get('import') else {}
  given = {name: value for name, value in given.items() if name not in _FREE}
  given = auto_rounds.with_validation(given)
  asked_for = dict(given)
  method, options, recipe = _parsed(given['algo'])
  with flags.usage_errors():
    family = tasks.get(given.get('task', flags.DEFAULTS['task']))
  _open_brackets(given, method, options, table, brackets_win)
  if 'client_weighting' in recipe:
    given.setdefault('client_weighting', recipe.pop('client_weighting'))
  _check_weighting(given, method, options, brackets_win)
  with flags.usage_errors():
    driver = events.driver_of(method, given)
  check_owners(given, table, [method.name], family.name)
  task_options = _task_options(given, table, family)
  full = task or _build_task(given, family, task_options)
  with flags.usage_errors():
    held_out = holdout.choose(
        full.num_clients, given.get('holdout_clients', 0), given.get('seed', 0),
        full.client_keys,
    )
  clients: np.ndarray = np.setdiff1d(np.arange(full.num_clients), held_out)
  if byzantine_last:
    honest = np.isin(clients, full.honest)
    clients = np.concatenate([clients[honest], clients[~honest]])
  unseen = np.intersect1d(held_out, full.honest)
  task = _restrict(full, clients, unseen, given)
  with flags.usage_errors():
    cohort.uniform(task.num_clients, task.clients_per_round)
    task = _with_eval_clients(task, given)
  own = own_flags(given, table, 'method', method.name)
  # In a comparison, flags are for all variants, brackets for this one only.
  asked = {k: own[k] for k in options if k in own} if brackets_win else own
  hyperparameters = _hyperparameters(method, full, {**recipe, **own}, asked)
  metric = auto_rounds.metric(
      task, given.get('metric', flags.DEFAULTS['metric'])
  )
  if task.about:
    task = dataclasses.replace(
        task,
        about=f'{task.about} Validation metric: {metric} (--metric).'
        + (f' F1 is of {task.class_names[1]}.' if task.num_classes == 2 else '')
    )
  task, stopping = auto_rounds.settle(
      task, given, hyperparameters, metric
  )
  with flags.usage_errors(f'{method.name}_', ['aggregator']):
    informed(hyperparameters, task)
  promised = privacy_flags.guarantee(
      given, method, hyperparameters, driver, task
  )
  _check_attack(given.get('attack', flags.DEFAULTS['attack']), task)
  missing = methods.missing_needs(method, task.traits, hyperparameters)
  fit = methods.fit(
      method, family.declares.traits, family.declares.alternatives()
  )
  # Another model may have what the method needs, or what serves it better.
  may_choose = not brackets_win and 'model' not in given and fit != 'no'
  wanted = missing
  if may_choose and not missing:
    with flags.usage_errors(f'{method.name}_', hp.specs(hyperparameters)):
      wanted = [
          methods.NEEDS[name] for name in hyperparameters.wants(task)
          if not methods.NEEDS[name].holds(task.traits)
      ]
  if may_choose and wanted and wanted[0].model:
    try:
      return _with_model(
          build(
              {**asked_for, **imports, 'model': wanted[0].model}, table,
              byzantine_last=byzantine_last,
          ),
          wanted[0],
      )
    except flags.UsageError as error:
      if 'model' not in str(error):  # Else the task has its own model.
        raise
  if missing:
    tip = '' if fit == 'no' else f' Tip: {missing[0].tip}.'
    raise flags.UsageError(
        f'`--algo` {method.name} needs {missing[0].sentence}; `--task`'
        f' {family.name} with these flags lacks it.{tip}'
    )
  events.check(driver, given, hyperparameters, is_one=not brackets_win)
  if driver == 'events':
    task = events.in_events(
        task, given, hyperparameters, options if brackets_win else given
    )
    given.update({  # As a run of these flags alone counts them.
        name: getattr(task, name) for name in events.COUNTS if name in given
    })
  names: Collection[Any] = clients
  if task.client_names is not None:
    names = task.client_names[:task.num_clients]
  plan = events.plan(driver, task, given, hyperparameters, names)
  if plan.schedule is not None:
    # What a method may know about the events before training.
    task = dataclasses.replace(task, arrivals=task_lib.Arrivals(
        plan.schedule.in_flight, plan.schedule.max_delay(task.rounds)
    ))
  shared = _shared_record(given, table, method, full, task)
  return Experiment(
      variant=given['algo'], method=method, hyperparameters=hyperparameters,
      task=task, clients=clients,
      # After all clients that train, so that table rows do not collide.
      unseen=_indexed(full, unseen, first=len(clients)),
      unseen_clients=unseen,
      config=dict(
          variant=given['algo'],
          flags={
              **shared,
              **_prefixed(method.name, hyperparameters),
              **_prefixed(family.name, task_options),
          },
          # The same command has the same flags. In a comparison, brackets
          # override flags that were given.
          given={**(given if brackets_win else asked_for), **imports},
          versions=_versions(),
          seeds=dict(run=shared['seed']),
          metric=metric,
          revision=method.revision,
          splits=task.splits,
          rows=full.rows,
          y_is_scaled=(
              task.features is not None and task.features.y_mean is not None
          ),
          x_scale=task.features.x_scale if task.features else 1.0,
      ),
      stopping=stopping,
      plan=plan,
      metric=metric,
      promised=promised,
  )


def is_same_command(
    given: Mapping[str, Any], saved: Mapping[str, Any]
) -> bool:
  """Returns whether flags equal those in the `config.json` of a run."""
  def counted(flags_):
    whole = auto_rounds.with_validation(flags_)
    return {name: whole[name] for name in whole if name not in _FREE}
  return counted(given) == counted(saved['given'])


def resumed(
    given: Mapping[str, Any], saved: Mapping[str, Any]
) -> dict[str, Any]:
  """Returns the flags that the run of a `config.json` was started with.

  Raises:
    flags.UsageError: If a flag given now differs from the saved one; `rounds`,
      or `max_rounds` with rounds=auto, may be larger.
  """
  grown = {}
  if continuing.grows(saved, given):
    name = continuing.last_round_flag(saved['flags'])
    grown[name] = given[name]
  _check_equal(
      _all_flags(saved), given,
      [name for name in given if name not in (*_FREE, *grown)],
  )
  return {**saved['given'], **grown}


def check_same(saved: Mapping[str, Any], config: Mapping[str, Any]) -> None:
  """Refuses to resume a run that was started with other flags.

  Raises:
    flags.UsageError: Names the first flag that differs, with both values, or
      says that rows have changed or would be split differently.
  """
  continuing.check_data(saved, config)
  old, new = _all_flags(saved), _all_flags(config)
  names = set(old) | set(new)
  if continuing.grows(saved, new):
    names.remove(continuing.last_round_flag(saved['flags']))
  _check_equal(old, new, names)


def _all_flags(config) -> dict[str, Any]:
  """Returns the flags of a run by name.

  A flag that is newer than the run gets its default.
  """
  method = methods.get(brackets.parse(config['variant'])[0])
  return {
      **flags.DEFAULTS, **_prefixed(method.name, method.hyperparameters()),
      **config['flags'], 'algo': config['variant'],
  }


def _check_equal(old, new, names) -> None:
  # Named first, because other flags follow from these two.
  for name in sorted(names, key=lambda n: (n not in ('algo', 'task'), n)):
    if new.get(name) != old.get(name):
      raise flags.UsageError(
          f'`--{name}` must be {old.get(name)!r} as in config.json to resume'
          f' this run, found {new.get(name)!r}.'
      )


def of_variant(
    variant: str, given: Mapping[str, Any], table: Mapping[str, flags.Flag]
) -> tuple[methods.Method, Any]:
  """Returns a method and its hyperparameters, without a task's settings.

  Bracket options of the variant override flags.

  Raises:
    flags.UsageError: If the method or option does not exist or a value is bad.
  """
  method, options, recipe = _parsed(variant)
  given = dict(given)
  _open_brackets(given, method, options, table, brackets_win=True)
  own = own_flags(given, table, 'method', method.name)
  names = hp.specs(method.hyperparameters)
  with flags.usage_errors(f'{method.name}_', names):
    recipe.pop('client_weighting', None)  # It belongs to the task.
    acting = hp.without_idle(method.hyperparameters, recipe, own)
    return method, hp.replace(method.hyperparameters(), **acting, **own)


def _parsed(variant: str):
  """Returns the method, the bracket options and the recipe of a variant."""
  with flags.usage_errors():
    name, options = brackets.parse(variant)
    method = methods.get(name)
    return method, options, method.recipe(options.pop('recipe', ''))


def folder_name(variant: str) -> str:
  """Returns the folder name of a variant: `perm-a=1` for `perm[a=1]`."""
  return re.sub(r'[^\w.=+-]+', '-', variant).strip('-')


def _with_model(found: Experiment, need: methods.Need) -> Experiment:
  """Returns the experiment whose model was chosen because of a need.

  The flags that were given stay as they were, so that the same command resumes.
  """
  given = {k: v for k, v in found.config['given'].items() if k != 'model'}
  remark = (
      f'The default model of {found.task.name} does not fit'
      f' {found.method.name}, which needs {need.sentence}. This run has'
      f' --model={need.model}.'
  )
  config = {**found.config, 'given': given, 'remark': remark}
  return dataclasses.replace(found, config=config)


def _open_brackets(given, method, options, table, brackets_win) -> None:
  """Adds to `given` the flags that the brackets of a variant set."""
  for option, text in options.items():
    name = option if option in _IN_BRACKETS else f'{method.name}_{option}'
    if name not in table:
      known = [*hp.specs(method.hyperparameters), *_IN_BRACKETS]
      known += ['recipe'] * bool(method.recipes)
      raise flags.UsageError(
          f'An option of {method.name} must be one of'
          f' {", ".join(sorted(known))}, found {option!r}.'
      )
    argv = ['', f'--{name}={text}']
    value = flags.parse(argv, {name: table[name]})[name]
    if given.get(name, value) != value and not brackets_win:
      raise flags.UsageError(
          f'`--{name}` must agree with the brackets of `--algo`, found'
          f' {given[name]!r} and {value!r}.'
      )
    given[name] = value


def _check_weighting(given, method, options, brackets_win) -> None:
  """Refuses client weights if the method does not use them."""
  name = 'client_weighting'
  if method.weighs_clients or given.get(name, 'uniform') == 'uniform':
    return
  if brackets_win and name not in options:
    del given[name]  # It is for other variants.
    return
  raise flags.UsageError(
      f'`--{name}` must be uniform or left out with {method.name}, which gives'
      f' all clients equal weights, found {given[name]!r}.'
  )


def check_owners(
    given: Mapping[str, Any], table: Mapping[str, flags.Flag],
    algos: Sequence[str], task: str,
) -> None:
  """Refuses flags of methods or tasks that are not run.

  Raises:
    flags.UsageError: Names the first such flag, and what is run.
  """
  for name in given:
    flag = table[name]
    run = list(algos) if flag.kind == 'method' else [task]
    if flag.kind != 'shared' and flag.owner not in run:
      raise flags.UsageError(
          f'`--{name}` must not be given because it is a flag of'
          f' {flag.kind} {flag.owner}, found {flag.kind} {", ".join(run)}.'
      )


def informed(
    hyperparameters: Any, task: task_lib.Task, private_mean: str = ''
) -> Any:
  """Returns hyperparameters whose robust rule knows the number of attackers.

  With cohorts, the rule assumes the Byzantine share of clients times the cohort
  size, rounded up; a cohort may contain more. A private mean replaces the rule.

  Raises:
    ValueError: If cohorts are too small for the rule.
  """
  aggregator = getattr(hyperparameters, 'aggregator', 'mean')
  if private_mean:
    return hp.replace(hyperparameters, aggregator=private_mean)
  if aggregator == 'mean':
    return hyperparameters
  cohort_size = task.clients_per_round or task.num_clients
  number = task.num_clients - len(task.honest)
  share = -(-number * cohort_size // task.num_clients)
  aggregator = robust.with_num_byzantine(aggregator, share)
  robust.check(aggregator, cohort_size)
  return hp.replace(hyperparameters, aggregator=aggregator)


def remark_on_cohorts(experiment: Experiment) -> str:
  """Returns a sentence if cohorts often have more attackers than the rule's f.

  That is, more than 5 % of them, which the server draws without replacement.
  """
  task = experiment.task
  hyperparameters = informed(experiment.hyperparameters, task)
  text = getattr(hyperparameters, 'aggregator', 'mean')
  rule = robust.parse(text)
  size, attackers = task.clients_per_round, task.num_clients - len(task.honest)
  if not (size and attackers and rule.needs_f):
    return ''
  chances = stats.hypergeom.sf(
      np.arange(size), task.num_clients, attackers, size
  )
  if chances[rule.f] <= _OFTEN:
    return ''
  enough = int(np.argmax(chances <= _OFTEN))
  better = robust.as_text(dataclasses.replace(rule, f=enough))
  try:
    robust.check(better, size)
    tip = f'--{experiment.method.name}_aggregator={better}'
  except ValueError:
    tip = 'larger cohorts'
  return (
      f'{chances[rule.f]:.0%} of the cohorts have more than {rule.f} Byzantine'
      f' clients, which is the f of {text}: {size} of {task.num_clients}'
      f' clients are drawn, and {attackers} of these are Byzantine. Tip: {tip}.'
  )


def _check_attack(text: str, task: task_lib.Task) -> None:
  """Refuses an attack if there are no Byzantine clients."""
  with flags.usage_errors('', ['attack']):
    attack = attacks.parse(text)
  if attack.name != 'none' and task.byzantine is None:
    raise flags.UsageError(
        '`--attack` must be none without Byzantine clients, found'
        f' {attack.name}. Tip: --num_byzantine=5.'
    )


def _task_options(given, table, family):
  own = own_flags(given, table, 'task', family.name)
  with flags.usage_errors(f'{family.name}_', hp.specs(family.options)):
    return hp.replace(family.options(), **own)


def _build_task(given, family, options) -> task_lib.Task:
  """Builds the task; raises UsageError for bad data or flags."""
  names = [f.name for f in dataclasses.fields(tasks.TaskRequest)]
  request = {name: given[name] for name in names if name in given}
  try:
    with flags.usage_errors('', names):
      task = family.build(tasks.TaskRequest(**request), options)
  except (OSError, ImportError) as error:
    raise flags.UsageError(' '.join(f'{error}'.split())) from error
  except MemoryError as error:
    raise flags.UsageError(
        f'`--task` {family.name} must fit into memory, found it too large.'
        ' Tip: fewer clients, or smaller numbers in the flags of the task.'
    ) from error
  return dataclasses.replace(task, **{
      name: _constant(getattr(task, name))
      for name in program.Data._fields
  })


def _constant(clients):
  """Returns clients with read-only arrays; None stays None."""
  if clients is None or isinstance(clients, on_demand.OnDemand):
    return clients
  return [client_data.constant(data) for data in clients]


def own_flags(
    given: Mapping[str, Any], table: Mapping[str, flags.Flag], kind: str,
    owner: str,
) -> dict[str, Any]:
  """Returns the given flags of one method or task, without the prefix."""
  return {
      name[len(owner) + 1:]: value for name, value in given.items()
      if (flag := table.get(name)) and (flag.kind, flag.owner) == (kind, owner)
  }


def _hyperparameters(method, task, own, asked):
  """Returns the hyperparameters: `own` from flags, the rest from the task.

  Only the `asked` ones are refused if they have no effect in this variant.
  """
  names = hp.specs(method.hyperparameters)
  chosen = {
      **settings.of(task.name, method.name, names, task.regimes), **own
  }
  with flags.usage_errors(f'{method.name}_', names):
    acting = hp.without_idle(method.hyperparameters, chosen, asked)
    return hp.replace(method.hyperparameters(), **acting, **asked)


def _restrict(
    task: task_lib.Task, clients, unseen, given
) -> task_lib.Task:
  """Returns the task with only `clients`, and shared flags applied."""
  data = _indexed(task, clients, first=0)
  changes = {
      name: given[name]
      for name in _FROM_TASK
      if name in given and given[name] != auto_rounds.AUTO
  }
  pick = lambda rows: None if rows is None else np.asarray(rows)[clients]
  tiers, names = task.tiers, task.client_names
  everybody = [*clients, *unseen]
  if tiers is not None:
    tiers = np.asarray(tiers)[everybody]
  if names is not None:
    names = [names[client] for client in everybody]
  return dataclasses.replace(
      task, train=data.train, test=data.test, validation=data.validation,
      groups=pick(task.groups), class_counts=pick(task.class_counts),
      byzantine=pick(task.byzantine),
      optimum=tf.nest.map_structure(pick, task.optimum), tiers=tiers,
      num_new_clients=len(unseen), client_names=names, **changes,
  )


def _with_eval_clients(task: task_lib.Task, given) -> task_lib.Task:
  """Returns the task with the sample of clients to evaluate, if any."""
  number = given.get('eval_clients', flags.DEFAULTS['eval_clients'])
  if not number:
    return task
  return dataclasses.replace(task, eval_clients=cohort.evaluated(
      task.honest, number, given.get('seed', flags.DEFAULTS['seed'])
  ))


def _indexed(task: task_lib.Task, clients, first: int) -> program.Data:
  """Returns the data of `clients`, numbered from `first`."""
  data = program.Data(task.train, task.test, task.validation)
  return data.pick(clients, first)


def _shared_record(given, table, method, full, task) -> dict[str, Any]:
  """Returns the values of all shared flags; None: chosen by the task."""
  record = {
      name: given.get(name, flags.DEFAULTS.get(name))
      for name, flag in table.items()
      if flag.kind == 'shared' and name not in _FREE
  }
  record.update(
      algo=method.name, partition=given.get('partition', task.partition),
      num_clients=full.num_clients, model=given.get('model', task.model.name),
  )
  for name in _FROM_TASK:
    record[name] = getattr(task, name)
  if given.get('rounds') == auto_rounds.AUTO:
    record.update(rounds=auto_rounds.AUTO, max_rounds=task.rounds)
  if full.features is not None:
    record['standardize'] = full.features.standardize
  return record


def _prefixed(owner: str, options) -> dict[str, Any]:
  return {f'{owner}_{k}': v for k, v in hp.as_dict(options).items()}


def _versions() -> dict[str, str]:
  try:
    own = metadata.version('tff_pers')
  except metadata.PackageNotFoundError:
    own = 'not installed'
  return dict(
      python=platform.python_version(), tensorflow=tf.__version__,
      tensorflow_federated=tff.__version__, numpy=np.__version__, tff_pers=own,
  )
