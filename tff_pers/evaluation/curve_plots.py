"""Curves of runs: accuracy, loss, recovery of clusters, costs."""

import functools
from typing import Any, Sequence

import numpy as np

from tff_pers.evaluation import costs
from tff_pers.evaluation import curves
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation import summary

_LABELS = {
    'cluster_accuracy': 'Clients in the right cluster',
    'cluster_nmi': 'Normalized mutual information',
}
# Validation data, if a run has some, are drawn as dots without a band.
_DOTS = dict(dashes=(1.0, 1.4), lw=1.3, alpha=0.9)


def axis_label(name: str, *, is_both: bool = False) -> str:
  """Returns the axis label of a column of `metrics.csv`.

  With validation data besides the test data, it is the label of both.
  """
  if name in _LABELS:
    return _LABELS[name]
  metric = name.removesuffix('_mean')
  words = metric if metric in summary.COMMON else metric.upper()
  words = words.replace('_', ' ')
  if not is_both:
    return f'Test {words}, mean over clients'
  return f'{words[0].upper()}{words[1:]}, mean over clients'


def plot_curves(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots accuracy and loss against rounds: mean and range over seeds.

  The metric by which validation data choose comes first, if it is another one.
  Lines are test data, dots of the same colour validation data.
  """
  chosen_by = [f"{run.config.get('metric', 'accuracy')}_mean" for run in runs]
  names = [
      name for name in dict.fromkeys((*chosen_by, 'accuracy_mean', 'loss_mean'))
      if any(figures.has(run.metrics, name) for run in runs)
  ]
  return _plot_columns(runs, names, output_dir, 'curves')


def plot_clusters(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots the recovery of the true clusters against rounds."""
  names = ['cluster_accuracy', 'cluster_nmi']
  return _plot_columns(runs, names, output_dir, 'clusters')


def _plot_columns(runs, names, output_dir: str, figure_name: str) -> str:
  """Plots columns of `metrics.csv`, one axis each."""
  num_axes = max(len(names), 1)
  variants = figures.by_variant(runs)
  picture, axes = figures.new_figure(4.6 * num_axes, 3.4, num_axes)
  for axis, name in zip(axes, names):
    # Clusters are not evaluated on validation data.
    validation = curves.validation_of(name)
    drawn = [
        _draw_column(axis, number, members, name, validation)
        for number, members in enumerate(variants.values())
    ]
    is_both = any(figures.has(run.metrics, validation) for run in runs)
    axis.set_xlabel(curves.across(runs))
    log_if_wide(axis, runs, [name, validation])
    label = axis_label(name, is_both=is_both)
    if name == 'loss_mean' and runs[0].config.get('y_is_scaled'):
      label += ' (scaled y)'
    axis.set_ylabel(label)
    if name == 'accuracy_mean':
      figures.draw_baseline(axis.axhline, runs)
    figures.tick_at(axis, np.concatenate([[], *drawn]))
    if is_both:  # The legend explains lines and dots.
      axis.plot([], [], '-', color='gray', lw=1.8, label='test data')
      axis.plot([], [], color='gray', label='validation data', **_DOTS)
  return figures.save(picture, output_dir, figure_name)


def _draw_column(axis, number: int, members, name: str, validation):
  """Draws a variant's test and validation column; returns the rounds."""
  rounds, values = curves.common_rounds(members, name)
  if rounds.size:
    figures.draw_seeds(axis, members[0].variant, number, rounds, values)
  held_out = curves.common_rounds(members, validation)
  if held_out[0].size:
    figures.draw_line(
        axis, None, number, held_out[0], held_out[1].mean(0), **_DOTS
    )
  return np.concatenate([rounds, held_out[0]])


def plot_smallest_tier(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots the smallest model of capacity tiers against rounds."""
  picture, (axis,) = figures.new_figure(4.6, 3.4, 1)
  for number, (variant, members) in enumerate(figures.by_variant(runs).items()):
    tables = [tiers for tiers in map(results.read_tiers, members) if tiers]
    smallest = [next(iter(tiers.values())) for tiers in tables]
    if not smallest:
      continue
    rounds = functools.reduce(
        np.intersect1d, [table['round'] for table in smallest]
    )
    metric = 'loss' if np.all(np.isnan(smallest[0]['accuracy'])) else 'accuracy'
    values = np.array([
        table[metric][np.isin(table['round'], rounds)] for table in smallest
    ])
    figures.draw_seeds(axis, variant, number, rounds, values)
    axis.set_ylabel(f'{metric.capitalize()} of the smallest model')
  axis.set_xlabel(curves.across(runs))
  return figures.save(picture, output_dir, 'tiers')


def plot_costs(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots accuracy (or loss) against bytes and MACs of a client, cumulative."""
  name = figures.first_known(
      (run.metrics for run in runs), 'accuracy_mean', 'loss_mean'
  )
  axes_of = {
      'Bytes of the run / clients per round': costs.cumulative_bytes,
      'MACs (forward) of the run / clients per round': costs.cumulative_macs,
  }
  if not any(costs.cumulative_macs(run) is not None for run in runs):
    axes_of.popitem()
  picture, axes = figures.new_figure(4.6 * len(axes_of), 3.4, len(axes_of))
  for axis, (label, cost) in zip(axes, axes_of.items()):
    for number, members in enumerate(figures.by_variant(runs).values()):
      _plot_against(axis, number, members, cost, name)
    axis.set_xlabel(label)
    if axis.lines:
      axis.set_xscale('log')
    axis.set_ylabel(axis_label(name))
  return figures.save(picture, output_dir, 'costs')


def _plot_against(axis, number: int, members, cost, name: str) -> None:
  """Plots a variant's mean over seeds against its mean cost."""
  members = [
      run for run in members
      if cost(run) is not None and figures.has(run.metrics, name)
  ]
  rounds, values = curves.common_rounds(members, name)
  spent = [
      cost(run)[np.isin(run.metrics['round'], rounds)] for run in members
  ]
  # A cost of 0 cannot be drawn on a logarithmic axis.
  if not np.any(spent):
    return
  figures.draw_line(
      axis, members[0].variant, number, np.mean(spent, axis=0), values.mean(0)
  )


def log_if_wide(
    axis: Any, runs: Sequence[results.Run], names: Sequence[str]
) -> None:
  """Uses a logarithmic axis if an exploding run would hide the others."""
  values = np.concatenate([[], *(
      run.metrics[name]
      for name in names for run in runs if figures.has(run.metrics, name)
  )])
  if curves.is_wide(values):
    axis.set_yscale('log')
