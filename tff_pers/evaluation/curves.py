"""What curves of several seeds have in common, whatever draws them."""

from typing import Sequence

import numpy as np
import numpy.typing as npt

from tff_pers.evaluation import figures
from tff_pers.evaluation import results


def validation_of(name: str) -> str:
  """Returns the column on validation data of one of `metrics.csv` on test data.

  Args:
    name: The column on test data; '' is returned if it has no other.
  """
  if not name.endswith('_mean'):
    return ''
  return f"{name.removesuffix('_mean')}_validation"


def common_rounds(
    runs: Sequence[results.Run], name: str
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rounds that all seeds have, [T], and values, [seeds, T].

  Args:
    runs: Those of one variant; who lacks the column is left out.
    name: A column of `metrics.csv`.
  """
  having = [run for run in runs if figures.has(run.metrics, name)]
  if not having:
    return np.zeros(0), np.zeros([0, 0])
  rounds = having[0].metrics['round']
  # Seeds of a running comparison may have come to different rounds.
  for run in having[1:]:
    rounds = np.intersect1d(rounds, run.metrics['round'])
  values = [
      run.metrics[name][np.isin(run.metrics['round'], rounds)] for run in having
  ]
  return rounds, np.array(values)


def across(runs: Sequence[results.Run]) -> str:
  """Returns what column `round` counts in these runs, for an axis."""
  by_events = ['version' in run.metrics for run in runs]
  if not any(by_events):
    return 'Communication round'
  return 'Server update' if all(by_events) else 'Round, or server update'


def is_wide(values: npt.ArrayLike) -> bool:
  """Returns whether values fit a logarithmic axis better: all > 0, and wide."""
  array = np.asarray(values)
  known = array[np.isfinite(array)]
  return bool(known.size and 0 < known.min() < known.max() / 100)
