"""Small float64 problems: quadratics with known answers, and a tiny network.

Quadratics are models over "examples" (A, c): client i's mean loss is
f_i(w) = 1/2 (w - c_i)^T A_i (w - c_i); every example of a client carries the
same (A_i, c_i), so that a minibatch of any size gives the full gradient.
"""

import dataclasses
from typing import Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.models import functional
from tff_pers.models import loss_functions
from tff_pers.models import partition
from tff_pers.models import submodels


@dataclasses.dataclass(frozen=True)
class Quadratics:
  """Quadratic clients.

  Attributes:
    curvatures: A, float64[N, d, d], symmetric.
    centers: c, float64[N, d].
    num_examples: n, number of examples per client.
    start: w^0, float64[d].
  """

  curvatures: np.ndarray
  centers: np.ndarray
  num_examples: Sequence[int]
  start: np.ndarray

  @property
  def num_clients(self) -> int:
    return len(self.centers)

  @property
  def model(self) -> functional.FunctionalModel:
    """The model over weights `(w,)`, w float64[d]; x is [batch, d + 1, d]."""
    dim = self.centers.shape[1]

    def predict(weights, x, training, seed):
      del training, seed  # Unused.
      distance = weights[0] - x[:, dim]
      return 0.5 * tf.einsum('bi,bij,bj->b', distance, x[:, :dim], distance)

    return functional.FunctionalModel(
        init=lambda seed: (tf.constant(self.start, tf.float64),),
        predict=predict,
        example_loss=lambda y, predictions: predictions,
        x_spec=tf.TensorSpec([None, dim + 1, dim], tf.float64),
        y_spec=tf.TensorSpec([None], tf.int32),
        name='quadratic',
    )

  def clients(self):
    """Returns the clients' dense data, a list in order of the index."""
    def client(i):
      x = np.concatenate([self.curvatures[i], self.centers[i][None]])
      n = self.num_examples[i]
      return client_data.dense(
          i, np.repeat(x[None], n, axis=0), np.zeros([n], np.int32)
      )
    return [client(i) for i in range(self.num_clients)]

  def shares(self, client_weighting: str) -> np.ndarray:
    """Returns p, float64[N]: 1/N (`uniform`) or n_i/n (`examples`)."""
    n = np.asarray(self.num_examples, np.float64)
    weights = n if client_weighting == 'examples' else np.ones_like(n)
    return weights / weights.sum()

  def minimizer(self, shares: Optional[np.ndarray] = None) -> np.ndarray:
    """Returns argmin sum_i p_i f_i, float64[d]; p is 1/N unless given."""
    p = self.shares('uniform') if shares is None else shares
    return np.linalg.solve(
        np.einsum('n,nij->ij', p, self.curvatures),
        np.einsum('n,nij,nj->i', p, self.curvatures, self.centers),
    )

  def loss(self, client: int, w) -> float:
    """Returns f_client(w)."""
    distance = np.asarray(w) - self.centers[client]
    return 0.5 * distance @ self.curvatures[client] @ distance


def q6() -> Quadratics:
  """Q6: six clients in five dimensions, eigenvalues 0.5 to 2, start 0."""
  generator = np.random.default_rng(0)
  curvatures, centers = [], []
  for _ in range(6):
    q, _ = np.linalg.qr(generator.standard_normal((5, 5)))
    curvatures.append(q @ np.diag(np.linspace(0.5, 2, 5)) @ q.T)
    centers.append(generator.standard_normal(5))
  num_examples = [int(n) for n in generator.integers(5, 50, 6)]
  return Quadratics(
      np.stack(curvatures), np.stack(centers), num_examples, np.zeros(5)
  )


def s2(start: float = 0.0) -> Quadratics:
  """S2: f_i(x) = a_i (x - c_i)^2 / 2 with a = (1, 4), c = (1, -1)."""
  return Quadratics(
      np.array([[[1.0]], [[4.0]]]), np.array([[1.0], [-1.0]]), [1, 1],
      np.array([start]),
  )


def split_least_squares():
  """Returns (parts, clients, theta*): 1/2 ||H_i theta + B_i w_i - y_i||^2.

  Six clients of one example each, whose loss can be 0 (baselines 6.2).
  """
  rng = np.random.default_rng(5)
  h = rng.standard_normal((6, 12, 4)) / np.sqrt(12)
  b = rng.standard_normal((6, 12, 2)) / np.sqrt(12)
  theta, own = rng.standard_normal(4), rng.standard_normal((6, 2))
  y = np.einsum('nij,j->ni', h, theta) + np.einsum('nij,nj->ni', b, own)

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    return tf.linalg.matvec(x, tf.concat(weights, axis=0))

  model = functional.FunctionalModel(
      init=lambda seed: (tf.zeros([4], tf.float64), tf.zeros([2], tf.float64)),
      predict=predict,
      example_loss=lambda y, p: tf.reduce_sum((p - y) ** 2, axis=1) / 2,
      x_spec=tf.TensorSpec([None, 12, 6], tf.float64),
      y_spec=tf.TensorSpec([None, 12], tf.float64),
  )
  clients = [
      client_data.dense(i, np.concatenate([h[i], b[i]], 1)[None], y[i][None])
      for i in range(6)
  ]
  return partition.Partition(model, (False, True)), clients, theta


def tiny_model(hidden: int = 4) -> functional.FunctionalModel:
  """Returns a network of one hidden layer: 3 features, 2 classes, float64."""

  def init(seed):
    shapes = ([3, hidden], [hidden], [hidden, 2], [2])
    return tuple(
        tf.random.stateless_normal(shape, seed + i, dtype=tf.float64)
        for i, shape in enumerate(shapes)
    )

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    w1, b1, w2, b2 = weights
    return tf.matmul(tf.tanh(tf.matmul(x, w1) + b1), w2) + b2

  units = functional.Units('hidden', hidden)
  return functional.FunctionalModel(
      init=init,
      predict=predict,
      example_loss=loss_functions.sparse_categorical_crossentropy,
      x_spec=tf.TensorSpec([None, 3], tf.float64),
      y_spec=tf.TensorSpec([None], tf.int32),
      metrics={'accuracy': loss_functions.categorical_accuracy},
      slim=lambda width, rounding='round': tiny_model(
          submodels.num_kept(hidden, width, rounding)
      ),
      units=((None, units), (units,), (units, None), (None,)),
  )


def tiny_clients():
  """Returns five clients of 3 to 7 examples."""
  generator = np.random.default_rng(0)
  return [
      client_data.dense(
          i,
          generator.standard_normal([3 + i, 3]),
          generator.integers(0, 2, 3 + i).astype(np.int32),
      )
      for i in range(5)
  ]


def batch(x, y, mask=None, seed: int = 0) -> client_data.Batch:
  """Returns rows as a batch; without a mask all of them count."""
  if mask is None:
    mask = [True] * len(y)
  return client_data.Batch(
      tf.constant(x), tf.constant(y), tf.constant(mask), random.key(seed)
  )


def quadratic_task(quadratics: Quadratics, **fields) -> task_lib.Task:
  """Returns the task of these clients, whose optimum is `minimizer()`.

  Args:
    quadratics: The clients; each is tested on what it trains on.
    **fields: Further fields of `Task`, or others than here.
  """
  shared = np.tile(quadratics.minimizer(), [quadratics.num_clients, 1])
  return task_lib.Task(**dict(
      dict(
          name='quadratic', model=quadratics.model, train=quadratics.clients(),
          test=quadratics.clients(), client_weighting='uniform',
          optimum=(shared,), partition='by_client',
      ),
      **fields,
  ))
