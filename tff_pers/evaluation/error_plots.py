"""Errors against rounds on a logarithmic axis, with a band over seeds."""

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from tff_pers.evaluation import curves as curves_lib
from tff_pers.evaluation import figures
from tff_pers.evaluation import results


class Curve(NamedTuple):
  """An error against rounds.

  Attributes:
    rounds: int[T], ascending.
    values: float[seeds, T], NaN if a seed has no value.
  """

  rounds: np.ndarray
  values: np.ndarray


def plot_runs(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots the distance to the optimum; see `plot_panels`."""
  by_variant = {}
  for variant, members in figures.by_variant(runs).items():
    having = [run for run in members if figures.has(run.metrics, 'distance')]
    # A variant without a distance keeps its place, so colours stay the same.
    by_variant[variant] = joined(
        [(run.metrics['round'], run.metrics['distance']) for run in having]
    )
  return plot_panels(
      {'': by_variant}, output_dir, 'distance',
      'Distance to the optimum, mean over clients', curves_lib.across(runs),
  )


def joined(seeds: Sequence[tuple[np.ndarray, np.ndarray]]) -> Curve:
  """Returns one curve from (rounds, values) of each seed.

  Seeds may have reached different rounds; missing values are NaN.
  """
  rounds = np.unique(np.concatenate([[], *(own for own, _ in seeds)]))
  table = np.full([len(seeds), len(rounds)], np.nan)
  for row, (own, values) in zip(table, seeds):
    row[np.searchsorted(rounds, own)] = values
  return Curve(rounds, table)


def drawable(curve: Curve) -> Curve:
  """Returns the curve with a mask where a logarithmic axis cannot show it.

  That is 0, NaN and infinity; rounds without any other value are left out.
  """
  values = np.ma.masked_less_equal(
      np.ma.masked_invalid(np.asarray(curve.values, np.float64)), 0
  )
  some = values.count(axis=0) > 0
  return Curve(np.asarray(curve.rounds)[some], values[:, some])


def plot_panels(
    panels: Mapping[str, Mapping[str, Curve]], output_dir: str, name: str,
    label: str, across: str = 'Communication round',
) -> str:
  """Plots panels side by side; a line per variant with a band over seeds.

  The line is the mean over seeds, the band their range. A single seed has no
  band. A variant has the same colour in all panels. Curves are by variant, by
  title of the panel. Returns the path without suffix.
  """
  picture, axes = figures.new_figure(4.6 * len(panels), 3.6, len(panels))
  variants = list(dict.fromkeys(
      variant for curves in panels.values() for variant in curves
  ))
  for axis, (title, curves) in zip(axes, panels.items()):
    for variant, curve in curves.items():
      rounds, values = drawable(curve)
      if rounds.size:
        figures.draw_seeds(
            axis, variant, variants.index(variant), rounds, values
        )
    axis.set_yscale('log')
    axis.set_xlabel(across)
    axis.set_ylabel(label)
    axis.set_title(title, fontsize=10)
    figures.tick_at(axis, np.concatenate(
        [[], *(curve.rounds for curve in curves.values())]
    ))
  return figures.save(picture, output_dir, name)
