"""Searches one variant: runs trials, then the chosen values' seeds."""

import functools
import math
import os
import time
from typing import Any, Mapping, Optional, Sequence

from tff_pers.config import search_spaces
from tff_pers.core import locks
from tff_pers.evaluation import grids
from tff_pers.evaluation import results
from tff_pers.evaluation import trials as trials_lib
from tff_pers.evaluation import tuning
from tff_pers.evaluation.report import folder_data
from tff_pers.experiments import budgets
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags
from tff_pers.experiments import quiet
from tff_pers.experiments import resume_flags
from tff_pers.experiments import runner
from tff_pers.experiments import saved_runs
from tff_pers.experiments import studies
from tff_pers.experiments import sweep as sweep_lib

# Flags that may differ when a search is resumed.
FREE = ('jobs', 'output_dir', 'trials_dir')
# Between checks while other processes run the last trials of a study.
_POLL_SECONDS = 0.5
# Less time than this is not worth starting a trial.
_LEAST_SHARE = 0.25


class _Ended(flags.Failure):
  """A trial ends before its last round; the message is its state."""


class VariantSearch:
  """The trials of one variant, and the runs with the chosen values.

  Other processes may take part: each makes its own from a pickled one.

  Attributes:
    metric: Metric of validation data by which values are chosen.
  """

  def __init__(
      self, sweep: sweep_lib.Sweep, seeds: Sequence[int], variant: str
  ):
    """Reads the task; writes nothing.

    The sweep runs trials, with the first seed, and final runs; each variant has
    a folder in that of the sweep.

    Raises:
      flags.UsageError: If the variant cannot be run.
    """
    self._sweep, self._seeds, self._variant = sweep, seeds, variant
    self._name = experiment_lib.folder_name(variant)
    experiment, _ = sweep.prepare(variant, seeds[0], within=self._within(1))
    self.metric = experiment.metric
    self._rounds = experiment.task.rounds
    self._space = search_spaces.of(
        experiment.hyperparameters, sweep.asked(variant)
    )

  def __getstate__(self):
    # Child processes open the study by themselves.
    return {k: v for k, v in vars(self).items() if k != 'study'}

  @functools.cached_property
  def study(self) -> studies.Study:
    """The study, which is created if needed."""
    return studies.Study(
        os.path.join(self._sweep.folder, self._name), self._space,
        metric=self.metric, seed=self._seeds[0], rounds=self._rounds,
    )

  def search(
      self, limit: Optional[int] = None, seconds: float = math.inf,
      whole: bool = False,
  ) -> None:
    """Runs trials, and waits for those of other processes.

    Args:
      limit: Total number of trials, including earlier ones and those of other
        processes; None: as many as there is time for.
      seconds: Time for all trials together; the last one ends at an evaluated
        round. The first trial always runs.
      whole: Whether only complete runs count: none is begun that would take
        longer than the remaining seconds if it took as long as the first, and
        one that does is paused; a search with more time resumes it.
    """
    while True:
      is_over = self._is_over(seconds, whole)
      if is_over:
        limit = 0  # Finish trials that were begun, begin no others.
      claim = self.study.claim(limit, paused=not is_over)
      if claim is not None:
        self._run(claim, limit, seconds, whole)
      elif self.study.is_running():
        time.sleep(_POLL_SECONDS)
      else:
        return

  def _is_over(self, seconds: float, whole: bool) -> bool:
    trials = self.study.trials()
    if not trials or math.isinf(seconds):
      return False
    left, first = seconds - _spent(trials), trials[0]
    # A first trial that is paused does not tell how long a run takes.
    if whole and first.state == 'stopped':
      return left <= 0
    return left <= (1.0 if whole else _LEAST_SHARE) * first.seconds

  def _run(self, claim: studies.Claim, limit, seconds, pauses: bool) -> None:
    """Runs one trial and prints its line."""
    others = _spent(self.study.trials()) - claim.seconds
    try:
      reason = self._train_trial(
          claim, _Watch(claim, self.metric, seconds - others, pauses)
      )
    except BaseException:
      claim.release()
      raise
    trials = self.study.trials()
    line = trials_lib.line(trials[claim.number - 1], trials, self.metric)
    if reason:
      line += f' ({reason})'
    of = f'/{limit}' if limit else ''
    left = _to_go(trials, limit, seconds)
    print(f'[{self._variant} {claim.number}{of}] {line}{left}', flush=True)

  def _train_trial(self, claim: studies.Claim, watch: '_Watch') -> str:
    """Runs or resumes a trial, and ends it; returns why it was refused, or ''.

    Raises:
      flags.Failure: If something other than the trial's values stops the run;
        the trial can be resumed.
    """
    name = grids.with_options(self._variant, claim.options)
    seed, within = self._seeds[0], self._within(claim.number)
    try:
      experiment, folder = self._sweep.prepare(name, seed, within=within)
      watch.rounds = experiment.task.rounds
      if not runner.is_finished(folder):
        position = saved_runs.position(folder)
        for row in saved_runs.rows(folder, position.round if position else 0):
          watch(row)
      with quiet.silence():
        done = self._sweep.execute(
            name, seed, within=within, draw=None, is_enough=watch
        )
      if not watch.has_seen_rows:  # A kept run was copied.
        for row in saved_runs.rows(folder, experiment.task.rounds):
          watch(row)
    except _Ended as ended:
      watch.end(str(ended))
    except runner.Diverged:
      watch.end('diverged')
    except flags.UsageError as error:
      watch.end('refused')
      return str(error)
    else:
      watch.see({column: done.metrics[column][-1] for column in done.metrics})
      watch.end('complete' if math.isfinite(watch.value) else 'diverged')
    return ''

  def ranked(self) -> list[trials_lib.Trial]:
    """Returns the eligible trials, best on validation data first."""
    return trials_lib.ranked(self.study.trials(), self.metric)

  def chosen_variant(self, trial: trials_lib.Trial) -> str:
    """Returns the variant with the values of a trial."""
    return grids.with_options(
        self._variant, studies.options(trial.number, trial.values)
    )

  def near_ends(self, trial: trials_lib.Trial) -> list[str]:
    """Returns the hyperparameters of a trial near an end of their range."""
    return self._space.near_ends(trial.values)

  def train(
      self, trial: trials_lib.Trial, seed: int
  ) -> Optional[results.Run]:
    """Returns the complete run of a trial's values; None if it diverged.

    For the first seed, this is the trial itself.
    """
    name, within = self.chosen_variant(trial), self._within(trial.number)
    # Another process may be running it.
    with locks.held(os.path.join(self._sweep.folder, within)):
      try:
        with quiet.silence():
          return self._sweep.execute(name, seed, within=within, draw=None)
      except runner.Diverged as error:
        print(f'{self._sweep.program}: {name}: {error}', flush=True)
        return None

  def result(
      self, trial: trials_lib.Trial, seed: int
  ) -> Optional[results.Run]:
    """Returns a run of `train`; None if it diverged."""
    folder = self.folder(trial, seed)
    return results.read_run(folder) if runner.is_finished(folder) else None

  def folder(self, trial: trials_lib.Trial, seed: int) -> str:
    """Returns the folder of the run of a trial's values with a seed."""
    return os.path.join(
        self._sweep.folder, self._within(trial.number), f'seed{seed}'
    )

  def entry(self, trial: trials_lib.Trial) -> dict[str, Any]:
    """Returns the entry of a chosen trial in `best.json`."""
    return dict(
        trial=trial.number, variant=self.chosen_variant(trial),
        metric=self.metric, validation=trial.validation,
        hyperparameters=dict(trial.values), folder=self._within(trial.number),
    )

  def _within(self, number: int) -> str:
    return os.path.join(self._name, studies.trial_folder(number))


def write(
    top: str, searches: Mapping[str, VariantSearch],
    chosen: Mapping[str, Optional[trials_lib.Trial]],
) -> tuple[dict[str, list[trials_lib.Trial]], dict[str, Any]]:
  """Writes `trials.csv` and `best.json`.

  `chosen` has None or nothing for a variant without a chosen trial.

  Returns:
    All trials by variant, and the contents of `best.json`.
  """
  trials = {name: search.study.trials() for name, search in searches.items()}
  columns, rows = trials_lib.table(trials)
  results.write_csv(os.path.join(top, 'trials.csv'), columns, rows)
  best = {
      name: None if trial is None else searches[name].entry(trial)
      for name, trial in ((name, chosen.get(name)) for name in searches)
  }
  resume_flags.write(os.path.join(top, folder_data.BEST), best)
  return trials, best


def _spent(trials: Sequence[trials_lib.Trial]) -> float:
  return sum(trial.seconds for trial in trials)


def _to_go(
    trials: Sequence[trials_lib.Trial], limit: Optional[int], seconds: float
) -> str:
  """Returns the remaining time of this variant's search, as text."""
  if limit:
    left = (limit - len(trials)) * _spent(trials) / len(trials)
  else:
    left = seconds - _spent(trials)
  return f', {budgets.as_text(left)} to go' if 0 < left < math.inf else ''


class _Watch:
  """Watches the evaluated rounds of a trial.

  Attributes:
    rounds: Rounds of the whole run.
    value: Validation metric after the last evaluated round.
  """

  def __init__(
      self, claim: studies.Claim, metric: str, limit: float, pauses: bool
  ):
    """Begins to watch.

    Args:
      claim: The trial.
      metric: Metric of validation data.
      limit: Seconds, including those of killed processes, after which the run
        ends at the next evaluated round.
      pauses: Whether a run that ends for lack of time may be resumed later.
    """
    self._pauses = pauses
    self._claim, self._metric, self._limit = claim, metric, limit
    self._spent, self._started = claim.seconds, time.monotonic()
    self._round, self._trained, self.value = 0, 0.0, math.nan
    self.rounds = math.inf

  @property
  def has_seen_rows(self) -> bool:
    """Whether a round has been evaluated."""
    return self._round > 0

  def __call__(self, row: Mapping[str, Any]) -> bool:
    """Records a row of metrics; raises to end the run, else returns False."""
    self.see(row)
    if not math.isfinite(self.value):
      raise _Ended('diverged')
    self._claim.report(self._round, self.value, self._seconds())
    if self._round >= self.rounds:
      return False  # The run ends anyway.
    if self._claim.should_be_pruned():
      raise _Ended('pruned')
    if self._seconds() >= self._limit:
      raise _Ended('stopped')
    return False

  def see(self, row: Mapping[str, Any]) -> None:
    """Copies the values of a row."""
    self._round = int(row['round'])
    self._trained = float(row['seconds'])
    self.value = tuning.score(row, self._metric)

  def end(self, state: str) -> None:
    """Ends or pauses the trial."""
    if state == 'stopped' and self._pauses:
      self._claim.pause(self._seconds())
      return
    lost = state in ('diverged', 'refused')
    self._claim.end(
        state, self._round, math.nan if lost else self.value, self._seconds()
    )

  def _seconds(self) -> float:
    # A kept run counts as if it had been trained: efforts stay equal.
    return max(
        self._spent + time.monotonic() - self._started, self._trained
    )
