"""Recommends settings for a number of rounds and an accuracy.

After T rounds with the full gradients of all clients, the expected distance of
the model is

  c_T (R + 2 C Delta) + 2 C Delta

from the optimum of the true loss. R is the distance from the initial model to
that optimum, C the radius of a ball with all client optima, c_T the share of
the distance to the surrogate's optimum that remains after T rounds
(`rates.contraction`; Corollary 1 has rho^T, which momentum does not attain).
2 C Delta bounds the distance of both optima for d = 1, and is a guide for d >
1, where it may be exceeded (see `bounds`); so with K > 1 local steps the error
is only expected. With K = 1 both optima coincide, and no error is larger in any
dimension.

All methods lie on one curve of kappa (see `frontiers`), so the problem is
one-dimensional: find the best kappa. A proximal term only keeps kappa from
being small, so alpha = 0 is always best. K and gamma are then chosen to attain
kappa with as few local steps as a gamma of at most 1 / (2 L) allows.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import math
from typing import Any, NamedTuple, Optional

import numpy as np
from scipy import optimize

from tff_pers.analysis import bounds
from tff_pers.analysis import local_updates
from tff_pers.analysis import rates
from tff_pers.analysis import surrogate
from tff_pers.numerics import thetas

# Largest number of rounds that is reported as needed.
_MOST_ROUNDS = 10 ** 9
# Below this kappa more local steps have no relevant effect.
_LEAST_KAPPA = 1 + 1e-6


class Recommendation(NamedTuple):
  """A setting for one server optimizer.

  Attributes:
    server: One of `rates.SERVERS`.
    num_steps: K of Theta_{1:K}.
    gamma: Client learning rate.
    alpha: Proximal strength.
    server_learning_rate: eta.
    beta: Momentum of the server.
    kappa: Condition number of the surrogate loss.
    error: Error after the rounds, in units of C: an upper bound for d = 1 or
      `num_steps` = 1, else an expectation.
    rounds_needed: Fewest rounds whose best setting has an `error` of at most
      the wanted accuracy; None if more than 10^9 are needed.
  """

  server: str
  num_steps: int
  gamma: float
  alpha: float
  server_learning_rate: float
  beta: float
  kappa: float
  error: float
  rounds_needed: Optional[int]


def recommend(
    spectrum: local_updates.Spectrum,
    *,
    num_rounds: int,
    accuracy: float,
    distance: float,
) -> list[Recommendation]:
  """Returns the best setting for each server optimizer, the best one first.

  Args:
    spectrum: mu and L.
    num_rounds: T.
    accuracy: Wanted error, in units of C, > 0.
    distance: R / C, initial distance to the optimum of the true loss. Local
      work pays if training starts far outside the ball of client optima.

  Raises:
    ValueError: If an argument is not a number > 0 (rounds: an integer >= 1).
  """
  for name, value in (('accuracy', accuracy), ('distance', distance)):
    if not (math.isfinite(value) and value > 0):
      raise ValueError(f'`{name}` must be a number > 0, found {value}.')
  if num_rounds < 1:
    raise ValueError(f'`num_rounds` must be >= 1, found {num_rounds}.')
  found = []
  for server in rates.SERVERS:
    kappa, error = _best(spectrum.kappa0, server, num_rounds, distance)
    update = _attain(spectrum, kappa)
    h = update.h_range(spectrum)
    step = rates.server_step(math.exp(h.high), math.exp(h.low), server)
    found.append(Recommendation(
        server, update.theta.num_steps, update.gamma, update.alpha,
        *step, kappa, error,
        _rounds_needed(spectrum.kappa0, server, accuracy, distance),
    ))
  return sorted(found, key=lambda setting: setting.error)


def expected_error(
    kappa0: float, kappa: Any, server: str, num_rounds: int, distance: float
) -> Any:
  """Returns c_T (R / C + 2 Delta) + 2 Delta."""
  bias = 2 * bounds.delta(kappa0, kappa)
  fading = rates.contraction(kappa, server, num_rounds)
  return fading * (distance + bias) + bias


@np.errstate(over='ignore', invalid='ignore')  # See `rates.contraction`.
def _best(kappa0, server, num_rounds, distance) -> tuple[float, float]:
  """Returns the kappa with the smallest error, and that error."""
  def error(log_kappa):
    return expected_error(
        # Rounding must not push kappa above kappa0: Delta would be negative.
        kappa0, np.minimum(np.exp(log_kappa), kappa0), server, num_rounds,
        distance,
    )
  low, high = min(math.log(_LEAST_KAPPA), math.log(kappa0)), math.log(kappa0)
  grid = np.linspace(low, high, 201)
  best = int(np.argmin(error(grid)))
  if best in (0, len(grid) - 1):
    chosen = grid[best]
  else:
    chosen = optimize.minimize_scalar(
        error, bounds=(grid[best - 1], grid[best + 1]), method='bounded',
        options=dict(xatol=1e-12),
    ).x
  return min(float(np.exp(chosen)), kappa0), float(error(chosen))


def _attain(
    spectrum: local_updates.Spectrum, kappa: float
) -> local_updates.LocalUpdate:
  """Returns the update of fewest steps with gamma <= 1 / (2 L) and kappa."""
  largest = 1 / (2 * spectrum.L)

  def update(num_steps, gamma=largest):
    return local_updates.LocalUpdate(
        thetas.FirstGradients(int(num_steps)), gamma
    )

  def excess(num_steps, gamma=largest):
    found = surrogate.worst_case_kappa(update(num_steps, gamma), spectrum)
    return found - kappa

  if excess(1) <= 1e-12 * kappa:  # kappa0: one step, or all at one point.
    return update(1)
  # kappa decreases in K and in gamma.
  high = 2
  while excess(high) > 0:
    high *= 2
  low = high // 2
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if excess(middle) > 0 else (low, middle)
  gamma = optimize.brentq(
      lambda value: excess(high, value), 0.0, largest, xtol=1e-16,
      rtol=1e-14,
  )
  return update(high, gamma)


def _rounds_needed(kappa0, server, accuracy, distance) -> Optional[int]:
  """Returns the fewest rounds whose best error is at most the accuracy."""
  def is_enough(num_rounds):
    return _best(kappa0, server, num_rounds, distance)[1] <= accuracy

  high = 1
  while not is_enough(high):
    high *= 2
    if high > _MOST_ROUNDS:
      return None
  low = high // 2  # Not enough; 0 stands for no rounds.
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (low, middle) if is_enough(middle) else (middle, high)
  return high
