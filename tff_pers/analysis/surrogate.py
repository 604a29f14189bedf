"""The surrogate loss that local updates minimize on quadratic clients.

A round of `LocalUpdate` with all clients is a step of the server's optimizer on

  ftilde(x) = E_i[1/2 (x - c_i)^T Q_i A_i (x - c_i)]               (Eqs. 7, 8)

instead of f (Theorem 1). Its minimizer does not depend on the server.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import dataclasses
import functools
import math
from typing import Iterator

import numpy as np

from tff_pers.analysis import local_updates
from tff_pers.analysis import quadratic
from tff_pers.analysis import rates


@dataclasses.dataclass(frozen=True)
class Surrogate:
  """ftilde of given clients and a local update.

  It has three condition numbers, `worst_case_kappa` >= `problem_kappa` >=
  `condition_number`: of any clients with eigenvalues in [mu, L], of these
  clients individually, and of ftilde. If the clients' eigenvectors differ, the
  last one is far smaller than the other two.

  Attributes:
    federation: The clients.
    update: The local update of a round.
  """

  federation: quadratic.QuadraticFederation
  update: local_updates.LocalUpdate

  @functools.cached_property
  def distortions(self) -> np.ndarray:
    """Q_i, float64[N, d, d]  (Eq. 6); for any gamma."""
    return self.federation.mapped(self.update.q)

  @functools.cached_property
  def hessians(self) -> np.ndarray:
    """Q_i A_i, float64[N, d, d]."""
    return self.federation.mapped(lambda a: a * self.update.q(a))

  @functools.cached_property
  def hessian(self) -> np.ndarray:
    """H = E[Q_i A_i]."""
    return self.federation.mean(self.hessians)

  @functools.cached_property
  def optimum(self) -> np.ndarray:
    """xtil* = E[Q_i A_i]^-1 E[Q_i A_i c_i]  (Lemma 11)."""
    pulls = np.einsum('nij,nj->ni', self.hessians, self.federation.optima)
    return np.linalg.solve(self.hessian, self.federation.mean(pulls))

  def loss(self, x: np.ndarray) -> float:
    """Returns ftilde(x)."""
    losses = quadratic.quadratic_forms(
        self.hessians, x - self.federation.optima
    )
    return float(self.federation.mean(losses))

  def client_updates(self, x: np.ndarray) -> np.ndarray:
    """Returns the clients' updates, Q_i A_i (x - c_i), float64[N, d]."""
    return np.einsum('nij,nj->ni', self.hessians, x - self.federation.optima)

  def gradient(self, x: np.ndarray) -> np.ndarray:
    """Returns the gradient of ftilde, the mean of the clients' updates."""
    return self.federation.mean(self.client_updates(x))

  @property
  def distance(self) -> float:
    """||xtil* - x*||."""
    return float(np.linalg.norm(self.optimum - self.federation.optimum))

  @property
  def excess_loss(self) -> float:
    """f(xtil*) - f(x*), exactly 1/2 (xtil* - x*)^T E[A_i] (xtil* - x*)."""
    gap = self.optimum - self.federation.optimum
    return float(0.5 * gap @ self.federation.hessian @ gap)

  @property
  def distortion_range(self) -> local_updates.LogRange:
    """log of a = min_i lambda_min(Q_i) and of b = max_i lambda_max(Q_i)."""
    self.update.check(self.federation.spectrum.L)
    values = self.update.log_q(self.federation.eigenvalues)
    return local_updates.LogRange(float(values.min()), float(values.max()))

  @property
  def worst_case_kappa(self) -> float:
    """Largest kappa of clients with eigenvalues in [mu, L]  (Eqs. 11, 13)."""
    return worst_case_kappa(self.update, self.federation.spectrum)

  @property
  def problem_kappa(self) -> float:
    """Ltil / mutil, E[lambda_max(Q_i A_i)] over that of lambda_min (Eq. 9)."""
    self.update.check(self.federation.spectrum.L)
    values = np.exp(self.update.log_h(self.federation.eigenvalues))
    mean = self.federation.mean
    return float(mean(values.max(axis=1)) / mean(values.min(axis=1)))

  @property
  def extremes(self) -> tuple[float, float]:
    """Smallest and largest eigenvalue of H, which set server steps."""
    values = np.linalg.eigvalsh(self.hessian)
    return float(values[0]), float(values[-1])

  @property
  def condition_number(self) -> float:
    """cond(H)."""
    low, high = self.extremes
    return high / low

  def rounds(
      self, x: np.ndarray, server: str, step: rates.ServerStep
  ) -> Iterator:
    """Yields x_0 = x, x_1, ...: endless rounds of all clients.

    Args:
      x: Initial model, float64[d].
      server: One of `rates.SERVERS`.
      step: Its hyperparameters.
    """
    rates.check_server(server)
    momentum = np.zeros_like(x)
    while True:
      yield x
      q = self.gradient(x)
      momentum = step.beta * momentum + q
      direction = q + step.beta * momentum if server == 'nesterov' else momentum
      x = x - step.learning_rate * direction


def worst_case_kappa(
    update: local_updates.LocalUpdate, spectrum: local_updates.Spectrum
) -> float:
  """Returns the largest kappa over clients with eigenvalues in the spectrum.

  h(L) / h(mu) if h is increasing: phi(L) / phi(mu) (Eq. 11) and psi(L) /
  psi(mu) (Eq. 13), attained by a client with A = diag(L, mu). Otherwise the
  ratio of the extremes of h over [mu, L]. Infinite if it overflows floats.

  Raises:
    ValueError: If gamma >= 1 / (L + alpha).
  """
  width = update.h_range(spectrum).width
  return math.exp(width) if width < 700 else math.inf
