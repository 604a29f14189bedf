"""Curves of several seeds, independent of how they are drawn."""

from typing import Sequence

import numpy as np
import numpy.typing as npt

from tff_pers.evaluation import figures
from tff_pers.evaluation import results


def validation_of(name: str) -> str:
  """Returns the validation column of a test column, '' if there is none."""
  if not name.endswith('_mean'):
    return ''
  return f"{name.removesuffix('_mean')}_validation"


def common_rounds(
    runs: Sequence[results.Run], name: str
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the rounds that all seeds have, [T], and values, [seeds, T].

  Runs of the variant without the column are left out.
  """
  having = [run for run in runs if figures.has(run.metrics, name)]
  if not having:
    return np.zeros(0), np.zeros([0, 0])
  rounds = having[0].metrics['round']
  # Seeds of a running comparison may have reached different rounds.
  for run in having[1:]:
    rounds = np.intersect1d(rounds, run.metrics['round'])
  values = [
      run.metrics[name][np.isin(run.metrics['round'], rounds)] for run in having
  ]
  return rounds, np.array(values)


def across(runs: Sequence[results.Run]) -> str:
  """Returns the axis label for the column `round` of these runs."""
  by_events = ['version' in run.metrics for run in runs]
  if not any(by_events):
    return 'Communication round'
  return 'Server update' if all(by_events) else 'Round, or server update'


def is_wide(values: npt.ArrayLike) -> bool:
  """Returns whether values suit a logarithmic axis: all > 0, wide range."""
  array = np.asarray(values)
  known = array[np.isfinite(array)]
  return bool(known.size and 0 < known.min() < known.max() / 100)
