"""Plots of Delta against rho."""

from typing import Sequence

import numpy as np

from tff_pers.analysis import frontiers
from tff_pers.analysis import paper_figures
from tff_pers.analysis import rates
from tff_pers.evaluation import figures

_LABELS = {'gd': 'GD', 'nesterov': 'Nesterov', 'heavy_ball': 'Heavy ball'}
_RATE = 'Convergence rate rho per round'
_DISTANCE = 'Suboptimality Delta'


def plot_curves(
    curves: Sequence[paper_figures.Curve], output_dir: str, name: str
) -> str:
  """Plots the panels of a figure side by side.

  Curves with the same label have the same colour in all panels.

  Returns:
    The path of the figure, without suffix.
  """
  titles = list(dict.fromkeys(curve.panel for curve in curves))
  labels = list(dict.fromkeys(curve.label for curve in curves))
  width = max(3.7 * len(titles), 5.0)
  picture, axes = figures.new_figure(width, 3.8, len(titles))
  for axis, title in zip(axes, titles):
    own = [curve for curve in curves if curve.panel == title]
    for number, curve in enumerate(own):
      color, _ = figures.style(labels.index(curve.label))
      # Curves may coincide, so later ones are thinner.
      axis.plot(
          [p.rho for p in curve.points], [p.delta for p in curve.points],
          color=color, lw=6.0 * 0.6 ** number,
          label=_LABELS.get(curve.label, curve.label),
      )
    _finish(axis, _LABELS.get(title, title))
  return figures.save(picture, output_dir, name)


def plot_points(
    kappa0: float,
    points: Sequence[frontiers.Point],
    output_dir: str,
    name: str,
    title: str = '',
) -> str:
  """Plots points on the curves of all methods, one curve per server.

  Args:
    kappa0: Condition number of the true loss.
    points: The points.
    output_dir: Folder of the figure.
    name: Its name, without suffix.
    title: Its title.

  Returns:
    The path of the figure, without suffix.
  """
  picture, (axis,) = figures.new_figure(5.0, 4.2, 1)
  for number, server in enumerate(rates.SERVERS):
    color, dash = figures.style(number)
    # Up to the rate of kappa0, where Delta is 0; rate 0 is one-shot averaging.
    rho = np.linspace(0, float(rates.rate(kappa0, server)), 400)
    own = [point for point in points if point.server == server]
    axis.plot(
        rho, frontiers.curve(kappa0, server, rho), dash, color=color, lw=1.8,
        label=_LABELS[server],
    )
    axis.plot(
        [p.rho for p in own], [p.delta for p in own], 'o', color=color
    )
  _finish(axis, title)
  return figures.save(picture, output_dir, name)


def _finish(axis, title: str) -> None:
  axis.set_xlabel(_RATE)
  axis.set_ylabel(_DISTANCE)
  axis.set_title(title, fontsize=10)
  axis.set_xlim(-0.02, 1.02)
  axis.set_ylim(bottom=-0.02)
