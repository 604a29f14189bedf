"""mu, L and the spread of client optima of a real model, from its data.

The theory is about quadratics. Here each client's loss f_i, with an L2 penalty
on the weights, is approximated by the quadratic with its Hessian at the common
optimum and its own optimum. mu and L are extreme eigenvalues by the Lanczos
method, from Hessian-vector products; optima are found by L-BFGS.

Convergence and Accuracy Trade-Offs in Federated Learning and Meta-Learning
    Zachary Charles, Jakub Konecny. AISTATS 2021.
"""

import functools
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np
from scipy import optimize
from scipy.sparse import linalg
import tensorflow as tf

from tff_pers.analysis import local_updates
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.numerics import distances

# Relative to L, for residuals; errors of eigenvalues are of the order of its
# square. Products in float32 never get below about 1e-6.
_TOLERANCE = 1e-4


class Curvature(NamedTuple):
  """Measurements of clients.

  Attributes:
    smallest: lambda_min of each client's Hessian at the common optimum, [N].
    largest: lambda_max, [N].
    distances: ||c_i - mean of all c_i||, [N].
    distance: ||E[c_i] - x*||, from the mean of client optima, the limit of
      one-shot averaging, to the optimum of the mean loss.
    start: ||x_0 - x*||, from the initial weights.
  """

  smallest: np.ndarray
  largest: np.ndarray
  distances: np.ndarray
  distance: float
  start: float

  @property
  def spectrum(self) -> local_updates.Spectrum:
    """mu and L over all clients.

    Raises:
      ValueError: If a Hessian is not positive definite.
    """
    if self.smallest.min() <= 0:
      raise ValueError(
          '`l2` must make the loss of every client strongly convex, found'
          f' curvature {self.smallest.min():.6g}. Tip: a larger l2, or'
          ' another model.'
      )
    return local_updates.Spectrum(
        float(self.smallest.min()), float(self.largest.max())
    )

  @property
  def radius(self) -> float:
    """C, the radius of the ball around the mean of all client optima."""
    return float(self.distances.max())


class Losses:
  """Losses of clients as functions of one vector of all weights.

  f_i(w) = mean loss of client i's examples + l2 / 2 ||w||^2, without dropout.
  """

  def __init__(self, model: functional.FunctionalModel, l2: float):
    """Initializes the losses.

    Args:
      model: The model.
      l2: Strength of the penalty, >= 0.
    """
    self._model, self._l2 = model, l2
    # Only once, because the model traces its initialization every time.
    self._spec, self._dtype = model.spec, model.dtype
    vector = tf.TensorSpec([model.num_parameters], self._dtype)
    data = (model.x_spec, model.y_spec)
    self._gradient = tf.function(
        self._value_and_gradient, input_signature=(vector, *data)
    )
    self._product = tf.function(
        self._hessian_product, input_signature=(vector, vector, *data)
    )

  def start(self, seed: int = 0) -> np.ndarray:
    """Returns the initial weights of the run `seed`, float64[P]."""
    return _numpy(distances.flatten(self._model.initial_weights(seed)))

  def value_and_gradient(
      self, vector: np.ndarray, data: Mapping[str, Any]
  ) -> tuple[float, np.ndarray]:
    """Returns f_i and its gradient for dense client data."""
    value, gradient = self._gradient(self._tensor(vector), *_rows(data))
    return float(value), _numpy(gradient)

  def hessian_product(
      self, vector: np.ndarray, direction: np.ndarray, data: Mapping[str, Any]
  ) -> np.ndarray:
    """Returns the Hessian of f_i at `vector` times a direction."""
    return _numpy(self._product(
        self._tensor(vector), self._tensor(direction), *_rows(data)
    ))

  def _tensor(self, vector):
    return tf.constant(np.ravel(vector), self._dtype)

  def _loss(self, vector, x, y):
    batch = client_data.Batch(
        x, y, tf.ones([tf.shape(y)[0]], tf.bool), tf.zeros([2], tf.int64)
    )
    loss = self._model.batch_loss(self._weights(vector), batch, training=False)
    return loss + self._l2 * tf.nn.l2_loss(vector)

  def _weights(self, vector):
    spec = tf.nest.flatten(self._spec)
    parts = tf.split(vector, [leaf.shape.num_elements() for leaf in spec])
    return tf.nest.pack_sequence_as(
        self._spec,
        [tf.reshape(part, leaf.shape) for part, leaf in zip(parts, spec)],
    )

  def _value_and_gradient(self, vector, x, y):
    with tf.GradientTape() as tape:
      tape.watch(vector)
      value = self._loss(vector, x, y)
    return value, tape.gradient(value, vector)

  def _hessian_product(self, vector, direction, x, y):
    with tf.GradientTape() as tape:
      tape.watch(vector)
      _, gradient = self._value_and_gradient(vector, x, y)
      along = tf.reduce_sum(gradient * direction)
    return tape.gradient(
        along, vector, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )


def measure(
    model: functional.FunctionalModel, clients: Sequence, l2: float
) -> Curvature:
  """Measures the clients' losses, each with the same weight.

  Args:
    model: A model with a convex loss; for others the optima are those that
      L-BFGS finds from the initial weights.
    clients: Dense data of each client, with at least one example.
    l2: Strength of the penalty added to every client's loss; without it,
      clients with separable classes have no optimum, and mu is 0.
  """
  losses = Losses(model, l2)
  start = losses.start()

  def mean_loss(vector):
    found = [losses.value_and_gradient(vector, data) for data in clients]
    values, gradients = zip(*found)
    return np.mean(values), np.mean(gradients, axis=0)

  common = minimize(mean_loss, start)
  optima = np.array([
      minimize(functools.partial(losses.value_and_gradient, data=data), common)
      for data in clients
  ])
  ends = np.array([
      extreme_eigenvalues(
          functools.partial(losses.hessian_product, common, data=data),
          len(start),
      )
      for data in clients
  ])
  center = optima.mean(axis=0)
  return Curvature(
      ends[:, 0], ends[:, 1], np.linalg.norm(optima - center, axis=1),
      float(np.linalg.norm(center - common)),
      float(np.linalg.norm(start - common)),
  )


def minimize(
    function: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
) -> np.ndarray:
  """Returns the minimizer of `v -> (value, gradient)` by L-BFGS."""
  found = optimize.minimize(
      function, start, jac=True, method='L-BFGS-B',
      # Until the value has float32 accuracy; gradients are too noisy.
      options=dict(maxiter=2000, maxfun=4000, ftol=1e-12, gtol=1e-7),
  )
  return found.x


def extreme_eigenvalues(
    product: Callable[[np.ndarray], np.ndarray], dim: int
) -> tuple[float, float]:
  """Returns the smallest and the largest eigenvalue of a symmetric matrix.

  Args:
    product: `v -> A v`.
    dim: Number of rows of A.
  """
  def largest(function):
    operator = linalg.LinearOperator([dim, dim], function, dtype=np.float64)
    return float(linalg.eigsh(
        operator, k=1, which='LA', tol=_TOLERANCE, return_eigenvectors=False,
        # A fixed start; ARPACK's default is random.
        v0=np.random.default_rng(0).normal(size=dim),
    )[0])

  if dim < 3:  # Lanczos needs more dimensions.
    values = np.linalg.eigvalsh(np.array([product(row) for row in np.eye(dim)]))
    return float(values[0]), float(values[-1])
  high = largest(product)
  # Of the shifted matrix, whose large eigenvalue this is, so that the relative
  # tolerance is relative to L.
  shift = 2 * abs(high) or 1.0
  return shift - largest(lambda v: shift * np.ravel(v) - product(v)), high


def _rows(data):
  count = int(data['num_examples'])
  found = tf.nest.map_structure(lambda rows: rows[:count], data['examples'])
  return found['x'], found['y']


def _numpy(tensor) -> np.ndarray:
  return tensor.numpy().astype(np.float64)
