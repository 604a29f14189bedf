"""Local training: its optimum, its start, and what clients deploy."""

import numpy as np
import tensorflow as tf

from baselines import local_only
from tests import problems
from tests.baselines import rounds


def test_state_ends_at_the_own_minimizer():
  """Baselines 2.3: v_i -> argmin f_i."""
  problem = problems.q6()
  work = local_only.build_local_work(
      problem.model,
      local_only.LocalOnlyHyperparameters(
          local_steps=60, learning_rate=0.8, batch_size=5
      ),
  )
  # Slowest direction: (1 - .8 * .5)^60 = 5e-14.
  for i, data in enumerate(problem.clients()[:2]):
    output = work.update(
        rounds.message(()), (tf.zeros([5], tf.float64),), rounds.tensors(data)
    )
    np.testing.assert_allclose(
        output.client_state[0], problem.centers[i], rtol=0, atol=1e-12
    )


def test_clients_start_at_the_initial_model_of_every_method():
  process, states, _, _ = rounds.run('local_only')
  expected = process.deployed.initial_weights(rounds.SEED)
  rounds.assert_identical(process.initialize_client(states[-1], 4), expected)
  start = rounds.run('fedavg')[0].initialize_seeded(rounds.SEED)
  rounds.assert_identical(start['weights'], expected)


def test_client_deploys_its_state():
  process, states, client_states, _ = rounds.run('local_only')
  client = problems.tiny_clients()[1]
  metrics = rounds.evaluated(process, states[-1], client_states[1], client)
  weights = process.client_model(states[-1], client_states[1], 1)
  rounds.assert_identical(weights, client_states[1])
  np.testing.assert_allclose(
      metrics['loss'], rounds.loss(weights, client), rtol=1e-12
  )
