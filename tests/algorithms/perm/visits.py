"""Visits on quadratics in NumPy: what `algorithms.perm.fixed_mixing` must do."""

import numpy as np
import tensorflow as tf

from tests import acting
from tests import problems
from tff_pers.algorithms.perm import fixed_mixing
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.numerics import schedule


def random_quadratics(seed: int, num_clients: int, dim: int, num_examples=None):
  """Returns quadratics with eigenvalues in [0.5, 2] and normal centers."""
  rng = np.random.default_rng(seed)
  curvatures = []
  for _ in range(num_clients):
    q, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    curvatures.append(q @ np.diag(rng.uniform(0.5, 2.0, dim)) @ q.T)
  if num_examples is None:
    num_examples = [int(n) for n in rng.integers(2, 9, num_clients)]
  return problems.Quadratics(
      np.stack(curvatures), rng.standard_normal((num_clients, dim)),
      num_examples, rng.standard_normal(dim),
  )


def random_mixing(seed: int, num_clients: int):
  """Returns an asymmetric row-stochastic matrix, float32[N, N]."""
  rng = np.random.default_rng(seed)
  mixing = rng.dirichlet(np.ones(num_clients), num_clients)
  return mixing.astype(np.float32)


def hyperparameters(**values):
  """Returns those of shuffling with permutations and without a cap."""
  defaults = dict(
      local_steps=3, batch_size=4, learning_rate=0.05, step_cap=0.0,
      schedule='permutation',
  )
  return acting.hyperparameters(
      fixed_mixing.ShufflingHyperparameters, defaults, **values
  )


def hosts_of_epochs(seed: int, num_clients: int, num_epochs: int):
  """Returns the project's schedule, int[num_epochs * N, N], by model."""

  @tf.function
  def all_hosts():
    return tf.map_fn(
        lambda t: schedule.hosts(
            seed, t, num_clients, visit_schedule.SCHEDULE_USE
        ),
        tf.range(num_epochs * num_clients),
    )

  return all_hosts().numpy()


def run(problem, mixing, hosts, *, learning_rate, local_steps, scale=None,
        models=None, noise=None, momentum=0.0, weight_decay=0.0,
        clip_norm=np.inf, factor=lambda t: 1.0):
  """Yields the models [N, d] after each round of `hosts` [rounds, N].

  Model i at host c takes K steps of size eta * s * A[i, c] on f_c.

  Args:
    problem: Quadratics.
    mixing: A, [N, N].
    hosts: Host of each model per round; any schedule, not only ours.
    learning_rate: eta.
    local_steps: K.
    scale: s; None: N.
    models: Start, [N, d]; None: the problem's.
    noise: `(shape) -> array`, added to every gradient, or None.
    momentum: Momentum of a visit, which starts from zero.
    weight_decay: Inside f_c, and scaled as the rest of it.
    clip_norm: Of the gradients before they are scaled.
    factor: Of eta in round t.
  """
  n = problem.num_clients
  mixing = np.asarray(mixing, np.float64)
  scale = n if scale is None else scale
  w = np.tile(problem.start, (n, 1)) if models is None else models.copy()
  owners = np.arange(n)
  for t, host in enumerate(hosts):
    a, c = problem.curvatures[host], problem.centers[host]
    multiplier = (scale * mixing[owners, host])[:, None]
    m = np.zeros_like(w)
    for _ in range(local_steps):
      gradient = np.einsum('nij,nj->ni', a, w - c)
      if noise is not None:
        gradient = gradient + noise(w.shape)
      norms = np.linalg.norm(gradient, axis=1, keepdims=True)
      gradient = gradient * np.minimum(1.0, clip_norm / norms)
      m = momentum * m + gradient + weight_decay * w
      w = w - learning_rate * factor(t) * multiplier * m
    yield w


def last(generator):
  """Returns the last item."""
  for item in generator:
    pass
  return item
