"""Compares variants of methods, each with a value chosen by validation data.

    python -m binaries.compare_tuned --algos='fedavg,fedper,local_only' \
      --model=mlp --grid=learning_rate:0.03,0.1,0.3 --seeds=0,1,2
"""

from tff_pers.experiments import startup

startup.begin(__name__, __file__)

# pylint: disable=g-import-not-at-top
import os
import sys
from typing import Any, Mapping, Sequence

from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import files
from tff_pers.data import brackets
from tff_pers.evaluation import comparison
from tff_pers.evaluation import grid_growth
from tff_pers.evaluation import grids as grids_lib
from tff_pers.evaluation import plots
from tff_pers.evaluation import results
from tff_pers.evaluation import tuning
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import processes
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import timing

SUMMARY = """\
python -m binaries.compare_tuned --algos=A,B,... --grid=NAME:VALUE,VALUE,...
    --seeds=0,1,2 [--extensions=3] [--flag=value ...]

Trains every variant with each value of one hyperparameter on the first seed,
chooses the value with the best mean validation accuracy over clients (loss on
regression tasks; test data choose nothing), and trains with it on all seeds. A
run that diverges loses; a value with which that of a later seed does is given
up for the next best. --grid='A:1,2;B:3,4' tries all combinations of two, and
--grid='A:1,2;perm.B:3,4;apfl.C:5,6' those of A with one that the method alone
has; every variant must have a grid of the same size.

While the best value of a variant is at an end of its grid, the value beyond is
tried, too, in the ratio of the two outermost ones: three times at most, within
the hyperparameter's range, and not where that value diverged. Whenever one grid
grows, every other variant has one more trial as well, beyond its own end, or
between its best value and the better neighbour (the geometric mean). Of several
hyperparameters at whose ends the best is, that which gained the least is first,
the others stay as in the best; one with a single value, or with one that is no
number, does not grow. What is at a border after that is marked so.

All are training runs in OUTPUT_DIR/<variant>/seed<seed>, as those of compare:
finished runs are not run again, interrupted ones are resumed. Writes
trials.csv, runs.csv, summary.csv, summary.md, tiers.csv and the plots of
compare, of the chosen values, and of their runs of the first seed those that a
comparison does not have."""

_DEFAULTS: dict[str, Any] = dict(
    algos='fedavg,fedavg_finetuned,local_only', seeds='0',
    grid='learning_rate:0.03,0.1,0.3', extensions=3,
    validation_fraction=0.2,
)


def run() -> None:
  """Entry point of the console script."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs the program on `argv`; returns its exit code."""
  return flags.run('compare_tuned', _compare_tuned, argv)


def _compare_tuned(argv: Sequence[str]) -> int:
  table = flag_table()
  if flags.wants_help(argv):
    print(flags.help_text(SUMMARY, table, argv))
    return 0
  given = dict(_DEFAULTS, **flags.parse(argv, table))
  variants = sweep_lib.parse_variants(given.pop('algos'))
  seeds = sweep_lib.parse_seeds(given.pop('seeds'))
  targets = timing.parse_targets(given.pop('targets', ''))
  extensions = given.pop('extensions')
  with flags.sentences():
    given = timing.on_one_clock(given, variants)
  with flags.sentences():
    grids = grids_lib.parse_grids(given.pop('grid'), variants)
    trials = {
        variant: {
            value: grids_lib.with_options(variant, grid, value)
            for value in grid.values
        }
        for variant, grid in grids.items()
    }
  task = given.get('task', flags.DEFAULTS['task'])
  algos = [brackets.parse(variant)[0] for variant in variants]
  experiment_lib.check_owners(given, table, algos, task)
  top = given.get('output_dir') or flags.resolve_path(
      f'runs/compare_tuned_{task}'
  )
  jobs = sweep_lib.Sweep('compare_tuned', given, top)
  first = next(iter(trials[variants[0]].values()))
  jobs.check(
      [(name, seeds[0]) for tried in trials.values() for name in tried.values()]
      + [(first, seed) for seed in seeds[1:]]
  )
  steps = _Steps(
      sum(map(len, trials.values())) + len(variants) * (len(seeds) - 1), jobs
  )
  found = {
      variant: {v: steps.run(name, seeds[0]) for v, name in tried.items()}
      for variant, tried in trials.items()
  }
  _grow(steps, jobs, grids, trials, found, seeds[0], extensions)
  choices, final = _choose_and_run(steps, grids, trials, found, seeds)
  _write(
      top, grids, choices, final, given.get('holdout_clients', 0) > 0, targets
  )
  return int(None in final.values())


def flag_table() -> dict[str, flags.Flag]:
  """Returns all flags; some have other defaults here."""
  return flags.all_flags(
      flags.own_flag('algos', _DEFAULTS['algos'], 'Variants to compare.'),
      flags.own_flag(
          'grid', _DEFAULTS['grid'],
          'A hyperparameter and the values to try; or several.',
      ),
      flags.own_flag(
          'extensions', _DEFAULTS['extensions'],
          'How often a grid may grow where the best value is at its end.',
          minimum=0,
      ),
      flags.own_flag(
          'seeds', _DEFAULTS['seeds'],
          'Seeds of the runs, as 0,1,2; values are chosen on the first.',
      ),
      timing.targets_flag(),
      sweep_lib.validation_flag(_DEFAULTS['validation_fraction']),
      without=('seed', 'validation_fraction'),
  )


class _Steps:
  """Runs jobs, each once, and says how many there are."""

  def __init__(self, number: int, jobs: sweep_lib.Sweep):
    self._number, self._jobs = number, jobs
    self._runs: dict[tuple[str, int], Any] = {}

  def run(self, variant: str, seed: int):
    """Runs one job, see `Sweep.run`."""
    key = variant, seed
    if key not in self._runs:
      print(
          f'\n[{len(self._runs) + 1}/{self._number}] {variant}, seed {seed}',
          flush=True,
      )
      # Most of them are trials that nobody looks at.
      self._runs[key] = self._jobs.run(variant, seed)
    return self._runs[key]

  def add(self, number: int) -> None:
    """Says that there are more."""
    self._number += number


def _grow(
    steps: _Steps, jobs: sweep_lib.Sweep, grids, trials, found, seed: int,
    times: int,
) -> None:
  """Tries one value more of every variant while the best of one is at an end.

  `grid_growth.more_trials` says which; they are added to `trials` and `found`.
  """
  def named(variant, value):
    return grids_lib.with_options(variant, grids[variant], value)

  def can_run(variant, value):
    # Before the first of them is run: methods have bounds of their own.
    try:
      experiment, folder = jobs.prepare(named(variant, value), seed)
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
    print('\nA best value is at the end of its grid: one trial more for each.')
    steps.add(len(more))
    for variant, value in more.items():
      trials[variant][value] = named(variant, value)
      found[variant][value] = steps.run(trials[variant][value], seed)


def _choose_and_run(steps: _Steps, grids, trials, found, seeds):
  """Returns the choices by variant, and the runs with the chosen values.

  Validation data of the first seed choose. A value with which the run of a
  later seed diverges is given up, in every variant alike: who finds that out
  takes another one, before looking at any test data.
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
  runs = {}
  for variant, choice in choices.items():
    for seed in seeds:
      # That of the first seed is the run that the value was chosen by.
      runs[variant, seed] = None if choice.value is None else steps.run(
          trials[variant][choice.value], seed
      )
  return runs


def _write(
    top: str, grids, choices, runs, has_new: bool, targets: Sequence[float]
) -> None:
  """Writes all tables and plots; prints the table of the results."""
  os.makedirs(top, exist_ok=True)
  results.write_csv(
      os.path.join(top, 'trials.csv'), tuning.TRIAL_COLUMNS,
      tuning.trial_rows(choices),
  )
  results.write_csv(
      os.path.join(top, 'runs.csv'), comparison.RUN_COLUMNS,
      comparison.run_rows(runs),
  )
  comparison.write_tiers(top, runs)
  columns = tuning.columns(grids, choices, has_new)
  rows = tuning.rows(grids, choices, runs)
  rows = [{column: row[column] for column in columns} for row in rows]
  results.write_csv(os.path.join(top, 'summary.csv'), columns, rows)
  text = tuning.markdown(columns, rows) + comparison.sample_sentence(runs)
  files.write_text(os.path.join(top, 'summary.md'), text + '\n')
  finished = [run for run in runs.values() if run is not None]
  if finished:
    _, first = next(iter(runs))
    for (_, seed), run in runs.items():
      if seed == first and run is not None:
        plots.plot_compared_run(run.folder)
    plots.plot_runs(finished, top)
    text += timing.write(top, runs, targets)
  print(f'\n{text}\nResults are in {top}.')


if __name__ == '__main__':
  run()
