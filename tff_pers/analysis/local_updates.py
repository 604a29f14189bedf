"""The local update of a family, and its effect on eigenvalues.

On a client whose loss is 1/2 (x - c)^T A (x - c), the update of the family
`LocalUpdate` is Q A (x - c). Q has the eigenvectors of A. An eigenvalue lambda
of A corresponds to the eigenvalues

  q(lambda) = sum_k theta_k (1 - gamma (lambda + alpha))^(k-1)  of Q,    (Eq. 6)
  h(lambda) = lambda q(lambda)                                  of Q A.

h is called phi for Theta_{1:K} and psi for Theta_K (Lemma 9). Everything here
holds for eigenvalues between mu and L of any clients.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import dataclasses
import math
from typing import Any, NamedTuple, Union

import numpy as np

from tff_pers.numerics import thetas

Theta = Union[thetas.FirstGradients, thetas.LastGradient, thetas.Gradients]


@dataclasses.dataclass(frozen=True)
class Spectrum:
  """Bounds of all eigenvalues of all clients, mu I <= A_i <= L I.

  Attributes:
    mu: The smallest, > 0.
    L: The largest.
  """

  mu: float
  L: float

  def __post_init__(self):
    if not (math.isfinite(self.mu) and self.mu > 0):
      raise ValueError(f'`mu` must be a number > 0, found {self.mu}.')
    if not (math.isfinite(self.L) and self.L >= self.mu):
      raise ValueError(
          f'`L` must be a number >= mu = {self.mu}, found {self.L}.'
      )

  @property
  def kappa0(self) -> float:
    """Condition number L / mu of the true loss."""
    return self.L / self.mu


class LogRange(NamedTuple):
  """Logarithms of the smallest and the largest of some eigenvalues."""

  low: float
  high: float

  @property
  def width(self) -> float:
    """Logarithm of the ratio of the two."""
    return self.high - self.low


@dataclasses.dataclass(frozen=True)
class LocalUpdate:
  """The work of clients in a round.

  Attributes:
    theta: Weights of the local gradients.
    gamma: Client learning rate, >= 0; 0 takes all gradients at one point.
    alpha: Strength of the proximal term, >= 0.
  """

  theta: Theta
  gamma: float
  alpha: float = 0.0

  def __post_init__(self):
    for name in ('gamma', 'alpha'):
      value = getattr(self, name)
      if not (math.isfinite(value) and value >= 0):
        raise ValueError(f'`{name}` must be a number >= 0, found {value}.')

  def q(self, eigenvalues: Any) -> Any:
    """Returns eigenvalues of Q, for any gamma."""
    return self.theta.q(self._s(eigenvalues))

  def log_q(self, eigenvalues: Any) -> Any:
    """Returns logarithms of eigenvalues of Q; see `check`."""
    return self.theta.log_q(self._s(eigenvalues))

  def log_h(self, eigenvalues: Any) -> Any:
    """Returns logarithms of eigenvalues of Q A; see `check`."""
    return np.log(eigenvalues) + self.log_q(eigenvalues)

  def check(self, largest: float) -> None:
    """Checks that Q is positive definite for eigenvalues up to `largest`.

    Raises:
      ValueError: If gamma >= 1 / (L + alpha), where Q may be indefinite (Lemma
        1). Gradient descent is stable up to twice as much.
    """
    if self.gamma * (largest + self.alpha) >= 1:
      limit = 1 / (largest + self.alpha)
      raise ValueError(
          f'`gamma` must be < 1 / (L + alpha) = {limit:.6g} because otherwise'
          f' the surrogate loss may not be convex, found {self.gamma}.'
      )

  def has_closed_form(self, spectrum: Spectrum) -> bool:
    """Returns whether the range of h is [h(mu), h(L)], as in Eqs. 11 and 13.

    Always for Theta_{1:K}; for Theta_K if gamma < 1 / (K L + alpha).
    """
    ends = self.log_h(np.array([spectrum.mu, spectrum.L]))
    return self.h_range(spectrum) == tuple(ends)

  def q_range(self, spectrum: Spectrum) -> LogRange:
    """Returns the range of q over [mu, L]; q decreases in lambda."""
    self.check(spectrum.L)
    values = self.log_q(np.array([spectrum.mu, spectrum.L]))
    return LogRange(float(values.min()), float(values.max()))

  def h_range(self, spectrum: Spectrum) -> LogRange:
    """Returns the range of h over [mu, L], also if h is not monotone."""
    self.check(spectrum.L)
    inside = self.theta.turning_points(
        spectrum.mu, spectrum.L, self.gamma, self.alpha
    )
    values = self.log_h(np.array([spectrum.mu, spectrum.L, *inside]))
    return LogRange(float(values.min()), float(values.max()))

  def _s(self, eigenvalues):
    return self.gamma * (np.asarray(eigenvalues, np.float64) + self.alpha)
