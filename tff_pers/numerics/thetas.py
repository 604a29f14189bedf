"""Weights Theta of local gradients, as functions of one number.

A client that takes K steps of gradient descent and sends sum_k theta_k g_k
multiplies the error along an eigenvector of its Hessian by

  q(s) = sum_k theta_k (1 - s)^(k-1),   s = gamma (lambda + alpha)     (Lemma 9)

(times the eigenvalue lambda). For s < 1, where the theory holds, q is positive
and decreases in s. Frontiers need logarithms, because with K = 10^6 the power
itself underflows.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import dataclasses
from typing import Any, Sequence

import numpy as np
from scipy import optimize


@dataclasses.dataclass(frozen=True)
class FirstGradients:
  """Theta_{1:K}: all K gradients, as in FedAvg, FedProx, Reptile."""

  num_steps: int

  def __post_init__(self):
    _check_num_steps(self.num_steps)

  @property
  def theta(self) -> tuple[float, ...]:
    """The weights."""
    return (1.0,) * self.num_steps

  def q(self, s: Any) -> Any:
    """Returns q(s) = (1 - (1 - s)^K) / s, and K if s is 0."""
    s = np.asarray(s, np.float64)
    num_steps = float(self.num_steps)  # NumPy has no integers beyond 2^64.
    # Avoids the cancellation of 1 - (1 - s)^K at small s; beyond 1 there is no
    # logarithm, and no cancellation either.
    inside = np.minimum(s, 0.5)
    lost = np.where(
        s < 0.5, -np.expm1(num_steps * np.log1p(-inside)),
        1 - (1 - s) ** num_steps,
    )
    return np.where(s == 0, num_steps, lost / np.where(s == 0, 1, s))

  def log_q(self, s: Any) -> Any:
    """Returns log q(s), for 0 <= s < 1."""
    return np.log(self.q(s))

  def turning_points(
      self, low: Any, high: Any, gamma: Any, alpha: Any
  ) -> Sequence[float]:
    """Returns turning points of lambda q: none, it increases (Lemma 3)."""
    del low, high, gamma, alpha  # Unused.
    return ()


@dataclasses.dataclass(frozen=True)
class LastGradient:
  """Theta_K: only the K-th gradient, as in FOMAML."""

  num_steps: int

  def __post_init__(self):
    _check_num_steps(self.num_steps)

  @property
  def theta(self) -> tuple[float, ...]:
    """The weights."""
    return (0.0,) * (self.num_steps - 1) + (1.0,)

  def q(self, s: Any) -> Any:
    """Returns q(s) = (1 - s)^(K-1)."""
    return (1 - np.asarray(s, np.float64)) ** (self.num_steps - 1)

  def log_q(self, s: Any) -> Any:
    """Returns log q(s), for 0 <= s < 1."""
    return (self.num_steps - 1) * np.log1p(-np.asarray(s, np.float64))

  def turning_points(
      self, low: Any, high: Any, gamma: Any, alpha: Any
  ) -> Sequence[float]:
    """Returns the maximum of lambda q, (1 / gamma - alpha) / K."""
    if gamma == 0:
      return ()
    top = (1 / gamma - alpha) / self.num_steps
    return (top,) if low < top < high else ()


@dataclasses.dataclass(frozen=True)
class Gradients:
  """Any Theta: finite weights >= 0, one of them > 0.

  Attributes:
    theta: The weights; zeros at the end are dropped, because those gradients
      are not computed.
  """

  theta: tuple[float, ...]

  def __post_init__(self):
    try:
      theta = np.asarray(self.theta, np.float64)
    except ValueError:  # Texts, such as sum, which is a name for flags alone.
      theta = np.array(np.nan)
    if theta.ndim != 1 or not np.all(np.isfinite(theta) & (theta >= 0)):
      raise ValueError(
          f'`theta` must be a list of finite weights >= 0, found {self.theta}.'
          ' Tip: (1, 1, 1) sums three gradients.'
      )
    if not np.any(theta > 0):
      raise ValueError(
          '`theta` must have a weight > 0, because otherwise nothing would be'
          f' sent, found {self.theta}.'
      )
    kept = np.trim_zeros(theta, 'b')
    object.__setattr__(self, 'theta', tuple(kept.tolist()))

  @property
  def num_steps(self) -> int:
    """K(Theta), the number of computed gradients."""
    return len(self.theta)

  def q(self, s: Any) -> Any:
    """Returns q(s)."""
    r = 1 - np.asarray(s, np.float64)
    return np.polynomial.polynomial.polyval(r, np.array(self.theta))

  def log_q(self, s: Any) -> Any:
    """Returns log q(s), for 0 <= s < 1."""
    return np.log(self.q(s))

  def turning_points(
      self, low: Any, high: Any, gamma: Any, alpha: Any
  ) -> Sequence[float]:
    """Returns the positions of the extrema of lambda q in [low, high].

    Found on a grid, then refined, because a sum of powers may turn several
    times.
    """
    if low == high:
      return ()
    grid = np.geomspace(low, high, 1025)

    def log_h(lambda_):
      return np.log(lambda_) + self.log_q(gamma * (lambda_ + alpha))

    found = []
    for sign in (1, -1):
      best = int(np.argmin(sign * log_h(grid)))
      bracket = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
      found.append(optimize.minimize_scalar(
          lambda x: float(sign * log_h(x)), bounds=bracket, method='bounded',
          options=dict(xatol=1e-12 * high),
      ).x)
    return found


def maml(num_adaptation_steps: int) -> LastGradient:
  """Returns the Theta of MAML on quadratics: Theta_{2J+1} (Theorem 2).

  Args:
    num_adaptation_steps: J, steps before the gradient of the query. The K of
      FOMAML's Theta_K includes the query's gradient: J steps are Theta_{J+1}.
  """
  return LastGradient(2 * num_adaptation_steps + 1)


def _check_num_steps(num_steps) -> None:
  if num_steps < 1:
    raise ValueError(f'`num_steps` must be >= 1, found {num_steps}.')
