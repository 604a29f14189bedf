"""Robust rules in NumPy, and FFGG under the attack `mixed`: Algorithm 5.

w is solved exactly, so that client m sends F_m(theta) = G_m theta - h_m. Rules
are written from their definitions (papers/baselines.md 9), without the code of
the product; only the permutations of buckets, which are draws, are passed.
"""

from typing import Callable, Optional

import numpy as np
import scipy.stats

from tests.algorithms import least_squares

Rule = Callable[[np.ndarray, np.ndarray], np.ndarray]


def path(
    oracle: least_squares.LeastSquares, rule: Rule, step: float,
    num_byzantine: int, orders: np.ndarray,
) -> np.ndarray:
  """Returns theta after each round, float64[R, d], from theta = 0.

  Of the last f clients the first half (rounded down) send `alie`, the others
  -10 times the mean.

  Args:
    oracle: The clients; the last f attack.
    rule: (messages [n, d], permutation [n]) -> [d].
    step: gamma_theta.
    num_byzantine: f.
    orders: int[R, n], the permutation of every round.
  """
  theta, thetas = np.zeros(oracle.h.shape[1]), []
  for order in orders:
    sent = oracle.operators(theta)
    honest, count = sent[:-num_byzantine], len(sent)
    mean, std = honest.mean(axis=0), honest.std(axis=0, ddof=1)
    supporters = count // 2 + 1 - num_byzantine
    z = scipy.stats.norm.ppf(1 - supporters / (count - num_byzantine))
    number = num_byzantine // 2
    bad = [mean - z * std] * number + [-10 * mean] * (num_byzantine - number)
    theta = theta - step * rule(np.concatenate([honest, bad]), order)
    thetas.append(theta)
  return np.array(thetas)


def rule(text: str, f: int) -> Rule:
  """Returns the rule `name` or `name(inner)` of the product's defaults."""
  name, _, inner = text.partition('(')
  if not inner:
    return lambda x, order: _RULES[name](x, f)
  then = rule(inner[:-1], f)
  return lambda x, order: then(_PREPARATIONS[name](x, f, order), order)


def distances(x: np.ndarray, z: np.ndarray) -> np.ndarray:
  return np.linalg.norm(x - z, axis=1)


def _squared(x):
  return np.square(x[:, None] - x[None]).sum(axis=-1)


def _trimmed_mean(x, f):
  return np.sort(x, axis=0)[f:len(x) - f].mean(axis=0)


def geometric_median(x: np.ndarray, passes: int = 8) -> np.ndarray:
  z = np.median(x, axis=0)
  for _ in range(passes):
    distance = distances(x, z)
    weights = 1 / np.maximum(distance, 1e-6 * np.median(distance))
    z = weights @ x / weights.sum()
  return z


def _krum_order(x, f):
  """Returns the messages in the order of their scores, int[n]."""
  others = np.sort(_squared(x), axis=1)[:, 1:len(x) - f - 1]
  return np.argsort(others.sum(axis=1), kind='stable')


def centered_clipping(
    x: np.ndarray, steps: int = 3, radius: Optional[float] = None
) -> np.ndarray:
  v = np.median(x, axis=0)
  for _ in range(steps):
    distance = distances(x, v)
    with np.errstate(divide='ignore'):  # At distance 0 the factor is 1.
      factors = np.minimum(1, (radius or np.median(distance)) / distance)
    v = v + np.mean((x - v) * factors[:, None], axis=0)
  return v


def _filtered_mean(x, f):
  """CAF, by the covariance matrix; copies lose their weights together."""
  c, smallest, largest = np.ones(len(x)), np.inf, np.inf
  while c.sum() > len(x) - 2 * f and largest > 0:
    w = c / c.sum()
    mean = w @ x
    values, vectors = np.linalg.eigh((w[:, None] * (x - mean)).T @ (x - mean))
    if values[-1] < smallest:
      best, smallest = mean, values[-1]
    tau = np.where(c > 0, ((x - mean) @ vectors[:, -1]) ** 2, 0)
    largest = tau.max()
    left = np.where(np.isclose(tau, largest, rtol=1e-12), 0, 1 - tau / largest)
    c = c * left
  return best


_RULES = dict(
    mean=lambda x, f: x.mean(axis=0),
    median=lambda x, f: np.median(x, axis=0),
    trimmed_mean=_trimmed_mean,
    geometric_median=lambda x, f: geometric_median(x),
    krum=lambda x, f: x[_krum_order(x, f)[0]],
    multi_krum=lambda x, f: x[_krum_order(x, f)[:len(x) - f]].mean(axis=0),
    centered_clipping=lambda x, f: centered_clipping(x),
    caf=_filtered_mean,
)


def clipped(x: np.ndarray, bound: float) -> np.ndarray:
  return x * np.minimum(1, bound / distances(x, 0))[:, None]


def _bucketed(x, f, order):
  del f
  starts = range(0, len(x), 2)
  return np.array([x[order[k:k + 2]].mean(axis=0) for k in starts])


def _mixed_neighbours(x, f, order):
  del order
  nearest = np.argsort(_squared(x), axis=1, kind='stable')[:, :len(x) - f]
  return x[nearest].mean(axis=1)


_PREPARATIONS = dict(
    norm_clipping=lambda x, f, order: clipped(x, np.median(distances(x, 0))),
    bucketing=_bucketed, nnm=_mixed_neighbours
)
