"""Runs one trial and prunes it if it falls behind."""

import math
import time
from typing import Any, Mapping

from tff_pers.evaluation import grids
from tff_pers.evaluation import tuning
from tff_pers.experiments import flags
from tff_pers.experiments import quiet
from tff_pers.experiments import runner
from tff_pers.experiments import saved_runs
from tff_pers.experiments import studies
from tff_pers.experiments import sweep as sweep_lib


class _Ended(flags.Failure):
  """A trial ends before its last round; the message is its state."""


def run(
    sweep: sweep_lib.Sweep, variant: str, seed: int, claim: studies.Claim, *,
    within: str, metric: str, seconds: float = math.inf, pauses: bool = False,
) -> str:
  """Runs or resumes a trial; returns why it was refused, or ''.

  Args:
    sweep: Runs it.
    variant: The variant as given, without the values of the trial.
    seed: Seed of the run.
    claim: The trial; it is ended unless the run fails.
    within: Folder of the trial within that of all runs.
    metric: `accuracy` or `loss`.
    seconds: Time, including that of killed processes, after which the run ends
      at the next evaluated round.
    pauses: Whether a run that ends for lack of time may be resumed later.

  Raises:
    flags.Failure: If something other than the trial's values stops the run; the
      trial can be resumed.
  """
  watch = _Watch(claim, metric, seconds, pauses)
  name = grids.with_options(variant, claim.options)
  try:
    experiment, folder = sweep.prepare(name, seed, within=within)
    watch.rounds = experiment.task.rounds
    if not runner.is_finished(folder):
      position = saved_runs.position(folder)
      for row in saved_runs.rows(folder, position.round if position else 0):
        watch(row)
    with quiet.silence():
      done = sweep.execute(
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


class _Watch:
  """Watches the evaluated rounds of a trial.

  Attributes:
    rounds: Rounds of the whole run.
    value: Validation metric after the last evaluated round.
  """

  def __init__(
      self, claim: studies.Claim, metric: str, limit: float, pauses: bool
  ):
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
