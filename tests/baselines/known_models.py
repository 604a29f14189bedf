"""Rounds of methods whose server keeps all models, from models that are known."""

import numpy as np
import tensorflow as tf

from tests import problems

MODELS = np.random.default_rng(1).standard_normal((6, 5))
COHORT = (5, 0, 3, 2)  # Not in order; clients 1 and 4 are absent.


def play(process, cohort=COHORT, models=MODELS, round_num=0, **fields):
  """Returns (state, theta of the cohort, metrics) after a round on Q6.

  Args:
    process: A method for the six clients of Q6.
    cohort: Who takes part.
    models: The theta_i before the round, float64[6, 5].
    round_num: The round.
    **fields: Further fields of the server state.
  """
  problem = problems.q6()
  state = process.initialize_seeded(7)
  state.update(
      models=(models,), round=np.int32(round_num),
      **fields,
  )
  clients = problem.clients()
  output = process.next(
      state, [(models[i],) for i in cohort], [clients[i] for i in cohort]
  )
  theta = np.array([own[0] for own in output['client_states']])
  return output['state'], theta, output['metrics']


def gradient(i, w):
  """Returns grad f_i(w) of Q6."""
  problem = problems.q6()
  return problem.curvatures[i] @ (w - problem.centers[i])


def assert_kept(state, theta, cohort=COHORT, models=MODELS):
  """Asserts that the server has what clients sent, and the old of the others."""
  expected = models.copy()
  expected[list(cohort)] = theta
  np.testing.assert_array_equal(state['models'][0], expected)


def finite_difference(function, w, step=1e-6):
  """Returns the gradient of a NumPy function at w by central differences."""
  w = np.asarray(w, np.float64)
  return np.array([
      (function(w + e) - function(w - e)) / (2 * step)
      for e in step * np.eye(w.size)
  ])


def tensor(value):
  """Returns a float64 tensor."""
  return tf.constant(value, tf.float64)
