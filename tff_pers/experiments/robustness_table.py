"""Fills a table of robust rules against attacks cell by cell."""

import os
from typing import Any, Mapping, Sequence

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


def run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  """Runs `binaries.robustness`, see `flags.Program`."""
  if given.get('rounds') == auto_rounds.AUTO:
    raise flags.UsageError(
        '`--rounds` must be an integer here, because all cells of the table'
        ' have the same number of rounds, found auto.'
    )
  top = given.pop('output_dir', '') or flags.resolve_path(
      f'runs/robustness_{given["task"]}'
  )
  with flags.usage_errors():
    rules = _names(given.pop('rules'), 'rules', robust.parse)
    attacks = _names(given.pop('attacks'), 'attacks', attacks_lib.parse)
  seeds = sweep_lib.parse_seeds(given.pop('seeds'))
  _check_algo(given['algo'])
  grid = _Grid(given, table, seeds)
  grid.check(rules, attacks)
  with flags.usage_errors():
    lock = folders.FolderLock(top)
  with lock:
    done = _Table(top, given)
    runner.use_runtime(grid.flag, None)
    _fill(grid, done, rules, attacks, seeds)
    print(f'\n{done.write_summary(grid.is_distance)}\nResults are in {top}.')
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

  def __init__(self, given, table, seeds: Sequence[int]):
    algo = brackets.parse(given['algo'])[0]
    self._given = {**_SETTINGS.get((given['task'], algo), {}), **given}
    self._table = {
        **table,
        **dict([flags.own_flag('attack', 'none', 'Attack.')]),
        **dict([flags.own_flag('seed', 0, 'Seed.')]),
    }
    self._first, self._seeds = seeds[0], seeds
    self._tasks: dict[Any, Any] = {}

  def flag(self, name: str):
    """Returns the value of a shared flag."""
    return self.experiment('mean', 'none', self._first).flag(name)

  @property
  def is_distance(self) -> bool:
    """Whether cells hold distances to an optimum, not accuracies."""
    return self.experiment('mean', 'none', self._first).task.optimum is not None

  def check(self, rules: Sequence[str], attacks: Sequence[str]) -> None:
    """Builds all cells without training, so that errors show early.

    Raises:
      flags.UsageError: If a cell cannot be run.
    """
    for rule in rules:
      self.experiment(rule, attacks[0], self._first)
    for attack in attacks[1:]:
      self.experiment(rules[0], attack, self._first)
    task = self.experiment(rules[0], attacks[0], self._first).task
    if task.optimum is None and not task.num_classes:
      raise flags.UsageError(
          '`--task` must have a known optimum or classes, by which cells are'
          f' measured, found {task.name}.'
      )

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


def _fill(grid: _Grid, done: '_Table', rules, attacks, seeds) -> None:
  """Runs missing cells; seeds vary fastest because they share a process."""
  total = len(rules) * len(attacks) * len(seeds)
  number = 0
  for rule in rules:
    for attack in attacks:
      for seed in seeds:
        number += 1
        if done.has(rule, attack, seed):
          continue
        experiment = grid.experiment(rule, attack, seed)
        final = _train(experiment, processes.build(experiment).process)
        done.add(experiment, rule, attack, seed, final)
        print(
            f'[{number}/{total}] {done.name}: {rule}, {attack}, seed {seed}:'
            f' {final:.3g}', flush=True,
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


class _Table:
  """`robustness.csv`: a row per cell, written as soon as it is known.

  Attributes:
    name: Name of its folder.
  """

  def __init__(self, folder: str, given: Mapping[str, Any]):
    """Reads existing cells.

    Raises:
      flags.UsageError: If they were made with other flags.
    """
    self._folder, self.name = folder, os.path.basename(folder)
    self._path = os.path.join(folder, _FILE)
    config = os.path.join(folder, _CONFIG)
    resume_flags.check(config, given)
    resume_flags.write(config, given)
    self._rows = results.read_rows(
        folder, _FILE, robustness.COLUMNS, numbers=['final']
    )

  def has(self, rule: str, attack: str, seed: int) -> bool:
    """Whether the cell exists."""
    return any(
        (row['rule'], row['attack'], row['seed']) == (rule, attack, str(seed))
        for row in self._rows
    )

  def add(self, experiment, rule: str, attack: str, seed: int, final: float):
    """Adds a cell and writes the table."""
    task = experiment.task
    self._rows.append(dict(
        task=task.name, algo=experiment.method.name, rule=rule, attack=attack,
        num_byzantine=task.num_clients - len(task.honest), seed=str(seed),
        final=repr(final),
    ))
    results.write_csv(self._path, robustness.COLUMNS, self._rows)

  def write_summary(self, is_distance: bool) -> str:
    """Writes the Markdown table and the heat map; returns the table."""
    text = robustness.markdown(self._rows, is_distance)
    files.write_text(os.path.join(self._folder, 'robustness.md'), text + '\n')
    robustness.plot(self._rows, self._folder, is_distance)
    return text
