"""Accuracy of a global model after s local steps, as a function of s."""

import math
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from tff_pers.evaluation import curve_plots
from tff_pers.evaluation import figures
from tff_pers.evaluation import results
from tff_pers.evaluation import summary


def rows(
    seen: int, metrics: Mapping[int, Mapping[str, np.ndarray]]
) -> list[dict[str, Any]]:
  """Returns the rows of `finetuning.csv` of one kind of clients.

  `seen` is 1 for clients that train, 0 for those that never do. Metrics are by
  number of steps, then by name, [N] each, NaN for clients without test
  examples. `share_hurt` is the share of clients that are worse off than with 0
  steps, empty if 0 is not among the numbers.
  """
  return [
      dict(
          seen=seen, steps=steps,
          accuracy_mean=_statistic(found, 'accuracy', 'mean'),
          accuracy_worst_decile=_statistic(found, 'accuracy', 'worst_decile'),
          loss_mean=_statistic(found, 'loss', 'mean'),
          share_hurt=_share_hurt(found, metrics.get(0)),
      )
      for steps, found in metrics.items()
  ]


def _statistic(metrics, name: str, statistic: str) -> Optional[float]:
  if name not in metrics:
    return None
  value = getattr(
      summary.summarize(
          metrics[name], metrics['num_examples'],
          higher_is_better=name == 'accuracy',
      ),
      statistic,
  )
  return None if math.isnan(value) else value


def _share_hurt(metrics, untouched) -> Optional[float]:
  if untouched is None:
    return None
  name = 'accuracy' if 'accuracy' in metrics else 'loss'
  return summary.share_hurt(
      metrics[name], untouched[name], higher_is_better=name == 'accuracy'
  )


def plot(runs: Sequence[results.Run], output_dir: str) -> str:
  """Plots the mean against s: a colour per variant, with a band over seeds.

  Clients that train are on the left, clients that never do on the right.
  Returns the path without suffix.
  """
  having = [run for run in runs if run.finetuning is not None]
  variants = figures.by_variant(having)
  name = figures.first_known(
      (run.finetuning for run in having), 'accuracy_mean', 'loss_mean'
  )
  sides = [
      seen for seen in (1, 0)
      if any(np.any(_columns(run)['seen'] == seen) for run in having)
  ]
  picture, axes = figures.new_figure(
      4.6 * max(len(sides), 1), 3.4, max(len(sides), 1)
  )
  evaluated = np.unique(
      np.concatenate([[], *(_columns(run)['steps'] for run in having)])
  )
  for axis, seen in zip(axes, sides):
    for number, (variant, members) in enumerate(variants.items()):
      curves = [_curve(run, seen, name) for run in members]
      # Seeds of a variant have the same flags, and thus the same numbers.
      steps, values = curves[0][0], np.array([curve[1] for curve in curves])
      figures.draw_seeds(
          axis, variant, number, steps, values, marker='o', ms=4
      )
    axis.set_xscale('symlog', linthresh=1.0)
    axis.set_xticks(evaluated, [f'{step:g}' for step in evaluated])
    axis.minorticks_off()
    axis.set_xlabel('Local steps from the global model')
    axis.set_title(
        'Clients that train' if seen else 'Clients that never train',
        fontsize=10,
    )
  axes[0].set_ylabel(curve_plots.axis_label(name))
  return figures.save(picture, output_dir, 'finetuning')


def _curve(run: results.Run, seen: int, name: str):
  columns = _columns(run)
  chosen = columns['seen'] == seen
  return columns['steps'][chosen], columns[name][chosen]


def _columns(run: results.Run) -> Mapping[str, np.ndarray]:
  assert run.finetuning is not None  # Other runs are left out.
  return run.finetuning
