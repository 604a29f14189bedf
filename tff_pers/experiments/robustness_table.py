"""Tabulates robust rules against attacks, with a heat map.

    python -m binaries.robustness --algo=A --rules=R,S --attacks=T,U
        --num_byzantine=N --seeds=0,1 [--flag=value ...]

Trains a method with every rule in place of its mean, under every attack, with
every seed; all clients take part in every round. On overpersonalized and
overpersonalized_control the N Byzantine clients are added; on other tasks they
are N of the clients, drawn by the seed. After the last round, measures the
distance to the optimum (if it is known) or the accuracy over honest clients. A
cell shows the median over seeds, and the worst seed in parentheses; a diverged
run is worse than any number, and shows a large distance, inf or "diverged".
Writes robustness.csv, robustness.md and the heat map robustness to
--output_dir. Rerun the same command to resume: existing cells are not run
again, and rules, attacks and seeds may be added.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025 (Algorithm 5).
"""

import itertools
import os
from typing import Any, Sequence

import numpy as np

from tff_pers import attacks as attacks_lib
from tff_pers.aggregators import robust
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import grids
from tff_pers.evaluation import results
from tff_pers.evaluation import robustness
from tff_pers.experiments import auto_rounds
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import folders
from tff_pers.experiments import processes
from tff_pers.experiments import resume_flags
from tff_pers.experiments import runner
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.simulation import cohort
from tff_pers.simulation import non_finite
from tff_pers.simulation import program
from tff_pers.simulation import store

RULES = (
    'mean,norm_clipping,median,trimmed_mean,geometric_median,krum,multi_krum,'
    'centered_clipping,caf,bucketing(median)'
)
# Attack options for tasks whose messages and their spread converge to 0: with
# relative noise even the plain mean would converge.
_ABSOLUTE = {'noise': 'noise[std=10]'}
_FORMULAS = ('overpersonalized', 'overpersonalized_control')
# Exact solves, and the theorem's step 1 / (4 L); L is 3.57 to 3.82 in the
# problems of the spec sheet.
_SETTINGS = {
    (task, 'ffgg'): dict(
        ffgg_tuner='exact', ffgg_server_learning_rate=0.066
    ) for task in _FORMULAS
}
_FILE, _CONFIG = 'robustness.csv', 'robustness.json'


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  if given.get('rounds') == auto_rounds.AUTO:
    raise flags.UsageError(
        '`--rounds` must be an integer here, because all cells of the table'
        ' have the same number of rounds, found auto.'
    )
  top = flags.output_dir(given, f'robustness_{given["task"]}')
  given.pop('output_dir', None)
  with flags.usage_errors():
    rules = _names(given.pop('rules'), 'rules', robust.parse)
    attacks = _names(given.pop('attacks'), 'attacks', attacks_lib.parse)
  seeds = sweep_lib.parse_seeds(given.pop('seeds'))
  _check_algo(given['algo'])
  grid = _Grid(given, table)
  first = grid.check(rules, attacks, seeds[0])
  is_distance = first.task.optimum is not None
  with flags.usage_errors():
    lock = folders.FolderLock(top)
  with lock:
    config = os.path.join(top, _CONFIG)
    resume_flags.check(config, given)
    resume_flags.write(config, given)
    rows = results.read_rows(
        top, _FILE, robustness.COLUMNS, numbers=['final']
    )
    runner.use_runtime(first.flag, None)
    # Seeds vary fastest because they share a process.
    _fill(grid, list(itertools.product(rules, attacks, seeds)), rows, top)
    text = robustness.markdown(rows, is_distance)
    files.write_text(os.path.join(top, 'robustness.md'), text + '\n')
    robustness.plot(rows, top, is_distance)
    print(f'\n{text}\nResults are in {top}.')
  return 0


def _names(listed: str, flag: str, parse) -> list[str]:
  """Returns the items of a list of rules or attacks; each is checked."""
  items = brackets.split_list(listed)
  for item in items:
    parse(item)
  if not items or len(set(items)) < len(items):
    raise ValueError(
        f'`{flag}` must be one or more distinct names, found {listed!r}.'
    )
  return items


def _check_algo(algo: str) -> None:
  """Refuses a method without a mean that a rule could replace."""
  with flags.usage_errors():
    name, options = brackets.parse(algo)
    method = methods.get(name)
  if not issubclass(method.hyperparameters, hp.Aggregation):
    able = [
        name for name in methods.names()
        if issubclass(methods.get(name).hyperparameters, hp.Aggregation)
    ]
    raise flags.UsageError(
        f'`--algo` must be a method with an aggregator, one of'
        f' {", ".join(able)}, found {name}.'
    )
  if 'aggregator' in options:
    raise flags.UsageError(
        f'`--algo` must leave the aggregator to `--rules`, found {algo!r}.'
    )


class _Grid:
  """The experiments of all cells; data are made once per seed."""

  def __init__(self, given, table):
    algo = brackets.parse(given['algo'])[0]
    self._given = {**_SETTINGS.get((given['task'], algo), {}), **given}
    self._table = {**table, **dict([
        flags.own_flag('attack', 'none', 'Attack.'),
        flags.own_flag('seed', 0, 'Seed.'),
    ])}
    self._tasks: dict[int, Any] = {}

  def check(
      self, rules: Sequence[str], attacks: Sequence[str], seed: int
  ) -> experiment_lib.Experiment:
    """Builds all cells of a seed without training, so that errors show early.

    Returns:
      The first one.

    Raises:
      flags.UsageError: If a cell cannot be run.
    """
    first = self.experiment(rules[0], attacks[0], seed)
    for rule in rules[1:]:
      self.experiment(rule, attacks[0], seed)
    for attack in attacks[1:]:
      self.experiment(rules[0], attack, seed)
    if first.task.optimum is None and not first.task.num_classes:
      raise flags.UsageError(
          '`--task` must have a known optimum or classes, by which cells are'
          f' measured, found {first.task.name}.'
      )
    return first

  def experiment(self, rule: str, attack: str, seed: int):
    """Returns the experiment of a cell, Byzantine clients last."""
    if self._given['task'] in _FORMULAS:
      attack = _ABSOLUTE.get(attack, attack)
    found = experiment_lib.build(
        dict(
            self._given, seed=seed, attack=attack,
            algo=grids.with_option(self._given['algo'], 'aggregator', rule),
        ),
        self._table, brackets_win=True, task=self._tasks.get(seed),
        byzantine_last=True,
    )
    if found.plan.schedule is not None:
      raise flags.UsageError(
          '`--driver` must be rounds, in which a rule sees several messages,'
          f' found events of {found.variant}.'
      )
    self._tasks[seed] = found.task
    return found


def _fill(grid: _Grid, cells, rows: list[Any], top: str) -> None:
  """Runs the cells without a row; adds and writes each when it is known."""
  done = {(row['rule'], row['attack'], row['seed']) for row in rows}
  for number, (rule, attack, seed) in enumerate(cells, 1):
    if (rule, attack, str(seed)) in done:
      continue
    experiment = grid.experiment(rule, attack, seed)
    task = experiment.task
    final = _train(experiment, processes.build(experiment).process)
    rows.append(dict(
        task=task.name, algo=experiment.method.name, rule=rule, attack=attack,
        num_byzantine=task.num_clients - len(task.honest), seed=str(seed),
        final=repr(final),
    ))
    results.write_csv(os.path.join(top, _FILE), robustness.COLUMNS, rows)
    print(
        f'[{number}/{len(cells)}] {os.path.basename(top)}: {rule}, {attack},'
        f' seed {seed}: {final:.3g}', flush=True,
    )


def _train(experiment, process) -> float:
  """Returns the distance or accuracy after the last round."""
  task = experiment.task
  with store.ClientStateStore() as states:
    trainer = program.TrainingProgram(
        process, program.Data(task.train, task.test), states,
        seed=experiment.flag('seed'), byzantine=task.byzantine,
        evaluated=task.eval_clients, optimum=task.optimum, on_non_finite='drop',
    )
    sampler = cohort.uniform(task.num_clients)
    try:
      for round_num in range(task.rounds):
        trainer.train_round(
            sampler(experiment.flag('seed'), round_num).tolist()
        )
    except non_finite.NonFiniteError:
      pass  # Diverged: the value of the last state shows how far.
    with np.errstate(all='ignore'):
      if task.optimum is not None:
        return float(np.mean(trainer.honest_distances()))
      data = program.Data(task.train, task.test).pick(task.evaluated)
      return float(np.mean(trainer.evaluate(data)['accuracy']))


main = flags.Program(
    'robustness', __doc__, _run,
    flags.own_flag('algo', 'ffgg', 'The method.'),
    flags.own_flag('task', 'overpersonalized', 'Task, see above.'),
    flags.own_flag(
        'rules', RULES,
        'Rules: mean, or one of --<algo>_aggregator, also inside'
        ' bucketing(NAME) or nnm(NAME).',
    ),
    lambda: flags.own_flag(
        'attacks', 'none,sign_flip,ipm,alie,noise,mimic',
        f'Attacks: {", ".join(attacks_lib.names())}; brackets set options.',
    ),
    flags.own_flag(
        'num_byzantine', 5, 'Number of Byzantine clients.', minimum=1
    ),
    flags.own_flag('seeds', '0', 'Seeds, such as 0,1,2.'),
    without=(
        'seed', 'attack', 'holdout_clients', 'resume', 'clients_per_round',
        'validation_fraction', 'on_non_finite', 'finetune_steps',
        'finetune_learning_rate', 'patience', 'max_rounds', 'eval_every',
        'metric', 'delays', 'network_delays', 'in_flight', 'redispatch',
    ),
    resumes=True,
)
