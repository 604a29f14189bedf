"""Curves of a page: a variant's metrics against rounds and costs."""

import itertools
from typing import Any, Sequence

import numpy as np

from tff_pers.evaluation import costs
from tff_pers.evaluation import curves
from tff_pers.evaluation import figures
from tff_pers.evaluation.report import cells
from tff_pers.evaluation.report import members as members_lib

# Maximum number of points of a curve; a screen shows no more.
MAX_POINTS = 150
_AXES = ('round', 'seconds')


def of_label(members: Sequence[members_lib.Member]) -> dict[str, Any]:
  """Returns the curves of the runs of a label, which differ in seeds.

  Returns:
    `axes`: by name (`round`; `seconds` and `bytes`, means over seeds), [T];
    `columns`: by name, `mean` [T], and `low` and `high` over the seeds if they
    differ; `thinned`: the number of evaluated rounds if not all are shown, else
    None. T is 0 if the seeds have no round in common.
  """
  runs = [member.run for member in members]
  names = list(dict.fromkeys(
      name for run in runs for name in run.metrics
      if name not in (*_AXES, 'bytes_down', 'bytes_up')
      and figures.has(run.metrics, name)
  ))
  rounds, _ = curves.common_rounds(runs, 'round')
  shown = thinned(len(rounds))
  at = lambda run, values: values[np.isin(run.metrics['round'], rounds)][shown]
  mean = lambda rows: cells.series(np.mean(rows, axis=0)) if len(rows) else []
  axes = dict(
      round=cells.series(rounds[shown]),
      seconds=mean([at(run, run.metrics['seconds']) for run in runs]),
      bytes=mean([at(run, costs.cumulative_bytes(run)) for run in runs]),
  )
  columns = {}
  for name in names:
    having = [run for run in runs if figures.has(run.metrics, name)]
    columns[name] = _over_seeds(
        np.array([at(run, run.metrics[name]) for run in having])
    )
  return dict(
      axes=axes, columns=columns,
      thinned=len(rounds) if len(rounds) > MAX_POINTS else None,
  )


def thinned(number: int) -> np.ndarray:
  """Returns the positions of the points to show, int[<= MAX_POINTS + 1].

  These are all, or the first and every k-th up to the last, where k is a round
  number, so that round numbers of rounds are included.
  """
  step = next(
      size for power in itertools.count()
      for size in (10**power, 2 * 10**power, 5 * 10**power)
      if size * MAX_POINTS >= number
  )
  return np.union1d(
      np.arange(min(number, 1)), np.arange(number - 1, -1, -step)
  ).astype(np.int64)


def _over_seeds(values: np.ndarray) -> dict[str, Any]:
  """Returns the mean of [seeds, T], and the range if there is one."""
  with np.errstate(invalid='ignore'):  # Infinity minus infinity.
    mean, low, high = values.mean(0), values.min(0), values.max(0)
  drawn = dict(mean=cells.series(mean))
  if not np.array_equal(low, high, equal_nan=True):
    drawn.update(low=cells.series(low), high=cells.series(high))
  return drawn
