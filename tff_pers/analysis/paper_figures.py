"""Numbers in the figures of the paper's theory.

All have mu = 1. Where the paper is silent the choices are ours: the values of L
in Figure 2, the range of K in Figure 1, one simulated client of 100 dimensions
if it does not say how many, alpha in {0, 0.5, 1, 5} in Figures 9 and 10 (a
caption has 10 instead of 5).

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021. Section 5, Appendix D.
"""

from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

import numpy as np

from tff_pers.analysis import frontiers
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates

_MOST_STEPS = 10 ** 6
_ALPHAS = (0.0, 0.5, 1.0, 5.0)
_SEED = 0  # Seed of the simulated clients.
COLUMNS = (*frontiers.Point._fields, 'panel', 'curve', 'mu', 'L')


class Curve(NamedTuple):
  """A line of a figure.

  Attributes:
    panel: Title of its panel.
    label: Label in the legend.
    L: Largest eigenvalue.
    points: Points along the line.
  """

  panel: str
  label: str
  L: float
  points: Sequence[frontiers.Point]


class Figure(NamedTuple):
  """A figure of the paper.

  Attributes:
    summary: What it shows.
    curves: Function that computes it.
  """

  summary: str
  curves: Callable[[], Iterable[Curve]]


def compute(number: int) -> list[Curve]:
  """Returns the curves of a figure."""
  return list(FIGURES[number].curves())


def rows(curves: Sequence[Curve]) -> list[dict[str, Any]]:
  """Returns a row of `COLUMNS` per point."""
  return [
      dict(
          point._asdict(), panel=curve.panel, curve=curve.label, mu=1.0,
          L=curve.L,
      )
      for curve in curves for point in curve.points
  ]


def _sweep(largest, family, server, **values):
  return frontiers.sweep(
      local_updates.Spectrum(1.0, largest), family, server, **values
  )


def _simulated(largest, server, dim, alpha=0.0):
  """Returns the frontier of Theta_K for a random client, gamma = 0.001."""
  eigenvalues = frontiers.simulated_eigenvalues(
      local_updates.Spectrum(1.0, largest), dim, _SEED
  )
  return _sweep(
      largest, 'theta_K', server, num_steps=_steps(), gamma=1e-3, alpha=alpha,
      eigenvalues=eigenvalues,
  )


def _steps():
  return frontiers.steps_up_to(_MOST_STEPS)


def _figure1():
  for largest in (5.0, 50.0):
    yield Curve('gamma = 0.01, K varies', f'L = {largest:g}', largest, _sweep(
        largest, 'fedavg', 'gd', num_steps=_steps(), gamma=0.01
    ))
  for largest in (5.0, 50.0):
    # Dense at both ends: kappa changes at small gamma, and 1/L is a limit.
    share = np.concatenate([np.geomspace(1e-5, 0.5, 60), [0.7, 0.9, 0.999999]])
    yield Curve('K = 100, gamma varies', f'L = {largest:g}', largest, _sweep(
        largest, 'fedavg', 'gd', num_steps=100, gamma=share / largest
    ))


def _figure2():
  for largest in (2.0, 10.0, 100.0):
    for server in rates.SERVERS:
      yield Curve(f'L = {largest:g}', server, largest, _sweep(
          largest, 'fedavg', server, num_steps=_steps(),
          gamma=1 / (2 * largest),
      ))


def _figure3():
  for alpha in _ALPHAS:
    yield Curve('', f'alpha = {alpha:g}', 10.0, _sweep(
        10.0, 'fedprox', 'gd', num_steps=_steps(),
        gamma=1 / (2 * (10.0 + alpha)), alpha=alpha,
    ))


def _figure4():
  for server in rates.SERVERS:
    yield Curve(server, 'Theta_1:K, gamma = 0.001', 10.0, _sweep(
        10.0, 'fedavg', server, num_steps=_steps(), gamma=1e-3
    ))
    yield Curve(server, 'Theta_K, gamma = 1/(2 L K)', 10.0, _sweep(
        10.0, 'theta_K', server, num_steps=_steps(),
        gamma=1 / (2 * 10.0 * _steps()),
    ))


def _against_simulation(panel, largest, server, dim, alpha=0.0):
  """Yields the curves of Theta_{1:K}, and of Theta_K for a random client."""
  yield Curve(panel, 'Theta_1:K', largest, _sweep(
      largest, 'fedprox' if alpha else 'fedavg', server, num_steps=_steps(),
      gamma=1e-3, alpha=alpha,
  ))
  yield Curve(panel, 'Theta_K, simulated', largest, _simulated(
      largest, server, dim, alpha
  ))


def _figure5():
  for dim in (5, 100):
    yield from _against_simulation(f'd = {dim}', 10.0, 'gd', dim)


def _figure7():
  for largest in (2.0, 5.0, 10.0, 100.0):
    yield from _against_simulation(f'L = {largest:g}', largest, 'gd', 100)


def _figure8():
  for server in rates.SERVERS:
    yield from _against_simulation(server, 10.0, server, 100)


def _figure9():
  # gamma < 1 / (K L + alpha) holds up to slightly fewer than 10^6 steps.
  most = int((1e7 - max(_ALPHAS)) / 10) - 1
  for alpha in _ALPHAS:
    yield Curve('', f'alpha = {alpha:g}', 10.0, _sweep(
        10.0, 'theta_K', 'gd', num_steps=frontiers.steps_up_to(most),
        gamma=1e-7, alpha=alpha,
    ))


def _figure10():
  for alpha in _ALPHAS:
    yield from _against_simulation(
        f'alpha = {alpha:g}', 10.0, 'gd', 100, alpha
    )


FIGURES: Mapping[int, Figure] = {
    1: Figure('FedAvg, L = 5 and 50; K varies, gamma varies', _figure1),
    2: Figure('FedAvg; GD, Nesterov, heavy ball; L = 2, 10, 100', _figure2),
    3: Figure('FedProx, L = 10; alpha = 0, 0.5, 1, 5', _figure3),
    4: Figure('FedAvg and Theta_K (FOMAML, MAML), L = 10', _figure4),
    5: Figure('Theta_K beyond its closed form, simulated, L = 10', _figure5),
    7: Figure('as 5, L = 2, 5, 10, 100', _figure7),
    8: Figure('as 5, GD, Nesterov, heavy ball', _figure8),
    9: Figure('Theta_K, gamma = 1e-7; alpha = 0, 0.5, 1, 5', _figure9),
    10: Figure('as 5; alpha = 0, 0.5, 1, 5', _figure10),
}
