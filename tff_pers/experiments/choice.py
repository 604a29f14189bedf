"""Recommends a method for your clients and shows whom it would hurt.

    python -m binaries.choose --task=npz --data_dir=FILE --budget=20m
        [--algos=A,B] [--trials=N] [--seeds=0,1,2] [--splits=K]
        [--flag=value ...]

Recommends a method for a task, usually for your own data. It runs every method
with its defaults, searches the hyperparameters of each for the same time (see
tune), trains the chosen values with all seeds, and writes choice.html, a page
that opens in any browser, with choice.md, choice.csv, differences.csv,
trials.csv and best.json. The page compares every method to the
recommended one on the same clients, and shows which clients a method hurts and
what it costs. Only validation data decide; among methods that they cannot tell
apart, the first in --algos is recommended, so list simple methods first. A
short --budget reduces first the seeds, then the methods; --trials replaces it
by a number of trials per method. After a kill, or with a larger --budget, rerun
the command to resume.
"""

import contextlib
import itertools
import math
import os
from typing import Any, Optional, Sequence

from tff_pers.config import methods
from tff_pers.data import task as task_lib
from tff_pers.evaluation import damaged
from tff_pers.evaluation import trials as trials_lib
from tff_pers.evaluation.report import folder_data
from tff_pers.experiments import budgets
from tff_pers.experiments import choice_page
from tff_pers.experiments import choice_plan
from tff_pers.experiments import flags
from tff_pers.experiments import kept_runs
from tff_pers.experiments import resume_flags
from tff_pers.experiments import sweep as sweep_lib
from tff_pers.experiments import variant_search
from tff_pers.experiments import worker_pool

# Simple methods first. Methods that do not fit the task are left out.
DEFAULT_ALGOS = (
    'local_only', 'fedavg', 'fedavg_finetuned', 'fedper', 'fedala', 'ditto',
    'apfl', 'ifca', 'floral', 'pfedgraph', 'perm',
)
# In a short budget, one method of each kind runs before a second one.
_TURNS = (
    'local_only', 'fedavg', 'fedavg_finetuned', 'fedper', 'ifca', 'floral',
    'perm',
)
BUDGET = '20m'
_CONFIG, _CLOCK, _PLAN = 'choose.json', 'clock.json', 'plan.json'
# A method's first run (with defaults) may begin until the first share of the
# budget is spent, and must end before the second one is.
_BEGIN_SHARE, _END_SHARE = 0.4, 0.8
# Reserved for tables and the page.
_PAGE_SECONDS = 10.0


def _run(given: dict[str, Any], table: dict[str, flags.Flag]) -> int:
  budget = _budget(given)
  record = dict(given)
  task = given.get('task', flags.DEFAULTS['task'])
  asked = given.pop('algos', '')
  top = flags.output_dir(given, f'choose_{task}')
  seeds = _with_splits(sweep_lib.parse_seeds(given.pop('seeds')), given)
  config = os.path.join(top, _CONFIG)
  has_grown = _has_grown(config, budget)
  resume_flags.check(
      config, record, free=(*variant_search.FREE, *['budget'] * has_grown)
  )
  variants = sweep_lib.parse_variants(asked or ','.join(DEFAULT_ALGOS))
  turns = variants
  sweep = sweep_lib.of_flags('choose', given, table, variants)
  first, _ = sweep.prepare(variants[0], seeds[0])
  if given.get('splits', 1) > 1 and first.task.splits == 'file':
    raise flags.UsageError(
        '`--splits` must be 1 for data with a split of their own, found'
        f" {given['splits']}."
    )
  if not asked:
    variants = _fitting(first.task, variants)
    turns = sorted(variants, key=lambda variant: variant not in _TURNS)
  sweep.check(itertools.product(variants, seeds))
  number = worker_pool.number(given['jobs'], len(variants))
  with sweep, worker_pool.WorkerPool(number) as pool:
    if has_grown:
      for name in (_PLAN, folder_data.CHOICE):
        with contextlib.suppress(FileNotFoundError):
          os.remove(os.path.join(top, name))
    resume_flags.write(config, record)
    if first.task.about:
      print(first.task.about)
    clock = budgets.Clock(os.path.join(top, _CLOCK))
    counted: contextlib.AbstractContextManager[Any] = clock
    if os.path.exists(os.path.join(top, folder_data.CHOICE)):
      # A finished choice only rewrites its page, which adds no time.
      counted = contextlib.nullcontext()
    with counted:
      return _Choice(sweep, seeds, budget, clock, pool, number).make(
          variants, turns
      )


def _budget(given: dict[str, Any]) -> float:
  """Returns the seconds for everything; adds the default to `given`."""
  if not given.get('trials'):
    return budgets.parse(given.setdefault('budget', BUDGET))
  if 'budget' in given:
    raise flags.UsageError(
        f'`--budget` must be left out with --trials, found {given["budget"]}.'
    )
  return math.inf


def _has_grown(config: str, budget: float) -> bool:
  """Whether this is a choice that was started with a smaller budget."""
  if not os.path.exists(config):
    return False
  saved = resume_flags.read(config)
  before = budgets.parse(saved['budget']) if 'budget' in saved else math.inf
  return before < budget < math.inf


def _with_splits(
    seeds: Sequence[int], given: dict[str, Any]
) -> list[int]:
  """Returns the seeds, extended so that each of `--splits` has one."""
  others = (seed for seed in itertools.count() if seed not in seeds)
  lacking = max(given.get('splits', 1) - len(seeds), 0)
  return [*seeds, *itertools.islice(others, lacking)]


def _fitting(task: task_lib.Task, variants: Sequence[str]) -> list[str]:
  """Returns the methods whose needs the task meets."""
  return [
      variant for variant in variants
      if not methods.missing_needs(methods.get(variant), task.traits)
  ]


class _Choice:
  """Runs the steps from first runs to page within the budget."""

  def __init__(
      self, sweep: sweep_lib.Sweep, seeds: Sequence[int], budget: float,
      clock: budgets.Clock, pool: worker_pool.WorkerPool, number: int,
  ):
    self._sweep, self._seeds, self._budget = sweep, seeds, budget
    self._clock, self._pool, self._number = clock, pool, number
    self._trials: Optional[int] = sweep.given.get('trials') or None

  def make(self, variants: Sequence[str], turns: Sequence[str]) -> int:
    """Runs everything and writes the page; returns the exit code.

    Variants are the methods, simple ones first; turns are the same, in the
    order of their first runs.
    """
    searches = {
        v: variant_search.VariantSearch(self._sweep, self._seeds, v)
        for v in variants
    }
    plan = self._plan(searches, turns)
    first = _first_trials(searches)
    effort = self._trials or budgets.as_text(plan.seconds)
    self._say(
        f'trials, {effort} for each method'
        + ', less than a run' * all(
            trial.seconds > plan.seconds for trial in first.values()
        ) * (not self._trials)
    )
    # Only complete runs are candidates: none is begun that could not finish.
    self._pool.map(variant_search.VariantSearch.search, [
        (searches[v], self._trials, trial.seconds + plan.seconds, True)
        for v, trial in first.items()
    ])
    candidates = {v: _candidates(search) for v, search in searches.items()}
    chosen = {v: trials[0] for v, trials in candidates.items() if trials}
    seeds = self._final_runs(searches, chosen, plan.num_seeds)
    self._say('page')
    return choice_page.write(choice_page.Results(
        self._sweep, self._seeds, searches, chosen, seeds, self._clock.seconds
    ))

  def _plan(self, searches, turns) -> choice_plan.Plan:
    """Returns the plan after the first runs; it is kept across kills."""
    path = os.path.join(self._sweep.folder, _PLAN)
    if not os.path.exists(path):
      self._say(f'defaults of {", ".join(turns)}')
      begin, end = (
          self._clock.at(share * self._budget)
          for share in (_BEGIN_SHARE, _END_SHARE)
      )
      self._pool.map(_run_defaults, [
          (searches[v], v, begin, end) for v in turns
      ])
      first = _first_trials(searches)
      left = self._budget - self._clock.seconds - _PAGE_SECONDS
      # With a larger budget, a part of the search has been done.
      left += sum(
          trial.seconds for variant in first
          for trial in searches[variant].study.trials()[1:]
      ) / self._number
      plan = choice_plan.plan(
          [trial.seconds for trial in first.values()],
          max(left, 0.0), self._number, len(self._seeds),
      )
      if self._trials:  # A number of trials needs no plan.
        return plan
      resume_flags.write(path, plan._asdict())
    with damaged.reading(path):
      return choice_plan.Plan(**resume_flags.read(path))

  def _final_runs(
      self, searches, chosen: dict[str, trials_lib.Trial], num_seeds: int
  ) -> list[int]:
    """Trains all methods with one seed after the other; returns the seeds.

    If values diverge with a seed, they are replaced in `chosen`.
    """
    seconds = {v: trial.seconds for v, trial in chosen.items()}
    order = sorted(chosen, key=lambda v: -seconds[v])
    took = choice_plan.makespan(list(seconds.values()), self._number)
    seeds = list(self._seeds[:1])
    for seed in self._seeds[1:num_seeds]:
      # Runs that a killed process began are finished even without time.
      is_begun = any(
          os.path.exists(searches[v].folder(trial, seed))
          for v, trial in chosen.items()
      )
      left = self._budget - self._clock.seconds - _PAGE_SECONDS
      if took > left and not is_begun:
        print('The budget is spent: no further seed is trained.', flush=True)
        break
      self._say(f'chosen values with seed {seed}')
      seeds.append(seed)
      chosen.update(zip(order, self._pool.map(
          _train, [(searches[v], v, chosen[v], seeds) for v in order]
      )))
    return seeds

  def _say(self, what: str) -> None:
    of = '' if self._trials else f' of {budgets.as_text(self._budget)}'
    spent = budgets.as_text(self._clock.seconds)
    print(f'\n[{spent}{of}] {what}', flush=True)


def _first_trials(searches) -> dict[str, trials_lib.Trial]:
  """Returns the runs with defaults that ended in time, the longest first.

  Diverged ones are kept: other values may work for such a method.
  """
  first = {v: s.study.trials()[:1] for v, s in searches.items()}
  ended = {
      v: trials[0] for v, trials in first.items()
      if trials and trials[0].state in ('complete', 'diverged')
  }
  return dict(sorted(ended.items(), key=lambda item: -item[1].seconds))


def _candidates(
    search: variant_search.VariantSearch
) -> list[trials_lib.Trial]:
  """Returns the complete trials, the best on validation data first."""
  return [trial for trial in search.ranked() if trial.state == 'complete']


def _run_defaults(search, variant: str, begin: float, end: float) -> None:
  """Runs a method with its defaults, unless it is too late to begin."""
  trials, now = search.study.trials(), budgets.now()
  if not trials and now > begin:
    print(f'[{variant}] left out because the budget is too short.', flush=True)
    return
  before = sum(trial.seconds for trial in trials)
  search.search(1, before + max(end - now, 0.0), whole=True)


def _train(
    search, variant: str, chosen: trials_lib.Trial, seeds: Sequence[int]
) -> trials_lib.Trial:
  """Trains a method's chosen values with all seeds so far.

  Returns:
    The chosen trial, or the next best one that diverges with no seed. If all
    diverge, the chosen one.
  """
  trials = _candidates(search)
  for trial in trials[trials.index(chosen):]:
    if None not in [search.train(trial, seed) for seed in seeds]:
      print(f'[{variant}] seed {seeds[-1]} done', flush=True)
      return trial
  return chosen


main = flags.Program(
    'choose', __doc__, _run,
    flags.own_flag(
        'algos', '', 'Variants to choose from, simple ones first; empty: those'
        f' of {", ".join(DEFAULT_ALGOS)} that fit the task.'
    ),
    flags.own_flag(
        'budget', BUDGET,
        'Total time, such as 90s, 20m or 1.5h; not with --trials.',
    ),
    flags.own_flag(
        'trials', 0, 'Trials per method, however long they take; 0: use'
        ' --budget.', minimum=0,
    ),
    flags.own_flag(
        'seeds', '0,1,2',
        'Seeds of the final runs, such as 0,1,2; trials use the first.',
    ),
    flags.own_flag(
        'splits', 1, 'Random splits of the rows on which final runs are'
        ' repeated, one seed each (more than --seeds adds seeds); above 1,'
        ' intervals include the noise of splitting.', minimum=1,
    ),
    sweep_lib.jobs_flag(0), kept_runs.FLAG, sweep_lib.VALIDATION_FLAG,
    without=('seed',), fills=('seeds', 'jobs', 'validation_fraction'),
    resumes=True,
)
