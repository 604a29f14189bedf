"""Accuracy against the share of private parameters, over splits of a model."""

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.evaluation import comparison
from tff_pers.evaluation import curve_plots
from tff_pers.evaluation import figures

COLUMNS = ('split', 'private_share', 'seeds', 'accuracy_mean', 'accuracy_std',
           'loss_mean')


def rows(
    runs: comparison.Runs, splits: Mapping[str, str], ends: Mapping[str, float]
) -> list[dict[str, Any]]:
  """Returns a row of `COLUMNS` per variant, by increasing share.

  `splits` are the names of the variants' splits, `ends` the shares (0 or 1) of
  variants that split nothing.
  """
  found = []
  for row in comparison.summary_rows(runs):
    variant = row['algo']
    found.append(dict(
        {name: row.get(name) for name in COLUMNS}, split=splits[variant],
        private_share=_share(runs, variant, ends),
    ))
  # If all seeds diverged, the share is unknown.
  return sorted(found, key=lambda row: (
      row['private_share'] is None, row['private_share'] or 0.0
  ))


def _share(runs: comparison.Runs, variant: str, ends) -> Optional[float]:
  if variant in ends:
    return ends[variant]
  for (name, _), run in runs.items():
    if name == variant and run is not None:
      return run.config['parameters']['private_share']
  return None


def plot(table: Sequence[Mapping[str, Any]], output_dir: str) -> str:
  """Plots a table of `rows`; bars are standard deviations over seeds.

  The loss is drawn if there is no accuracy. Returns the path without suffix.
  """
  picture, (axis,) = figures.new_figure(6.0, 4.0, 1)
  metric = 'accuracy_mean'
  if all(row[metric] is None for row in table):
    metric = 'loss_mean'
  for number, row in enumerate(table):
    value = row[metric]
    if row['private_share'] is None or value is None or not np.isfinite(value):
      continue
    color, _ = figures.style(number)
    deviation = row['accuracy_std'] if metric == 'accuracy_mean' else None
    axis.errorbar(
        row['private_share'], value, yerr=deviation, fmt='o', color=color,
        capsize=3, label=row['split'],
    )
  # Biases and adaptors are at most 1 % of a model, and 0 is a point too.
  axis.set_xscale('symlog', linthresh=1e-3)
  axis.set_xlim(-1e-4, 1.5)
  axis.set_xticks(
      [0, 1e-3, 1e-2, 1e-1, 1], ['0', '0.1 %', '1 %', '10 %', '100 %']
  )
  axis.set_xlabel('Share of private parameters')
  axis.set_ylabel(curve_plots.axis_label(metric))
  return figures.save(picture, output_dir, 'splits')
