"""Plots metrics against the virtual clock and against server updates."""

from typing import Sequence

import numpy as np

from tff_pers.evaluation import curve_plots
from tff_pers.evaluation import curves
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation import times

_DISTANCE = 'Distance to the optimum,\nmean over clients'


def plot(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots accuracy, else distance, else loss; a line per variant.

  The line is the mean over seeds at their mean times, the band their range.
  Distance and loss have a logarithmic axis. A round of a synchronous method is
  one server update. Returns the path without suffix.
  """
  measure = times.measure_of(runs)
  picture, axes = figures.new_figure(9.2, 3.6, 2)
  for axis, column, label in zip(
      axes, (times.TIME, 'round'),
      ('Virtual time, seconds', 'Server updates'),
  ):
    for number, members in enumerate(figures.by_variant(runs).values()):
      _draw(axis, number, members, measure, column)
    if not times.rises(measure):
      axis.set_yscale('log')
    axis.set_xlabel(label)
    axis.set_ylabel(
        _DISTANCE if measure == 'distance' else curve_plots.axis_label(measure)
    )
  return figures.save(picture, output_dir, 'virtual_time')


def _draw(axis, number: int, members, measure: str, column: str) -> None:
  """Draws one variant; a run without a clock is left out of both panels."""
  timed = [run for run in members if figures.has(run.metrics, times.TIME)]
  rounds, values = curves.common_rounds(timed, measure)
  if not rounds.size:
    return
  having = [run for run in timed if figures.has(run.metrics, measure)]
  across = np.mean([
      run.metrics[column][np.isin(run.metrics['round'], rounds)]
      for run in having
  ], axis=0)
  figures.draw_seeds(axis, members[0].variant, number, across, values)
