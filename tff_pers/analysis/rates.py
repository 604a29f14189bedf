"""Convergence rates of server optimizers on quadratics, and their settings.

A surrogate loss whose Hessian has eigenvalues in [mutil, Ltil], kappa = Ltil /
mutil, is minimized at the rate (Table 2)

  gd          (kappa - 1) / (kappa + 1)
  nesterov    1 - 2 / sqrt(3 kappa + 1)
  heavy_ball  (sqrt kappa - 1) / (sqrt kappa + 1)

per round, the spectral radius of the server's iteration. The paper states
||x_T - xtil*|| <= rho^T ||x_0 - xtil*|| for all three. That holds for `gd`.
With momentum the matrices of the iteration are defective, and the ratio of the
two sides grows linearly in T: rho is the asymptotic rate, and `contraction`
gives what holds after T rounds.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

from typing import Any, NamedTuple

import numpy as np

# Eigenvalues that represent all in [1, kappa]: the extremes of a Chebyshev
# polynomial and both ends, where the slowest ones are.
_SHARES = (1 - np.cos(np.linspace(0, np.pi, 65))) / 2
SERVERS = ('gd', 'nesterov', 'heavy_ball')


class ServerStep(NamedTuple):
  """Hyperparameters of the server; q is the mean of the clients' updates.

    gd          x <- x - eta q
    heavy_ball  m <- beta m + q;  x <- x - eta m
    nesterov    m <- beta m + q;  x <- x - eta (q + beta m)

  Attributes:
    learning_rate: eta.
    beta: Momentum.
  """

  learning_rate: float
  beta: float


def rate(kappa: Any, server: str) -> Any:
  """Returns rho in [0, 1]; kappa >= 1 may be infinite."""
  return rate_of_log(np.log(kappa), server)


def rate_of_log(log_kappa: Any, server: str) -> Any:
  """Returns rho from the logarithm of kappa, which never overflows."""
  check_server(server)
  log_kappa = np.asarray(log_kappa, np.float64)
  if server == 'gd':
    return np.tanh(log_kappa / 2)
  if server == 'heavy_ball':
    return np.tanh(log_kappa / 4)
  # 1 - 2 / sqrt(3 kappa + 1), without its cancellation at kappa near 1.
  root = np.sqrt(3 + np.exp(-log_kappa))
  gain = -3 * np.expm1(-log_kappa)
  # For infinite kappa this is 1 up to rounding.
  return np.minimum(gain / (root * (root + 2 * np.exp(-log_kappa / 2))), 1.0)


def contraction(kappa: Any, server: str, num_rounds: int) -> Any:
  """Returns the largest ratio ||x_T - xtil*|| / ||x_0 - xtil*||.

  It is max |p_T(lambda)| over the eigenvalues in [mutil, Ltil], where p_T is
  the result of T steps of `server_step` on an error of 1.

  Args:
    kappa: Finite numbers >= 1.
    server: One of `SERVERS`.
    num_rounds: T >= 0.
  """
  kappa = np.asarray(kappa, np.float64)[..., None]
  eta, momentum = server_step(kappa, 1.0, server)
  curvature = eta * (1 + (kappa - 1) * _SHARES)
  beta = np.broadcast_to(momentum, curvature.shape)
  # On (p, eta m): m <- beta m + lambda p, then p <- p - eta m, or with
  # Nesterov p - eta (lambda p + beta m).
  after, ahead = 1 - curvature, beta
  if server == 'nesterov':
    after, ahead = after - beta * curvature, beta ** 2
  step = np.stack([after, -ahead, curvature, beta], axis=-1)
  power = np.linalg.matrix_power(
      step.reshape([*beta.shape, 2, 2]), num_rounds
  )
  # Beyond kappa = 10^16 rounding may make the powers grow.
  return np.nan_to_num(np.abs(power[..., 0, 0]), nan=np.inf).max(axis=-1)


def kappa_of_rate(rho: Any, server: str) -> Any:
  """Returns the kappa that has the rate `rho`, 0 <= rho < 1."""
  check_server(server)
  rho = np.asarray(rho, np.float64)
  if server == 'nesterov':
    return ((2 / (1 - rho)) ** 2 - 1) / 3
  ratio = (1 + rho) / (1 - rho)
  return ratio if server == 'gd' else ratio ** 2


def server_step(
    smoothness: float, strong_convexity: float, server: str
) -> ServerStep:
  """Returns the hyperparameters that attain the rate; the paper lists none.

  Args:
    smoothness: Ltil of the surrogate loss, not L of the true one.
    strong_convexity: mutil of the surrogate loss.
    server: One of `SERVERS`.
  """
  check_server(server)
  if server == 'gd':
    return ServerStep(2 / (smoothness + strong_convexity), 0.0)
  if server == 'nesterov':
    root = np.sqrt(3 * smoothness / strong_convexity + 1)
    return ServerStep(
        4 / (3 * smoothness + strong_convexity), (root - 2) / (root + 2)
    )
  high, low = np.sqrt(smoothness), np.sqrt(strong_convexity)
  return ServerStep(4 / (high + low) ** 2, ((high - low) / (high + low)) ** 2)


def check_server(server: str) -> None:
  """Raises a ValueError if there is no server optimizer of that name."""
  if server not in SERVERS:
    raise ValueError(
        f'`server` must be one of {", ".join(SERVERS)}, found {server!r}.'
    )
