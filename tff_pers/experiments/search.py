"""Tunes the hyperparameters of methods with equal effort for each.

    python -m binaries.tune --algos=A,B,... --trials=20 --seeds=0,1,2
        [--budget=20m] [--flag=value ...]

Searches the hyperparameters of every variant with Optuna, in the ranges that
its method declares; hyperparameters set by flags or brackets are not searched.
The first trial uses the method's defaults on the task. A trial that is behind
most others after as many rounds is pruned. The trial with the best mean
validation accuracy over clients (loss in regression) wins; test data are not
used. Its values are then trained with all seeds. Every variant has the same
number of trials, or with --budget the same time: the budget is the time of all
searches, --jobs of them in parallel, and excludes the runs with all seeds. To
resume after a kill, rerun the command, also with more --trials; no trial is
lost or repeated, and several processes may share the work. The column near_end
lists chosen values within a tenth of an end of their range. Writes trials.csv,
best.json, runs.csv, summary.csv, summary.md and plots; the studies and all runs
are in OUTPUT_DIR/<variant>.
"""

import itertools
import math
import os
from typing import Any, Mapping, Optional, Sequence

from tff_pers.core import locks
from tff_pers.evaluation import comparison
from tff_pers.evaluation import results
from tff_pers.evaluation import trials as trials_lib
from tff_pers.experiments import budgets
from tff_pers.experiments import flags
from tff_pers.experiments import kept_runs
from tff_pers.experiments import outputs
from tff_pers.experiments import resume_flags
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import variant_search
from tff_pers.experiments import worker_pool

TRIALS = 20
_CONFIG = 'tune.json'
# Columns about the choice, after the columns of `compare`.
_CHOICE_COLUMNS = ('trial', 'validation', 'chosen', 'near_end')


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  trials, seconds = _effort(given)
  if trials:
    given['trials'] = trials
  record = dict(given)
  variants = sweep_lib.parse_variants(given.pop('algos'))
  seeds = sweep_lib.parse_seeds(given.pop('seeds'))
  sweep = sweep_lib.of_flags('tune', given, table, variants)
  config = os.path.join(sweep.folder, _CONFIG)
  resume_flags.check(config, record, free=variant_search.FREE, growing='trials')
  sweep.check(itertools.product(variants, seeds))
  resume_flags.write(config, record)
  number = worker_pool.number(given['jobs'], len(variants))
  share = seconds / math.ceil(len(variants) / number)
  with worker_pool.WorkerPool(number) as pool:
    searches = {
        variant: variant_search.VariantSearch(sweep, seeds, variant)
        for variant in variants
    }
    chosen = pool.map(
        _search, [(own, seeds, trials, share) for own in searches.values()]
    )
  with locks.held(sweep.folder):  # Another process may be writing too.
    return _write(sweep.folder, searches, seeds, dict(zip(variants, chosen)))


def _effort(given: Mapping[str, Any]) -> tuple[Optional[int], float]:
  """Returns the trials per variant (None: no limit) and seconds for all."""
  if not given.get('budget'):
    return given.get('trials', TRIALS), math.inf
  if 'trials' in given:
    raise flags.UsageError(
        '`--trials` must be left out with --budget, found'
        f' {given["trials"]}.'
    )
  return None, budgets.parse(given['budget'])


def _search(
    search: variant_search.VariantSearch, seeds: Sequence[int],
    trials: Optional[int], seconds: float,
) -> Optional[trials_lib.Trial]:
  """Searches one variant and trains its chosen values with all seeds.

  If a later seed diverges, the next best values replace them, before any test
  data are used. If all values diverge, those that validation data chose stay.

  Returns:
    The chosen trial; None if all trials failed.
  """
  search.search(trials, seconds)
  ranked = search.ranked()
  for trial in ranked:
    left = trial.seconds * (len(seeds) - 1)
    print(
        f'{search.chosen_variant(trial)}: trial {trial.number} is best; final'
        f' runs of {len(seeds)} seeds take about {budgets.as_text(left)} more.',
        flush=True,
    )
    if None not in [search.train(trial, seed) for seed in seeds]:
      return trial
  return next(iter(ranked), None)


def _write(
    top: str, searches: Mapping[str, variant_search.VariantSearch],
    seeds: Sequence[int], chosen: Mapping[str, Optional[trials_lib.Trial]],
) -> int:
  """Writes and prints the results; returns the exit code."""
  _, best = variant_search.write(top, searches, chosen)
  runs: dict[sweep_lib.Point, Optional[results.Run]] = {}
  for name, trial in chosen.items():
    for seed in seeds:
      run = trial and searches[name].result(trial, seed)
      # Curves are labelled by the given variant, without the chosen values.
      runs[name, seed] = run and run._replace(
          config=dict(run.config, variant=name)
      )
  rows = comparison.summary_rows(runs)
  for row in rows:
    trial, entry = chosen[row['algo']], best[row['algo']]
    row.update(
        trial=trial and trial.number, validation=trial and trial.validation,
        chosen=entry and entry['variant'],
        near_end=trial and ' '.join(searches[row['algo']].near_ends(trial)),
    )
  columns = [
      *comparison.SUMMARY_COLUMNS, *_CHOICE_COLUMNS,
      *comparison.more_columns(runs),
  ]
  text = sweep_lib.write(top, runs, columns, rows)
  print(f'\n{text}\n{outputs.where(top)}')
  return int(None in runs.values())


main = flags.Program(
    'tune', __doc__, _run,
    flags.own_flag(
        'algos', 'fedavg,fedavg_finetuned,local_only', 'Variants to tune.'
    ),
    flags.own_flag(
        'trials', TRIALS, 'Trials per variant; not with --budget.',
        minimum=1,
    ),
    flags.own_flag(
        'budget', '', 'Total time of all searches, such as 90s, 20m or 1.5h, in'
        ' equal parts per variant; empty: use --trials.'
    ),
    flags.own_flag(
        'seeds', '0,1,2',
        'Seeds of the final runs, such as 0,1,2; trials use the first.',
    ),
    sweep_lib.jobs_flag(0), kept_runs.FLAG, sweep_lib.VALIDATION_FLAG,
    without=('seed',),
    fills=('algos', 'seeds', 'jobs', 'validation_fraction'), resumes=True,
)
