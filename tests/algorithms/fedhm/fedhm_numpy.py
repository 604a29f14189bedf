"""FedHM in NumPy, on a linear map whose kernel is all there is."""

import numpy as np


def factors(matrix, rank):
  """Returns (U sqrt(S), sqrt(S) V^T) of a rank."""
  left, values, right = np.linalg.svd(matrix, full_matrices=False)
  root = np.sqrt(values[:rank])
  return left[:, :rank] * root, root[:, None] * right[:rank]


def gradient(weights, data):
  """Returns that of the mean of ||y - x W||^2 / 2."""
  x, y = (np.asarray(data['examples'][name], np.float64) for name in 'xy')
  return x.T @ (x @ weights - y) / len(x)


def train(matrix, rank, data, *, steps, rate, momentum, decay, frobenius):
  """Returns what a client's model stands for after full-batch steps."""
  if rank is None:
    m = 0
    for _ in range(steps):
      m = momentum * m + gradient(matrix, data) + decay * matrix
      matrix = matrix - rate * m
    return matrix
  a, b = factors(matrix, rank)
  m_a = m_b = 0
  for _ in range(steps):
    g = gradient(a @ b, data)
    m_a = momentum * m_a + g @ b.T + frobenius * a @ (b @ b.T)
    m_b = momentum * m_b + a.T @ g + frobenius * (a.T @ a) @ b
    a, b = a - rate * m_a, b - rate * m_b
  return a @ b


def alphas(ratios, tau):
  """Returns softmax(gamma / tau)."""
  powers = np.exp(np.asarray(ratios) / tau)
  return powers / powers.sum()
