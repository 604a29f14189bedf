"""Random quadratic clients, and what their rounds do step by step."""

import numpy as np

from tff_pers.analysis import quadratic


def random_federation(seed, *, num_clients=4, dim=3, mu=1.0):
  """Returns clients with random eigenvectors, spectra, optima and weights."""
  rng = np.random.default_rng(seed)
  curvatures = rng.uniform(mu, 10.0, size=[num_clients, dim])
  rotations = np.linalg.qr(rng.normal(size=[num_clients, dim, dim]))[0]
  hessians = np.einsum('nij,nj,nkj->nik', rotations, curvatures, rotations)
  return quadratic.QuadraticFederation(
      (hessians + np.swapaxes(hessians, 1, 2)) / 2,
      rng.normal(size=[num_clients, dim]), rng.dirichlet(np.ones(num_clients)),
  )


def client_update(hessian, optimum, x, theta, gamma, alpha):
  """Runs K steps on 1/2 (y - c)^T A (y - c) + alpha/2 ||y - x||^2 from x."""
  y, total = x, np.zeros_like(x)
  for weight in theta:
    g = hessian @ (y - optimum) + alpha * (y - x)
    total = total + weight * g
    y = y - gamma * g
  return total
