"""Federations of quadratic clients, random or from data."""

from typing import Sequence

import numpy as np
import numpy.typing as npt

from tff_pers.analysis import quadratic


def diagonal(
    curvatures: npt.ArrayLike, optima: npt.ArrayLike
) -> quadratic.QuadraticFederation:
  """Returns clients with A_i = diag(curvatures[i]).

  Args:
    curvatures: Eigenvalues > 0, [N, d].
    optima: c, [N, d].
  """
  curvatures = np.asarray(curvatures, np.float64)
  return quadratic.QuadraticFederation(
      curvatures[:, :, None] * np.eye(curvatures.shape[1]), np.asarray(optima)
  )


def shared_extremes(
    num_clients: int, dim: int, mu: float, L: float, seed: int
) -> quadratic.QuadraticFederation:
  """Returns clients with common extreme eigenvectors.

  A_i = diag(L, mu, others), the others log-uniform in [mu, L]; c_i are random
  unit vectors. Their surrogate is as badly conditioned as that of a single
  client, so that predicted rates can be observed.

  Args:
    num_clients: N.
    dim: d >= 2.
    mu: Smallest eigenvalue of every client.
    L: Largest eigenvalue of every client.
    seed: Seed of the draws.
  """
  rng = np.random.default_rng(seed)
  return diagonal(
      _curvatures(rng, num_clients, dim, mu, L),
      _unit_vectors(rng, num_clients, dim),
  )


def rotated(
    num_clients: int, dim: int, mu: float, L: float, seed: int
) -> quadratic.QuadraticFederation:
  """Returns clients as in `shared_extremes`, each randomly rotated."""
  rng = np.random.default_rng(seed)
  curvatures = _curvatures(rng, num_clients, dim, mu, L)
  rotations = np.linalg.qr(rng.normal(size=[num_clients, dim, dim]))[0]
  hessians = np.einsum(
      'nij,nj,nkj->nik', rotations, curvatures, rotations
  )
  return quadratic.QuadraticFederation(
      # Symmetric up to rounding; made exactly symmetric here.
      (hessians + np.swapaxes(hessians, 1, 2)) / 2,
      _unit_vectors(rng, num_clients, dim),
  )


def linear_regression(
    features: Sequence[np.ndarray], targets: Sequence[np.ndarray]
) -> quadratic.QuadraticFederation:
  """Returns the clients of a least-squares problem.

  f_i(w) = 1/(2 n_i) ||X_i w - y_i||^2 minus its smallest value, with
  A_i = X_i^T X_i / n_i and c_i the client's own solution.

  Args:
    features: X_i, [n_i, d] of each client.
    targets: y_i, [n_i].

  Raises:
    ValueError: If the columns of some X_i are linearly dependent.
  """
  hessians, optima = [], []
  for number, (x, y) in enumerate(zip(features, targets)):
    optimum, _, rank, _ = np.linalg.lstsq(x, y, rcond=None)
    if rank < x.shape[1]:
      raise ValueError(
          f'`features` must have {x.shape[1]} linearly independent columns,'
          f' found {rank} of client {number}, whose optimum is not unique.'
      )
    hessians.append(x.T @ x / len(y))
    optima.append(optimum)
  return quadratic.QuadraticFederation(np.array(hessians), np.array(optima))


def _curvatures(rng, num_clients, dim, mu, L):
  others = np.exp(
      rng.uniform(np.log(mu), np.log(L), size=[num_clients, dim - 2])
  )
  ends = np.tile([L, mu], [num_clients, 1])
  return np.concatenate([ends, others], axis=1)


def _unit_vectors(rng, num_clients, dim):
  vectors = rng.normal(size=[num_clients, dim])
  return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
