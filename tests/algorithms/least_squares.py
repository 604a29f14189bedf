"""The closed forms of section 5.1 in NumPy, from the examples of a task.

    f_m(theta, w) = 1/2 ||C_m theta + D_m w - y_m||^2
    w_m*(theta) = D_m^+ (y_m - C_m theta),  P_m = I - D_m D_m^+
    F_m(theta) = C_m^T P_m (C_m theta - y_m) = G_m theta - h_m

With C = [H; A] and D = [0; B] these are the paper's f_m and G_m, and it does
not matter whether the rows were reduced: D^T D = B^T B, C^T C = H^T H + A^T A.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025.
"""

import numpy as np


class LeastSquares:
  """The oracle of a task; arrays have the clients as their first axis.

  Attributes:
    c: C_m, [N, rows, d_theta].
    d: D_m, [N, rows, d_w].
    y: y_m, [N, rows].
    p: P_m, [N, rows, rows].
    g: G_m, [N, d_theta, d_theta].
    h: h_m, [N, d_theta].
  """

  def __init__(self, task):
    """Reads the training examples of `task`, equally many of each client."""
    (theta_dim,), _ = (weight.shape for weight in task.model.layers)
    x = np.stack([data['examples']['x'] for data in task.train])
    self.y = np.stack([data['examples']['y'] for data in task.train])
    self.c, self.d = x[..., :theta_dim], x[..., theta_dim:]
    self.p = np.eye(x.shape[1]) - self.d @ np.linalg.pinv(self.d)
    c_transposed = self.c.swapaxes(1, 2)
    self.g = c_transposed @ self.p @ self.c
    self.h = _apply(c_transposed @ self.p, self.y)

  def loss(self, theta, w):
    """Returns f_m(theta, w_m), [N]; w is [N, d_w]."""
    residual = self.c @ theta + _apply(self.d, w) - self.y
    return 0.5 * np.square(residual).sum(axis=1)

  def gradient(self, theta, w):
    """Returns the gradients of f_m in theta [N, d_theta] and w [N, d_w]."""
    residual = self.c @ theta + _apply(self.d, w) - self.y
    return tuple(
        _apply(part.swapaxes(1, 2), residual) for part in (self.c, self.d)
    )

  def best_response(self, theta):
    """Returns w_m*(theta), [N, d_w], the shortest one of each client."""
    return _apply(np.linalg.pinv(self.d), self.y - self.c @ theta)

  def value(self, theta):
    """Returns min_w f_m(theta, w), [N]; its gradient is `operators`."""
    return self.loss(theta, self.best_response(theta))

  def operators(self, theta):
    """Returns F_m(theta), [N, d_theta]."""
    return self.g @ theta - self.h

  def operator(self, theta):
    """Returns F(theta), the mean over clients, [d_theta]."""
    return self.operators(theta).mean(axis=0)

  @property
  def root(self):
    """theta* with F(theta*) = 0, [d_theta]."""
    return np.linalg.solve(self.g.mean(axis=0), self.h.mean(axis=0))

  def inexact_root(self, tau: int):
    """Returns where FFGG ends with tau steps of gradient descent, [d_theta].

    From w^0 = 0 with the step gamma_w = 1 / max_m lambda_max(D^T D) they end at
    w_m = S_m w_m*(theta), S_m = I - (I - gamma_w D_m^T D_m)^tau. What is sent
    is then linear in theta, as with P_m = I - D_m S_m D_m^+.
    """
    squares = self.d.swapaxes(1, 2) @ self.d
    step = np.eye(squares.shape[-1]) - squares / self.private_smoothness
    s = np.eye(squares.shape[-1]) - np.linalg.matrix_power(step, tau)
    p = np.eye(self.c.shape[1]) - self.d @ s @ np.linalg.pinv(self.d)
    sent = self.c.swapaxes(1, 2) @ p
    return np.linalg.solve(
        (sent @ self.c).mean(axis=0), _apply(sent, self.y).mean(axis=0)
    )

  @property
  def smoothness(self) -> float:
    """L = max_m lambda_max(G_m)."""
    return _eigenvalues(self.g).max()

  @property
  def convexity(self) -> float:
    """mu = min_m lambda_min(G_m)."""
    return _eigenvalues(self.g).min()

  @property
  def private_smoothness(self) -> float:
    """max_m lambda_max(B_m^T B_m)."""
    return _eigenvalues(self.d.swapaxes(1, 2) @ self.d).max()

  @property
  def private_convexity(self) -> float:
    """min_m lambda_min(B_m^T B_m)."""
    return _eigenvalues(self.d.swapaxes(1, 2) @ self.d).min()

  @property
  def joint_smoothness(self) -> float:
    """L_f = max_m of the smoothness of f_m in (theta, w)."""
    x = np.concatenate([self.c, self.d], axis=2)
    return _eigenvalues(x.swapaxes(1, 2) @ x).max()

  @property
  def shared_smoothness(self) -> float:
    """max_m lambda_max(H_m^T H_m + A_m^T A_m), that of f_m in theta alone."""
    return _eigenvalues(self.c.swapaxes(1, 2) @ self.c).max()


def _apply(matrices, vectors):
  """Returns the product of each matrix and its vector."""
  return np.einsum('mij,mj->mi', matrices, vectors)


def _eigenvalues(matrices):
  return np.linalg.eigvalsh(matrices)
