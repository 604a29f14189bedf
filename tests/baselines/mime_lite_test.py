"""Mime Lite (papers/baselines.md 2.6)."""

import collections

import numpy as np
import tensorflow as tf

from baselines import mime_lite
from tests import problems
from tests.baselines import rounds


def test_one_step_of_all_is_one_machine_with_momentum():
  """m <- (1 - beta) G + beta m, and the step takes the m that comes of it.

  Gradients count by examples in m, whatever the weights of the models.
  """
  problem = problems.q6()
  process = mime_lite.build_mime_lite(
      problem.model, mime_lite.MimeLiteHyperparameters(
          learning_rate=0.2, local_steps=1, batch_size=50
      ), client_weighting='uniform',
  )
  states, _, _ = rounds.train(process, [range(6)] * 50, problem.clients())
  w, m = problem.start, np.zeros(5)
  for state in states:
    gradients = np.einsum(
        'nij,nj->ni', problem.curvatures, w - problem.centers
    )
    w = w - 0.2 * (
        0.1 * problem.shares('uniform') @ gradients + 0.9 * m
    )
    m = 0.1 * problem.shares('examples') @ gradients + 0.9 * m
    np.testing.assert_allclose(state['weights'][0], w, rtol=0, atol=1e-12)
    np.testing.assert_allclose(state['momentum'][0], m, rtol=0, atol=1e-12)


def test_clients_use_momentum_and_do_not_change_it():
  """Three steps of one client by hand; the gradient is that at w."""
  problem = problems.q6()
  a, c = problem.curvatures[2], problem.centers[2]
  work = mime_lite.build_mime_lite_work(
      problem.model, mime_lite.MimeLiteHyperparameters(
          learning_rate=0.1, local_steps=3, batch_size=3, beta=0.6
      ), 'uniform',
  )
  w, m = np.arange(5.0), np.linspace(-1, 1, 5)
  message = collections.OrderedDict(
      rounds.message((tf.constant(w),)), momentum=(tf.constant(m),)
  )
  output = work.update(message, (), rounds.tensors(problem.clients()[2]))
  u = w
  for _ in range(3):
    u = u - 0.1 * (0.4 * a @ (u - c) + 0.6 * m)
  np.testing.assert_allclose(output.update['weights'][0], w - u, rtol=1e-12)
  np.testing.assert_allclose(
      output.update['momentum'][0], a @ (w - c), rtol=1e-12
  )
  np.testing.assert_array_equal(output.weight, [1, problem.num_examples[2]])
