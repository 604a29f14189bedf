"""Ditto: its reductions, its fixed points, and what it pulls towards."""

import numpy as np
import tensorflow as tf

from baselines import ditto
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator

_BUDGET = dict(local_steps=5, learning_rate=0.1, batch_size=50)


def test_closed_form():
  """Baselines B15, 3.4: Q6, K = 5, eta = .1.

  Both lines contract by 0.95^5 per round or faster: both have converged after 300 rounds.
  """
  problem = problems.q6()
  distances = []
  for pull in (0.0, 0.1, 1.0, 5.0):
    values = ditto.DittoHyperparameters(lambda_=pull, **_BUDGET)
    w, v = simulator.run(
        ditto.build_ditto_work(problem.model, values, 'uniform'), problem,
        num_rounds=300, client_state=lambda w: w,
    )
    w, v = w[0], v[0]
    for a, c, v_i in zip(problem.curvatures, problem.centers, v):
      expected = np.linalg.solve(a + pull * np.eye(5), a @ c + pull * w)
      np.testing.assert_allclose(v_i, expected, rtol=0, atol=1e-13)
    distances.append(np.mean(np.linalg.norm(v - w, axis=1)))
  np.testing.assert_allclose(
      distances, [1.879793, 1.729207, 1.045893, 0.395239], rtol=0, atol=1e-6
  )


def test_pull_is_towards_the_received_model():
  """Baselines 3.4, the box: scalar client, K = 3, K_p = 2."""
  a, c, w, v = 4.0, -1.0, 0.5, -2.0
  hyperparameters = ditto.DittoHyperparameters(
      learning_rate=0.1, local_steps=3, lambda_=0.7, personal_steps=2,
      personal_learning_rate=0.05,
  )
  output = ditto.build_ditto_work(
      problems.s2().model, hyperparameters, 'uniform'
  ).update(
      rounds.message((tf.constant([w], tf.float64),)),
      (tf.constant([v], tf.float64),),
      rounds.tensors(problems.s2().clients()[1]),
  )
  u, losses = w, []
  for _ in range(3):
    u -= 0.1 * a * (u - c)
  for _ in range(2):
    losses.append(a * (v - c) ** 2 / 2)
    v -= 0.05 * (a * (v - c) + 0.7 * (v - w))
  np.testing.assert_allclose(output.update[0], [w - u], rtol=1e-12)
  np.testing.assert_allclose(output.client_state[0], [v], rtol=1e-12)
  np.testing.assert_allclose(output.loss, np.mean(losses), rtol=1e-12)


def test_posthoc_is_fedavg_with_five_personal_epochs_from_its_model():
  """Baselines 3.4: stateless training; v starts from w and is pulled to it."""
  problem = problems.s2(start=0.4)
  process = ditto.build_ditto(
      problem.model,
      ditto.DittoHyperparameters(
          mode='posthoc', local_steps=2, learning_rate=0.05, lambda_=0.3,
          personal_learning_rate=0.02,
      ),
      client_weighting='uniform',
  )
  assert not process.is_stateful
  states, _, _ = rounds.train(process, [[0, 1]], problem.clients())
  w = states[-1]['weights'][0][0]
  u = [0.4, 0.4]
  for _ in range(2):
    u = [x - 0.05 * a * (x - c) for x, a, c in zip(u, (1, 4), (1, -1))]
  np.testing.assert_allclose(w, np.mean(u), rtol=1e-12)
  result = rounds.evaluated(process, states[-1], (), problem.clients()[1])
  v = w
  for _ in range(5):  # One batch per epoch.
    v -= 0.02 * (4 * (v + 1) + 0.3 * (v - w))
  np.testing.assert_allclose(result['loss'], 2 * (v + 1) ** 2, rtol=1e-12)
