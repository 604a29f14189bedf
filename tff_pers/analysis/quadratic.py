"""Clients with quadratic losses, and exact quantities about them.

  f_i(x) = 1/2 (x - c_i)^T A_i (x - c_i),   f(x) = E_i[f_i(x)],

with the expectation over the weights p_i of the clients. Constants are omitted.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import dataclasses
import functools
from typing import Callable, Optional

import numpy as np

from tff_pers.analysis import local_updates


@dataclasses.dataclass(frozen=True)
class QuadraticFederation:
  """Quadratic clients.

  Attributes:
    hessians: A, float64[N, d, d], symmetric positive definite.
    optima: c, float64[N, d].
    weights: p, float64[N], >= 0 with sum 1; None: equal.
  """

  hessians: np.ndarray
  optima: np.ndarray
  weights: Optional[np.ndarray] = None

  def __post_init__(self):
    hessians = np.asarray(self.hessians, np.float64)
    optima = np.asarray(self.optima, np.float64)
    if optima.ndim != 2 or hessians.shape != (*optima.shape, optima.shape[1]):
      raise ValueError(
          '`hessians` must be [N, d, d] and `optima` [N, d], found'
          f' {list(hessians.shape)} and {list(optima.shape)}.'
      )
    weights = self.weights
    if weights is None:
      weights = np.full(len(optima), 1 / len(optima))
    weights = np.asarray(weights, np.float64)
    if weights.shape != optima.shape[:1] or not (
        np.all(weights >= 0) and np.isclose(weights.sum(), 1)
    ):
      raise ValueError(
          f'`weights` must be {len(optima)} numbers >= 0 with sum 1, found'
          f' {weights}.'
      )
    for name, value in (
        ('hessians', hessians), ('optima', optima), ('weights', weights)
    ):
      object.__setattr__(self, name, value)
    transposed = np.swapaxes(hessians, 1, 2)
    size = np.abs(hessians).max()
    if np.abs(hessians - transposed).max() > 1e-10 * size:
      raise ValueError('`hessians` must be symmetric.')
    if self.eigenvalues.min() <= 0:
      raise ValueError(
          '`hessians` must be positive definite, found an eigenvalue of'
          f' {self.eigenvalues.min():.6g}.'
      )

  @property
  def dim(self) -> int:
    """d."""
    return self.optima.shape[1]

  @functools.cached_property
  def _eigen(self):
    return np.linalg.eigh(self.hessians)

  @property
  def eigenvalues(self) -> np.ndarray:
    """Eigenvalues of each A_i, float64[N, d], ascending."""
    return self._eigen[0]

  @property
  def eigenvectors(self) -> np.ndarray:
    """Eigenvectors of each A_i, float64[N, d, d], in columns."""
    return self._eigen[1]

  @property
  def spectrum(self) -> local_updates.Spectrum:
    """The smallest mu and the largest L of all clients."""
    return local_updates.Spectrum(
        float(self.eigenvalues.min()), float(self.eigenvalues.max())
    )

  @property
  def radius(self) -> float:
    """C = max_i ||c_i||."""
    return float(np.linalg.norm(self.optima, axis=1).max())

  @property
  def hessian(self) -> np.ndarray:
    """E[A_i], the Hessian of f."""
    return self.mean(self.hessians)

  @functools.cached_property
  def optimum(self) -> np.ndarray:
    """x* = E[A_i]^-1 E[A_i c_i]  (Lemma 11)."""
    pulls = np.einsum('nij,nj->ni', self.hessians, self.optima)
    return np.linalg.solve(self.hessian, self.mean(pulls))

  def mean(self, values: np.ndarray) -> np.ndarray:
    """Returns E_i of [N, ...]."""
    assert self.weights is not None  # Set by `__post_init__`.
    return np.tensordot(self.weights, values, 1)

  def client_losses(self, x: np.ndarray) -> np.ndarray:
    """Returns f_i(x), float64[N]."""
    return quadratic_forms(self.hessians, x - self.optima)

  def loss(self, x: np.ndarray) -> float:
    """Returns f(x)."""
    return float(self.mean(self.client_losses(x)))

  def gradients(self, x: np.ndarray) -> np.ndarray:
    """Returns the gradients of f_i at x, float64[N, d]."""
    return np.einsum('nij,nj->ni', self.hessians, x - self.optima)

  def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Returns V_i function(eigenvalues of A_i) V_i^T, float64[N, d, d]."""
    v = self.eigenvectors
    values = function(self.eigenvalues)
    return np.einsum('nij,nj,nkj->nik', v, values, v)

  def post_adaptation_loss(
      self, x: np.ndarray, *, num_steps: int, learning_rate: float
  ) -> float:
    """Returns E f_i after each client's own gradient descent steps from x.

    E 1/2 (x - c_i)^T (I - gamma A_i)^(2s) A_i (x - c_i). Its minimizer is the
    surrogate optimum of Theta_{2s+1} (MAML), the only optimum for s steps of
    fine-tuning. It is not part of the trade-off of rho and Delta, which
    concerns the loss of the model before clients adapt it.

    Args:
      x: The common model, float64[d].
      num_steps: s >= 0.
      learning_rate: gamma, step size.
    """
    adapted = self.mapped(
        lambda a: a * (1 - learning_rate * a) ** (2 * num_steps)
    )
    return float(self.mean(quadratic_forms(adapted, x - self.optima)))


def quadratic_forms(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
  """Returns 1/2 v_i^T M_i v_i, float64[N]."""
  return 0.5 * np.einsum('ni,nij,nj->n', vectors, matrices, vectors)
