"""PERM on four quadratics, from seed 3, and what it must find in NumPy."""

import functools

import numpy as np
import tensorflow as tf

from tests import acting
from tests.algorithms.perm import visits
from tff_pers.algorithms.perm import perm
from tff_pers.numerics import mixing

N, DIM = 4, 3
PROBLEM = visits.random_quadratics(0, N, DIM)
SIZES = np.asarray(PROBLEM.num_examples, np.float64)  # 2, 2, 4, 7


@functools.lru_cache(maxsize=None)
def run(num_rounds, full_participation=True, cohorts=None, **values):
  """Returns (states, metrics), one entry per round, from seed 3."""
  defaults = dict(
      local_steps=2, batch_size=4, learning_rate=0.05, step_cap=0.0,
      global_learning_rate=0.1, warmup_rounds=2, stage1_rounds=2, lambda_=40.0,
      schedule='permutation', warmup='gradient',
  )
  process = perm.build_perm(
      PROBLEM.model, N,
      acting.hyperparameters(perm.PermHyperparameters, defaults, **values),
      full_participation=full_participation,
  )
  data = PROBLEM.clients()
  state, states, metrics = process.initialize_seeded(3), [], []
  for t in range(num_rounds):
    cohort = cohorts[t] if cohorts else range(N)
    output = process.next(state, [()] * len(cohort), [data[i] for i in cohort])
    state = output['state']
    states.append(state)
    metrics.append(output['metrics'])
  return states, metrics


def gradients_at(w):
  return np.einsum(
      'nij,nj->ni', PROBLEM.curvatures, np.asarray(w) - PROBLEM.centers
  )


def distances_at(w):
  g = gradients_at(w)
  return np.sum((g[:, None] - g[None]) ** 2, axis=-1)


def solution_at(w):
  return mixing.water_filling(
      tf.constant(distances_at(w)), tf.constant(SIZES), 40.0
  ).numpy()


def global_path(num_rounds):
  """w^0, w^1, ...: one step on the example-weighted mean per round."""
  path, p = [PROBLEM.start], SIZES / SIZES.sum()
  for _ in range(num_rounds):
    path.append(path[-1] - 0.1 * p @ gradients_at(path[-1]))
  return path
