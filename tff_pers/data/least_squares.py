"""Systems of linear equations with a shared and a personal unknown.

    f_m(theta, w) = 1/2 ||H_m theta - b_m||^2
                    + 1/2 ||A_m theta + B_m w - y_m||^2

The rows of client m form one system C theta + D w = y,

    C = [H_m; A_m],  D = [0; B_m],  y = [b_m; y_m].

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025 (Example 1, section 5.1).
"""

import dataclasses
from typing import Any, Iterable, Iterator, Mapping, NamedTuple

import numpy as np

from tff_pers.data import partition as partition_lib


@dataclasses.dataclass(frozen=True)
class Generator:
  """A random generator of systems.

  Attributes:
    examples: n, the number of rows of H_m and of A_m.
    theta_dim: d_theta.
    w_dim: d_w.
    entries: Entries of H, A and B: `uniform` in [0, 1], divided by the number
      of columns, or `normal`, divided by the root of n.
    truths: The theta that generates b_m and y_m: the same `shared` one for all
      clients; a `shifted` one for each client, theta + N(0, I); or
      `independent` ones for each client and each of the two terms.
  """

  examples: int
  theta_dim: int
  w_dim: int
  entries: str
  truths: str

  def clients(self, num_clients: int, seed: int) -> Iterator['System']:
    """Yields one system per client; more clients do not change earlier ones.

    The same seed gives the same H, A, B and w whatever the `truths`.
    """
    # A generator for each use, so that the number of rows does not change what
    # generates the targets, and other truths do not change the matrices.
    entries, shared, own = (
        partition_lib.generator(seed, use)
        for use in (_ENTRIES, _SHARED, _OWN)
    )
    theta = shared.standard_normal(self.theta_dim)
    for _ in range(num_clients):
      truths = self._truths(theta, own)
      w = shared.standard_normal(self.w_dim)
      yield self._system(entries, truths, w)

  def _truths(self, theta, rng):
    """Returns the thetas that generate b_m and y_m."""
    if self.truths == 'shared':
      return theta, theta
    draws = rng.standard_normal((2, self.theta_dim))
    if self.truths == 'shifted':
      return theta + draws[0], theta + draws[0]
    return draws[0], draws[1]

  def _system(self, rng, truths, w) -> 'System':
    h, a, b = (
        self._entries(rng, columns)
        for columns in (self.theta_dim, self.theta_dim, self.w_dim)
    )
    x = np.block([[h, np.zeros_like(b)], [a, b]])
    y = np.concatenate([h @ truths[0], a @ truths[1] + b @ w])
    return System(x, y, truths[0])

  def _entries(self, rng, columns: int) -> np.ndarray:
    shape = (self.examples, columns)
    if self.entries == 'uniform':
      return rng.random(shape) / columns
    return rng.standard_normal(shape) / np.sqrt(self.examples)


# Uses of the seed (0 and 1 belong to partition and split).
_ENTRIES = 2
_SHARED = 3
_OWN = 4

_BLOCK = 1000  # Rows.


class System(NamedTuple):
  """The equations of one client.

  Attributes:
    x: (C, D), float64[rows, d_theta + d_w].
    y: float64[rows].
    theta: float64[d_theta], the one that generated b.
  """

  x: np.ndarray
  y: np.ndarray
  theta: np.ndarray


def reduced(system: System) -> System:
  """Returns the smallest system with the same f for all theta and w.

  The QR decomposition of (x, y) preserves every sum of squared residuals,
  ||x v - y|| = ||Q^T (x v - y)||, and R has at most as many rows as columns.
  The rows are mixtures of the examples, not examples.
  """
  joint = np.column_stack([system.x, system.y])
  if len(joint) <= joint.shape[1]:
    return system
  # Blocks fit in the cache, which halves the time for 20000 rows.
  blocks = np.array_split(joint, -(-len(joint) // _BLOCK))
  joint = np.concatenate([np.linalg.qr(block, mode='r') for block in blocks])
  joint = np.asarray(np.linalg.qr(joint, mode='r'))
  return system._replace(x=joint[:, :-1], y=joint[:, -1])


def operator(
    x: np.ndarray, y: np.ndarray, theta_dim: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns G_m, h_m of F_m(theta) = G_m theta - h_m (section 5.1).

  F_m is the gradient of f_m in theta at the best response to theta,
  w = argmin_w f_m(theta, w): with the projector P onto the complement of the
  range of D, G_m = C^T P C and h_m = C^T P y; x = (C, D) as in a `System`.
  """
  rest = np.column_stack([x[:, :theta_dim], y])  # (C, y)
  private = x[:, theta_dim:]  # D
  rest = rest - private @ np.linalg.lstsq(private, rest, rcond=None)[0]  # P.
  return rest[:, :-1].T @ rest[:, :-1], rest[:, :-1].T @ rest[:, -1]


def root(operators: Iterable[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
  """Returns theta* with mean_m F_m(theta*) = 0, from pairs (G_m, h_m)."""
  g, h = (np.mean(part, axis=0) for part in zip(*operators))
  return np.linalg.solve(g, h)


def smoothness(clients: Iterable[Mapping[str, Any]], theta_dim: int) -> float:
  """Returns L = max_m lambda_max(G_m): every F_m is 1/L-cocoercive."""
  return max(
      float(np.linalg.eigvalsh(
          operator(data['x'], data['y'], theta_dim)[0]
      )[-1])
      for data in clients
  )
