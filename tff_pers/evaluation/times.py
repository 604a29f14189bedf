"""Virtual time that runs need to reach a target.

Rounds and events use the same clock (`simulation.asynchrony_clocks`), so one
table shows methods of both kinds.
"""

from typing import Any, Optional, Sequence

import numpy as np

from tff_pers.evaluation import figures
from tff_pers.evaluation import results

TIME = 'virtual_time'
COLUMNS = (
    'algo', 'seeds', 'measure', 'target', 'reached', TIME, f'{TIME}_std',
    'updates',
)
# Candidate measures in order: the first that any run has is used.
_MEASURES = ('accuracy_mean', 'distance', 'loss_mean')
# Default targets, as multiples of what the worst variant reaches.
_RISING, _FALLING = (0.8, 0.9, 1.0), (100.0, 10.0, 1.0)


def are_timed(runs: Sequence[results.Run]) -> bool:
  """Returns whether any of the runs has the clock."""
  return any(figures.has(run.metrics, TIME) for run in runs)


def measure_of(runs: Sequence[results.Run]) -> str:
  """Returns the column by which the runs are measured."""
  return figures.first_known((run.metrics for run in runs), *_MEASURES)


def rises(measure: str) -> bool:
  """Returns whether larger values are better."""
  return measure == 'accuracy_mean'


def rows(
    runs: Sequence[results.Run], targets: Sequence[float] = ()
) -> list[dict[str, Any]]:
  """Returns a row per target and variant.

  `virtual_time` and `updates` (rounds, or server updates) are means over seeds
  of the first evaluated row that is at least as good as the target; they are
  None unless all seeds reach it. `reached` counts the seeds that do. Runs
  without a clock are left out. The default targets are 80, 90 and 100 % of the
  best mean accuracy of the worst variant, or 100, 10 and 1 times its smallest
  distance or loss.
  """
  timed = [run for run in runs if figures.has(run.metrics, TIME)]
  measure = measure_of(timed)
  variants = figures.by_variant(timed)
  return [
      _row(variant, members, measure, target)
      for target in targets or _targets(variants, measure)
      for variant, members in variants.items()
  ]


def _targets(variants, measure: str) -> list[float]:
  """Returns the targets that all variants reach, easiest first."""
  best = [
      np.mean([_best(run, measure) for run in members])
      for members in variants.values()
  ]
  if rises(measure):
    return [float(share * min(best)) for share in _RISING]
  return [float(times * max(best)) for times in _FALLING]


def _best(run: results.Run, measure: str) -> float:
  values = run.metrics[measure]
  return float(np.nanmax(values) if rises(measure) else np.nanmin(values))


def _row(variant: str, members, measure: str, target: float):
  found = [_first(run, measure, target) for run in members]
  firsts = [(run, i) for run, i in zip(members, found) if i is not None]
  means = dict.fromkeys((TIME, f'{TIME}_std', 'updates'))
  if len(firsts) == len(members):
    times = [run.metrics[TIME][i] for run, i in firsts]
    means = {
        TIME: float(np.mean(times)),
        f'{TIME}_std': (
            float(np.std(times, ddof=1)) if len(times) > 1 else None
        ),
        'updates': float(
            np.mean([run.metrics['round'][i] for run, i in firsts])
        ),
    }
  return dict(
      algo=variant, seeds=len(members), measure=measure, target=target,
      reached=len(firsts), **means,
  )


def _first(run: results.Run, measure: str, target: float) -> Optional[int]:
  """Returns the first evaluated row that reaches the target, or None."""
  values = np.asarray(run.metrics.get(measure, ()), np.float64)
  # NaN is never good.
  good = values >= target if rises(measure) else values <= target
  return int(np.argmax(good)) if good.any() else None
