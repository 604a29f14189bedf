"""Weight decay of factors that acts on their product.

    factors v, u : g_v <- g_v + lambda v (u u^T)
                   g_u <- g_u + lambda (v^T v) u
    other weights: g   <- g + weight_decay w

The first two lines are the gradient of (lambda / 2) ||v u||_F^2 of the unrolled
kernel, Frobenius decay. It replaces the L2 penalty on the factors, and is added
to the gradient before momentum.

Initialization and Regularization of Factorized Neural Layers.
    Khodak, Tenenholtz, Mackey, Fusi. ICLR 2021.
"""

import dataclasses
from typing import Any

import tensorflow as tf

from tff_pers.client_works import local_step
from tff_pers.numerics import factorization
from tff_pers.numerics import low_rank


@dataclasses.dataclass(frozen=True)
class FactorizedStep(local_step.LocalStep):
  """A local step of weights among which are `low_rank.Factors`.

  Attributes:
    frobenius_decay: lambda; 0 is none.
  """

  frobenius_decay: float = 0.0

  def penalized(self, weights: Any, gradient: Any) -> Any:
    """Returns the gradient plus that of the penalties."""
    return tuple(map(self._decayed, weights, gradient))

  def _decayed(self, weight, gradient):
    """Returns the gradient of one leaf, or of a pair of factors."""
    if not isinstance(weight, low_rank.Factors):
      return _add(gradient, self.weight_decay, weight)
    penalty = factorization.squared_norm_gradient(weight)
    return low_rank.Factors(*(
        _add(g, self.frobenius_decay, p) for g, p in zip(gradient, penalty)
    ))


def _add(gradient, coefficient: float, penalty):
  if not coefficient:
    return gradient
  return gradient + tf.convert_to_tensor(coefficient, gradient.dtype) * penalty


def build(hyperparameters: Any) -> FactorizedStep:
  """Returns the local step that FedHM's hyperparameters describe."""
  return FactorizedStep(
      **dataclasses.asdict(local_step.build(hyperparameters)),
      frobenius_decay=hyperparameters.frobenius_decay,
  )
