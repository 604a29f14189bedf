"""PERM on softmax regression in NumPy, written from the paper's algorithms.

Forward and backward passes by hand, in float64. From the project come only
random draws: which rows make a batch (`batch_rows`, with the key of the round,
the client and the use) and who hosts whom (`visits.hosts_of_epochs`, or a
matching of the pairs that are pending here).
"""

import dataclasses
from typing import Any, List

import numpy as np
import tensorflow as tf

from tests.algorithms.perm import visits
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.numerics import matching

_MATCHING_USE = -3  # Of the project's draws.


@dataclasses.dataclass(frozen=True)
class Softmax:
  """Softmax regression with an L2 penalty; weights are (kernel, bias).

  Attributes:
    num_classes: Number of labels.
    l2: Adds l2 / 2 * ||w||^2 to the loss, biases included.
  """

  num_classes: int
  l2: float

  def probabilities(self, w, x):
    logits = x @ w[0] + w[1]
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)

  def gradient(self, w, x, y):
    """Returns the gradient of the mean loss over the rows of x."""
    error = self.probabilities(w, x) - np.eye(self.num_classes)[y]
    return [
        x.T @ error / len(y) + self.l2 * w[0],
        error.mean(axis=0) + self.l2 * w[1],
    ]

  def loss(self, w, x, y):
    """Returns the mean loss over the rows of x, without the penalty."""
    return -np.mean(np.log(self.probabilities(w, x)[np.arange(len(y)), y]))

  def accuracy(self, w, x, y):
    return np.mean(np.argmax(x @ w[0] + w[1], axis=1) == y)


@dataclasses.dataclass
class Perm:
  """Algorithms 2 (`single_loop`) and 3 then 1 (`two_stage`).

  Attributes:
    model: A `Softmax`.
    clients: (x, y) of every client.
    hyperparameters: A `perm.PermHyperparameters` with a step size for w and a
      cap; lambda is scaled by the gradients' variance (trap 3 of the sheet).
    seed: Of the run.
  """

  model: Softmax
  clients: List[Any]
  hyperparameters: Any
  seed: int

  def run(self, num_rounds: int):
    """Yields (w, A, the models w_i) after every round."""
    h, n = self.hyperparameters, len(self.clients)
    two_stage = h.variant == 'two_stage'
    first = h.stage1_rounds if two_stage else h.warmup_rounds
    gamma = h.global_learning_rate
    self._pending = np.zeros((n, n), np.int32)
    self._so_far = np.zeros(n, np.int32)
    self._permutations = visits.hosts_of_epochs(
        self.seed, n, -(-(num_rounds - first) // n)
    )
    num_features = self.clients[0][0].shape[1]
    w = [
        np.zeros((num_features, self.model.num_classes)),
        np.zeros(self.model.num_classes),
    ]
    mixing, models = None, None
    for t in range(num_rounds):
      if two_stage:
        if t == first:
          mixing = self._mixing(w, t)[0]
        if t < first:
          w = self._average([
              self._train(w, i, t, gamma) for i in range(n)
          ])
      else:
        new_mixing, gradients = self._mixing(w, t)
        if t >= first:
          mixing = new_mixing
        if t < first and h.warmup == 'fedavg':
          w = self._average([
              self._train(w, i, t, h.learning_rate) for i in range(n)
          ])
        else:
          w = _descend(w, self._average(gradients), gamma)
      if t < first:
        models = [w] * n
      else:
        hosts = self._hosts(mixing, t - first)
        models = self._visit(models, mixing, hosts, t)
      yield w, mixing, models

  def _rows(self, client: int, t: int, use: int, **budget):
    """Returns the batches of a client, a list of arrays of rows."""
    size = len(self.clients[client][1])
    rows, mask = client_data.batch_rows(
        size, size, seed=random.key(self.seed, t, client, use), **budget
    )
    return [r[m] for r, m in zip(rows.numpy(), mask.numpy())]

  def _train(self, w, client: int, t: int, rate: float):
    """Returns w after K local steps."""
    h, (x, y) = self.hyperparameters, self.clients[client]
    budget = dict(batch_size=h.batch_size, num_steps=h.local_steps)
    for rows in self._rows(client, t, 0, **budget):
      w = _descend(w, self.model.gradient(w, x[rows], y[rows]), rate)
    return w

  def _average(self, values):
    """Returns the mean with weights n_i / n."""
    sizes = np.array([len(y) for _, y in self.clients])
    return [
        np.tensordot(sizes / sizes.sum(), np.stack(leaves), axes=1)
        for leaves in zip(*values)
    ]

  def _gradient(self, w, client: int, t: int):
    """Returns (G_i, estimated variance v_i of one row, rows used)."""
    x, y = self.clients[client]
    size = self.hyperparameters.gradient_batch or len(y)
    rows = self._rows(client, t, 1, batch_size=size, num_steps=1)[0]
    halves = [
        np.concatenate([
            np.ravel(g) for g in self.model.gradient(w, x[half], y[half])
        ])
        for half in (rows[::2], rows[1::2])
    ]
    counts = [len(rows[::2]), len(rows[1::2])]
    variance = np.sum((halves[0] - halves[1]) ** 2) / (
        1 / counts[0] + 1 / counts[1]
    )
    return self.model.gradient(w, x[rows], y[rows]), variance, len(rows)

  def _mixing(self, w, t: int):
    """Returns A by Eq. (2), and the gradients, all at w."""
    found = [self._gradient(w, i, t) for i in range(len(self.clients))]
    gradients, variances, used = zip(*found)
    sizes = np.array([float(len(y)) for _, y in self.clients])
    lambda_ = self.hyperparameters.lambda_scale * np.mean(
        np.array(variances) * sizes / np.array(used)
    )
    flat = [np.concatenate([np.ravel(leaf) for leaf in g]) for g in gradients]
    rows = [
        water_level([np.sum((own - other) ** 2) for other in flat], sizes,
                    lambda_)
        for own in flat
    ]
    return np.stack(rows), gradients

  def _hosts(self, mixing, visit_round: int):
    """Returns the host of every model, -1 for none."""
    if self.hyperparameters.schedule == 'permutation':
      return self._permutations[visit_round]
    for left, row in zip(self._pending, mixing):
      left[:] = np.minimum(left, 2 * self._visits(row))
      if not left.any():  # An epoch is over.
        left[:] = self._visits(row)
    n = len(mixing)
    hosts = matching.matching(
        tf.tile(tf.range(n)[None], [n, 1]), tf.constant(self._pending),
        tf.constant(self._so_far), tf.ones([n], tf.bool),
        random.key(self.seed, _MATCHING_USE, visit_round),
    ).numpy()
    self._pending[hosts >= 0, hosts[hosts >= 0]] -= 1
    self._so_far += hosts >= 0
    return hosts

  def _visits(self, row):
    """Returns how often a model visits whom: steps of about the cap."""
    share = np.sum(row > 0) * row / self.hyperparameters.step_cap
    return np.where(row > 0, np.maximum(np.round(share), 1), 0).astype(int)

  def _visit(self, models, mixing, hosts, t: int):
    """Returns the models after K steps each at its host (Algorithm 1)."""
    h, n = self.hyperparameters, len(models)
    moved = []
    for owner, host in enumerate(hosts):
      if host < 0:
        moved.append(models[owner])
        continue
      row = mixing[owner]
      if h.schedule == 'permutation':
        share = min(n, h.step_cap / row.max()) * row[host]
      else:
        share = np.sum(row > 0) * row[host] / self._visits(row)[host]
      rate = h.learning_rate * share
      moved.append(self._train(models[owner], host, t, rate))
    return moved


def water_level(distances, sizes, lambda_):
  """Returns alpha of Eq. (2) by bisection on the water level nu.

  alpha_j = n_j max(0, nu - c_j) / (2 lambda) sums to 1; the sum rises with nu.
  """
  c = np.asarray(distances)
  alpha = lambda nu: sizes * np.maximum(0, nu - c) / (2 * lambda_)
  low, high = c.min(), c.max() + 2 * lambda_ / sizes.min()
  for _ in range(200):
    middle = (low + high) / 2
    low, high = (low, middle) if alpha(middle).sum() > 1 else (middle, high)
  return alpha(high) / alpha(high).sum()


def _descend(w, gradient, rate):
  return [leaf - rate * g for leaf, g in zip(w, gradient)]
