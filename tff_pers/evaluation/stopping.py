"""`--rounds=auto`: validation data say when a run ends.

A run ends after the first evaluated round that is `patience` evaluations, and
at least a cycle of the method (`config/cadence.py`), past the best one. The
models that a run ends with are those of its last round, as in all other runs.
Test data are not looked at.
"""

import math
from typing import Any, Mapping, NamedTuple

from tff_pers.config import cadence as cadence_lib
from tff_pers.evaluation import summary
from tff_pers.evaluation import tuning

# What counts as better: an accuracy that is higher by more than this, a loss
# that is lower by more than this share. Less is noise, or will not pay.
LEAST = 1e-3


class Rule(NamedTuple):
  """When a run ends.

  Attributes:
    metric: `accuracy` or `loss`, of which the mean over clients on their
      validation data counts.
    patience: Evaluations without an improvement after which the run ends.
    cadence: Which evaluations are compared.
  """

  metric: str
  patience: int
  cadence: cadence_lib.Cadence = cadence_lib.Cadence()


class Watch:
  """Sees the rows of a run's metrics one after the other.

  What it says follows from the rows alone: a run that is resumed shows it the
  rows of its folder, and ends where it would have ended.

  Attributes:
    best_round: The best evaluated round so far; 0: none was compared.
    best: What it was worth.
    last: What the last one was worth.
    is_over: Whether the run ends.
  """

  def __init__(self, rule: Rule):
    self._rule, self._waited = rule, 0
    self.best_round, self.best, self.last = 0, math.nan, math.nan
    self.is_over = False

  def __call__(self, row: Mapping[str, Any]) -> bool:
    """Notes a row of metrics, with its `round`; returns `is_over`."""
    round_num = int(row['round'])
    self.last = tuning.score(row, self._rule.metric)
    if not self._rule.cadence.compares(round_num):
      return self.is_over
    if self._is_better(self.last):
      self.best_round, self.best, self._waited = round_num, self.last, 0
    else:
      self._waited += 1
    self.is_over = (
        self._waited >= self._rule.patience
        and round_num - self.best_round >= self._rule.cadence.cycle
    )
    return self.is_over

  def _is_better(self, score: float) -> bool:
    if not math.isfinite(score):
      return False
    if not math.isfinite(self.best):
      return True
    if summary.is_higher_better(self._rule.metric):
      return score > self.best + LEAST
    return score < self.best - LEAST * abs(self.best)

  def sentence(self, round_num: int) -> str:
    """Says where the run ended, and why.

    Args:
      round_num: Its last round.
    """
    metric = f'validation {self._rule.metric}'
    if not self.is_over:
      return (
          f'Ended at --max_rounds={round_num}: {metric} was the best in round'
          f' {self.best_round} ({self.best:.4f}). Tip: a larger --max_rounds.'
      )
    return (
        f'Ended after round {round_num}: {metric} has not improved since round'
        f' {self.best_round} ({self.best:.4f}). All results are those of the'
        f' last round ({self.last:.4f}). Tip: --rounds={self.best_round} trains'
        ' as long as was best.'
    )
