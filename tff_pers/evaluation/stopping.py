"""`--rounds=auto`: validation data decide when a run ends.

A run ends after the first evaluated round that is `patience` evaluations, and
at least a cycle of the method (`config/cadence.py`), past the best one. The
final models are those of the last round, as in all other runs. Test data are
not used.
"""

import math
from typing import Any, Mapping, NamedTuple

from tff_pers.config import cadence as cadence_lib
from tff_pers.evaluation import summary
from tff_pers.evaluation import tuning

# Smallest improvement: absolute for an accuracy, relative for a loss. Smaller
# ones are noise or do not pay.
LEAST = 1e-3


class Rule(NamedTuple):
  """When a run ends.

  Attributes:
    metric: `accuracy` or `loss`; its mean over clients on their validation data
      counts.
    patience: Evaluations without improvement after which the run ends.
    cadence: Which evaluations are compared.
  """

  metric: str
  patience: int
  cadence: cadence_lib.Cadence = cadence_lib.Cadence()


class Watch:
  """Watches the rows of a run's metrics in order.

  Its result depends only on the rows: a resumed run passes it the rows of its
  folder, and ends where it would have ended.

  Attributes:
    best_round: The best evaluated round so far; 0: none was compared.
    best: The metric of that round.
    last: The metric of the last round.
    is_over: Whether the run ends.
  """

  def __init__(self, rule: Rule):
    self._rule, self._waited = rule, 0
    self.best_round, self.best, self.last = 0, math.nan, math.nan
    self.is_over = False

  def __call__(self, row: Mapping[str, Any]) -> bool:
    """Processes a row of metrics with `round`; returns `is_over`."""
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
    """Returns where and why the run ended; `round_num` is its last round."""
    metric = f'validation {self._rule.metric}'
    if not self.is_over:
      return (
          f'Ended at --max_rounds={round_num}: {metric} was best in round'
          f' {self.best_round} ({self.best:.4f}). Tip: a larger --max_rounds.'
      )
    return (
        f'Ended after round {round_num}: {metric} has not improved since round'
        f' {self.best_round} ({self.best:.4f}). All results are those of the'
        f' last round ({self.last:.4f}). Tip: --rounds={self.best_round} trains'
        ' only up to the best round.'
    )
