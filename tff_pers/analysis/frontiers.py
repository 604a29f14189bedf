"""Convergence rate against suboptimality: points, curves, and simulations.

A point (rho, Delta) of a method states how fast its server converges (Table 2)
and how far from the true optimum its clients make it converge (Eq. 17); both
are in [0, 1], and (0, 0) is best. Varying gamma or K traces a frontier.

With these definitions a point depends on a method only through kappa: for one
server and kappa0 = L / mu all points lie on one curve, and methods differ in
how much of it they reach. The exception is Theta_K beyond gamma < 1 / (K L +
alpha), where Delta is that of the distortion (`bounds.delta_of_distortion`) and
leaves the curve.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021. Section 5, Appendix D.
"""

import math
from typing import Any, NamedTuple, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tff_pers.analysis import bounds
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates
from tff_pers.numerics import thetas

FAMILIES = ('fedavg', 'fedprox', 'maml', 'theta_K')


class Point(NamedTuple):
  """A row of `pareto.csv`.

  Attributes:
    family: One of `FAMILIES`.
    server: One of `rates.SERVERS`.
    num_steps: K; for `maml` the steps of adaptation.
    gamma: Client learning rate.
    alpha: Proximal strength.
    kappa: Largest condition number of the surrogate loss.
    rho: Convergence rate per round.
    delta: Suboptimality.
  """

  family: str
  server: str
  num_steps: int
  gamma: float
  alpha: float
  kappa: float
  rho: float
  delta: float


class Interval(NamedTuple):
  """The values of kappa that a family attains: low < kappa <= high."""

  low: float
  high: float


def local_update(
    family: str, num_steps: int, gamma: float, alpha: float
) -> local_updates.LocalUpdate:
  """Returns the local update of a family.

    fedavg   Theta_{1:K}, alpha = 0     maml     Theta_{2K+1}
    fedprox  Theta_{1:K}                theta_K  Theta_K

  Raises:
    ValueError: If there is no such family, or `fedavg` has alpha > 0.
  """
  _check_family(family, alpha)
  theta = {
      'maml': thetas.maml, 'theta_K': thetas.LastGradient,
  }.get(family, thetas.FirstGradients)(num_steps)
  return local_updates.LocalUpdate(theta, gamma, alpha)


def point(
    spectrum: local_updates.Spectrum,
    family: str,
    server: str,
    *,
    num_steps: int,
    gamma: float,
    alpha: float = 0.0,
    eigenvalues: Optional[np.ndarray] = None,
) -> Point:
  """Returns the point of one method.

  Args:
    spectrum: mu and L.
    family: One of `FAMILIES`.
    server: One of `rates.SERVERS`, with the best hyperparameters.
    num_steps: K.
    gamma: Client learning rate, < 1 / (L + alpha).
    alpha: Proximal strength.
    eigenvalues: Eigenvalues of the single client of a simulation, see
      `simulated_eigenvalues`; None: the worst in the spectrum.

  Raises:
    ValueError: If gamma is too large, see `LocalUpdate.check`.
  """
  update = local_update(family, num_steps, gamma, alpha)
  if eigenvalues is None:
    h, q = update.h_range(spectrum), update.q_range(spectrum)
  else:
    update.check(spectrum.L)
    h, q = (
        local_updates.LogRange(values.min(), values.max())
        for values in (update.log_h(eigenvalues), update.log_q(eigenvalues))
    )
  return Point(
      family, server, num_steps, gamma, alpha,
      # Far beyond the monotone range kappa overflows floats.
      kappa=math.exp(h.width) if h.width < 700 else math.inf,
      rho=float(rates.rate_of_log(h.width, server)),
      delta=bounds.delta_of_distortion(q),
  )


def sweep(
    spectrum: local_updates.Spectrum,
    family: str,
    server: str,
    *,
    num_steps: npt.ArrayLike,
    gamma: npt.ArrayLike,
    alpha: npt.ArrayLike = 0.0,
    eigenvalues: Optional[np.ndarray] = None,
) -> list[Point]:
  """Returns a frontier: points along arrays of K, gamma, alpha.

  Args: as for `point`; numbers or arrays that are broadcast together.
  """
  return [
      point(
          spectrum, family, server, num_steps=int(k), gamma=float(g),
          alpha=float(a), eigenvalues=eigenvalues,
      )
      for k, g, a in np.broadcast(np.atleast_1d(num_steps), gamma, alpha)
  ]


def curve(kappa0: float, server: str, rho: np.ndarray) -> Any:
  """Returns Delta on the curve of all methods, at the rates `rho`.

  For `heavy_ball` it is (rho0 - rho) / (1 - rho0 rho), with rho0 the rate of
  kappa0: the curve is symmetric, because replacing kappa by kappa0 / kappa
  swaps rho and Delta.
  """
  return bounds.delta(kappa0, rates.kappa_of_rate(rho, server))


def attainable_kappas(
    spectrum: local_updates.Spectrum,
    family: str,
    *,
    alpha: float = 0.0,
    gamma_times: Optional[float] = None,
) -> Interval:
  """Returns the kappas of a family over all its K and gamma.

    fedavg         (1, kappa0]: down to averaging in one shot
    fedprox        (L (mu + alpha) / (mu (L + alpha)), kappa0]
    theta_K, maml  (kappa0 e^(-(1 - 1/kappa0)), kappa0]  in the range of Eq. 13

  Args:
    spectrum: mu and L.
    family: One of `FAMILIES`.
    alpha: Proximal strength.
    gamma_times: For `theta_K` and `maml`: s of the sweeps gamma = s / (K L)
      over K alone, 0 < s <= 1, whose interval is (kappa0 e^(-s (1 -
      1/kappa0)), kappa0]; None: 1, all of the range. For `maml` K is that of
      Theta_K.

  Raises:
    ValueError: If there is no such family, or `fedavg` has alpha > 0.
  """
  _check_family(family, alpha)
  kappa0 = spectrum.kappa0
  if family in ('fedavg', 'fedprox'):
    return Interval(
        kappa0 * (spectrum.mu + alpha) / (spectrum.L + alpha), kappa0
    )
  factor = 1.0 if gamma_times is None else gamma_times
  return Interval(kappa0 * math.exp(-factor * (1 - 1 / kappa0)), kappa0)


def simulated_eigenvalues(
    spectrum: local_updates.Spectrum, dim: int, seed: int
) -> np.ndarray:
  """Returns the eigenvalues of a random client, ascending, float64[dim].

  They are those of beta1 B^T B + beta2 I, with B [dim, dim] standard normal,
  beta1 and beta2 such that the extremes are mu and L (Section 5). Nothing else
  about the client matters.
  """
  b = np.random.default_rng(seed).normal(size=[dim, dim])
  values = np.linalg.eigvalsh(b.T @ b)
  share = (values - values[0]) / (values[-1] - values[0])
  return spectrum.mu + (spectrum.L - spectrum.mu) * share


def _check_family(family: str, alpha: float) -> None:
  if family not in FAMILIES:
    raise ValueError(
        f'`family` must be one of {", ".join(FAMILIES)}, found {family!r}.'
    )
  if family == 'fedavg' and alpha != 0:
    raise ValueError(
        f'`alpha` must be 0 with family fedavg, found {alpha}. Tip: family'
        ' fedprox has it.'
    )


def steps_up_to(largest: float) -> Sequence[int]:
  """Returns about 300 numbers of steps from 1 to `largest`, geometric."""
  return np.unique(np.geomspace(1, largest, 300).round().astype(int))
