"""Compares variants of methods, each tuned over a grid on validation data.

    python -m binaries.compare_tuned --algos=A,B,... --grid=NAME:VALUE,VALUE,...
        --seeds=0,1,2 [--extensions=3] [--flag=value ...]

Trains every variant with each value of one hyperparameter on the first seed,
chooses the value with the best mean validation accuracy over clients (the loss
in regression; test data are not used), and trains with that value on all seeds.
A diverged run is never chosen; if a later seed diverges, the next best value
replaces it. --grid='A:1,2;B:3,4' tries all combinations of two hyperparameters
('perm.B' if only perm has B); all variants must have grids of equal size.

If the best value of a variant is at an end of its grid, the next value beyond
that end is tried too: at most three times, within the range of the
hyperparameter, and not if the value at the end diverged. Whenever one grid
grows, every other variant also gets one more trial. A best value that is still
at an end after that is marked.

Every run is a training run in OUTPUT_DIR/<variant>/seed<seed>, as in compare;
finished runs are not repeated, interrupted runs are resumed. Writes trials.csv,
runs.csv, summary.csv, summary.md, tiers.csv and the plots of compare.
"""

import itertools
import os
from typing import Any, Iterable, Mapping, Optional

from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import grid_growth
from tff_pers.evaluation import grids as grids_lib
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.evaluation import tuning
from tff_pers.experiments import flags
from tff_pers.experiments import outputs
from tff_pers.experiments import processes
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import timing
from tff_pers.experiments import worker_pool


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  variants = sweep_lib.parse_variants(given.pop('algos'))
  seeds = sweep_lib.parse_seeds(given.pop('seeds'))
  targets = timing.parse_targets(given.pop('targets'))
  extensions, jobs = given.pop('extensions'), given.pop('jobs')
  with flags.usage_errors():
    given = timing.on_one_clock(given, variants)
    grids = grids_lib.parse_grids(given.pop('grid'), variants)
    trials = {
        variant: {
            value: grids_lib.with_options(variant, grid.options(value))
            for value in grid.values
        }
        for variant, grid in grids.items()
    }
  sweep = sweep_lib.of_flags('compare_tuned', given, table, variants)
  names = [name for tried in trials.values() for name in tried.values()]
  # Each name once and each seed once: other pairs can have no other errors.
  sweep.check([
      *((name, seeds[0]) for name in names),
      *((names[0], seed) for seed in seeds[1:]),
  ])
  number = worker_pool.number(jobs, len(names))
  with sweep, worker_pool.WorkerPool(number) as pool:
    steps = _Steps(
        len(names) + len(variants) * (len(seeds) - 1), sweep, pool
    )
    tried_runs = steps.run((name, seeds[0]) for name in names)
    found = {
        variant: {v: tried_runs[name, seeds[0]] for v, name in tried.items()}
        for variant, tried in trials.items()
    }
    _grow(steps, sweep, grids, trials, found, seeds[0], extensions)
    choices, runs = _choose_and_run(steps, grids, trials, found, seeds)
    has_new = given.get('holdout_clients', 0) > 0
    text = _write(sweep.folder, grids, choices, runs, has_new)
    text += timing.write(sweep.folder, runs, targets)
  print(f'{text}\n{outputs.where(sweep.folder)}')
  return int(None in runs.values())


class _Steps:
  """Runs points, each once, and prints the progress."""

  def __init__(
      self, number: int, sweep: sweep_lib.Sweep, pool: worker_pool.WorkerPool
  ):
    self._number, self._sweep, self._pool = number, sweep, pool
    self._runs: dict[sweep_lib.Point, Optional[results.Run]] = {}

  def run(self, points: Iterable[sweep_lib.Point]) -> comparison.Runs:
    """Returns all runs so far, after those of `points`."""
    new = [p for p in dict.fromkeys(points) if p not in self._runs]
    # No plots, because most runs are trials that nobody looks at.
    self._runs.update(zip(new, self._pool.map(self._sweep.run, [
        (variant, seed, None, sweep_lib.Place(number, self._number))
        for number, (variant, seed) in enumerate(new, len(self._runs) + 1)
    ])))
    return self._runs

  def add(self, number: int) -> None:
    """Raises the number of planned runs."""
    self._number += number


def _grow(
    steps: _Steps, sweep: sweep_lib.Sweep, grids, trials, found, seed: int,
    times: int,
) -> None:
  """Tries one more value of every variant while a best one is at an end.

  `grid_growth.more_trials` chooses them; `trials` and `found` get them.
  """
  def named(variant, value):
    return grids_lib.with_options(variant, grids[variant].options(value))

  def can_run(variant, value):
    # Checked before any of them runs, because methods have their own bounds.
    try:
      experiment, folder = sweep.prepare(named(variant, value), seed)
      if not os.path.exists(os.path.join(folder, results.CONFIG)):
        processes.build(experiment)
    except flags.UsageError:
      return False
    return True

  specs = {
      variant: hp.specs(methods.get(brackets.parse(variant)[0]).hyperparameters)
      for variant in grids
  }
  for _ in range(times):
    more = grid_growth.more_trials(grids, tuning.choose(found), specs, can_run)
    if not more:
      return
    print('\nA best value is at an end of its grid: one more trial for each.')
    steps.add(len(more))
    new = {variant: named(variant, value) for variant, value in more.items()}
    runs = steps.run((name, seed) for name in new.values())
    for variant, value in more.items():
      trials[variant][value] = new[variant]
      found[variant][value] = runs[new[variant], seed]


def _choose_and_run(steps: _Steps, grids, trials, found, seeds):
  """Returns the choices by variant, and the runs with the chosen values.

  Validation data of the first seed decide. If a value diverges with a later
  seed, the next best value replaces it, for every variant alike and before any
  test data are used.
  """
  while True:
    choices = tuning.choose(found)
    _print_choices(grids, choices)
    runs = _final_runs(steps, trials, choices, seeds)
    lost = {
        variant for (variant, _), run in runs.items()
        if run is None and choices[variant].value is not None
    }
    if not lost:
      return choices, runs
    for variant in lost:
      value = choices[variant].value
      print(f'\n{variant}: {value} diverged with a later seed.')
      found[variant][value] = None
      steps.add(len(seeds) - 1)


def _print_choices(
    grids: Mapping[str, grids_lib.Grid], choices: Mapping[str, tuning.Choice]
) -> None:
  print('\nChosen by validation data:')
  for variant, choice in choices.items():
    chosen = 'none, because all runs diverged'
    if choice.value is not None:
      chosen = choice.value + ', at the border' * bool(choice.at_border)
    print(f'  {variant}: {";".join(grids[variant].names)} {chosen}')


def _final_runs(steps, trials, choices, seeds) -> comparison.Runs:
  """Returns the runs with the chosen values by (variant, seed)."""
  names = {
      variant: trials[variant][choice.value]
      for variant, choice in choices.items() if choice.value is not None
  }
  # For the first seed, it is the run by which the value was chosen.
  runs = steps.run(itertools.product(names.values(), seeds))
  return {
      (variant, seed): runs[names[variant], seed] if variant in names else None
      for variant, seed in itertools.product(choices, seeds)
  }


def _write(
    folder: str, grids, choices, runs: comparison.Runs, has_new: bool
) -> str:
  """Writes all tables and plots; returns the table of the results."""
  results.write_csv(
      os.path.join(folder, 'trials.csv'), tuning.TRIAL_COLUMNS,
      tuning.trial_rows(choices),
  )
  columns = tuning.columns(grids, choices, has_new)
  rows = tuning.rows(grids, choices, runs)
  rows = [{column: row[column] for column in columns} for row in rows]
  _, first = next(iter(runs))
  for (_, seed), run in runs.items():
    if seed == first and run is not None:
      plots.plot_compared_run(run.folder)
  return sweep_lib.write(folder, runs, columns, rows, tuning.markdown)


main = flags.Program(
    'compare_tuned', __doc__, _run,
    flags.own_flag(
        'algos', 'fedavg,fedavg_finetuned,local_only', 'Variants to compare.'
    ),
    flags.own_flag(
        'grid', 'learning_rate:0.03,0.1,0.3',
        'One or more hyperparameters with the values to try.',
    ),
    flags.own_flag(
        'extensions', 3,
        'How often a grid may grow while the best is at an end.', minimum=0,
    ),
    flags.own_flag(
        'seeds', '0',
        'Seeds of the runs, such as 0,1,2; values are chosen on the first.',
    ),
    timing.TARGETS_FLAG, sweep_lib.jobs_flag(1), sweep_lib.VALIDATION_FLAG,
    without=('seed',), resumes=True,
)
