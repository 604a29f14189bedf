"""What local update methods descend on quadratics, in NumPy.

Independent of the code under test: matrix powers instead of local steps.
"""

import numpy as np

from tests import problems


def random_quadratics(
    num_clients: int, dim: int, seed: int = 0, low: float = 1.0,
    high: float = 10.0,
) -> problems.Quadratics:
  """Returns clients whose curvatures have all of their spectra in [low, high].

  Client i has 2 + i examples.
  """
  rng = np.random.default_rng(seed)
  curvatures = []
  for _ in range(num_clients):
    q, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    spectrum = np.concatenate([[low, high], rng.uniform(low, high, dim - 2)])
    curvatures.append(q @ np.diag(spectrum) @ q.T)
  return problems.Quadratics(
      np.stack(curvatures), rng.standard_normal((num_clients, dim)),
      [2 + i for i in range(num_clients)], rng.standard_normal(dim),
  )


def random_theta(rng, num_steps: int) -> list:
  """Returns weights >= 0 of `num_steps` gradients; the last one counts."""
  theta = rng.uniform(0, 1, num_steps) * rng.integers(0, 2, num_steps)
  theta[-1] = rng.uniform(0.1, 1)
  return list(theta)


def hessian(curvature, theta, gamma: float, alpha: float):
  """Returns Q A, Q = sum_k theta_k (I - gamma (A + alpha I))^(k-1) (eq. 6)."""
  step = curvature + alpha * np.eye(len(curvature))
  contraction = np.eye(len(curvature)) - gamma * step
  return sum(
      weight * np.linalg.matrix_power(contraction, k)
      for k, weight in enumerate(theta)
  ) @ curvature


def server_recursion(problem, theta, gamma: float, alpha: float, shares):
  """Returns (H, h) of x <- x - eta (H x - h), `shares` being p_i."""
  hessians = np.stack([
      hessian(a, theta, gamma, alpha) for a in problem.curvatures
  ])
  return (
      np.einsum('n,nij->ij', shares, hessians),
      np.einsum('n,nij,nj->i', shares, hessians, problem.centers),
  )
