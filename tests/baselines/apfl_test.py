"""APFL: its reductions, the derivative of alpha, and the order of a step."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import apfl
from baselines import fedavg
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator
from tff_pers.client_works import local_sgd

_BUDGET = dict(local_steps=5, learning_rate=0.1, batch_size=50)


def _q6(num_rounds=60, **hyperparameters):
  """Returns (w, alphas [6], personal models [6, 5]) on Q6."""
  problem = problems.q6()
  values = apfl.ApflHyperparameters(**{**_BUDGET, **hyperparameters})
  weights, states = simulator.run(
      apfl.build_apfl_work(problem.model, values, 'uniform'), problem,
      num_rounds=num_rounds,
      client_state=lambda w: apfl.init_client_state(values, w),
  )
  return weights[0], states['alpha'], states['weights'][0]


@pytest.mark.parametrize('alpha0', [0.0, 0.5, 1.0])
def test_shared_trajectory_for_any_fixed_alpha(alpha0):
  """Baselines B14, 3.3: Q6; alpha = 0 leaves v at v^0."""
  w, alpha, v = _q6(alpha0=alpha0, adaptive=False)
  problem = problems.q6()
  work = local_sgd.build_local_sgd(
      problem.model, fedavg.FedAvgHyperparameters(**_BUDGET), 'uniform'
  )
  expected, _ = simulator.run(work, problem, num_rounds=60)
  np.testing.assert_allclose(w, expected[0], rtol=0, atol=1e-14)
  np.testing.assert_array_equal(alpha, np.full([6], alpha0))
  assert np.any(v) == (alpha0 > 0)  # v^0 = 0.


def test_adaptive_alpha_ends_at_local_models():
  """Baselines B14, 3.3: from .5, K = 5, eta = .1, 60 rounds on Q6."""
  _, alpha, _ = _q6()
  assert alpha.shape == (6,)
  assert np.all((0.99 <= alpha) & (alpha <= 1.0))


def test_alpha_gradient_is_the_derivative_of_the_loss():
  """Baselines B14: d f(vbar) / d alpha by central differences, 1e-9."""
  model, data = problems.tiny_model(), problems.tiny_clients()[4]
  v = model.init(tf.constant([1, 2], tf.int64))
  u = model.init(tf.constant([3, 4], tf.int64))
  batch = rounds.whole_batch(data)
  alpha = tf.constant(0.3, tf.float64)
  _, gradient = model.loss_and_gradient(apfl.mix(alpha, v, u), batch)
  loss = lambda shift: model.batch_loss(apfl.mix(alpha + shift, v, u), batch)
  np.testing.assert_allclose(
      apfl.alpha_gradient(v, u, gradient), (loss(1e-5) - loss(-1e-5)) / 2e-5,
      rtol=0, atol=1e-9,
  )


def test_step_uses_old_values_throughout():
  """Baselines 3.3, the box: scalar client, K = 3, alpha clipped at 1."""
  problem = problems.s2()
  hyperparameters = apfl.ApflHyperparameters(
      learning_rate=0.02, local_steps=3, alpha0=0.4
  )
  a, c = 4.0, -1.0
  u, v, alpha = 0.5, -2.0, 0.4
  for k in range(3):
    vbar = alpha * v + (1 - alpha) * u
    shared_gradient, gradient = a * (u - c), a * (vbar - c)
    new = np.clip(alpha - 0.02 * (v - u) * gradient, 0, 1)
    u, v = u - 0.02 * shared_gradient, v - 0.02 * alpha * gradient
    alpha = new if k == 0 else alpha
  state = apfl.init_client_state(
      hyperparameters, (tf.constant([-2.0], tf.float64),)
  )
  output = apfl.build_apfl_work(
      problem.model, hyperparameters, 'uniform'
  ).update(
      rounds.message((tf.constant([0.5], tf.float64),)), state,
      rounds.tensors(problem.clients()[1]),
  )
  assert output.client_state['alpha'].dtype == tf.float64
  np.testing.assert_allclose(output.update[0], [0.5 - u], rtol=1e-12)
  np.testing.assert_allclose(output.client_state['weights'][0], [v], rtol=1e-12)
  np.testing.assert_allclose(output.client_state['alpha'], alpha, rtol=1e-12)
  assert alpha != 0.4


def test_client_deploys_the_mixture_with_the_current_server_model():
  """Baselines 3.3; a client never seen mixes in the initial model."""
  process, states, client_states, _ = rounds.run('apfl')
  w = states[-1]['weights']
  start = process.initialize_seeded(rounds.SEED)['weights']
  seen = client_states[1]
  never_seen = process.initialize_client(states[-1], 4)
  for state, alpha, v in (
      (seen, seen['alpha'], seen['weights']),
      (never_seen, 0.5, start),
  ):
    rounds.assert_close(
        process.client_model(states[-1], state, 4),
        [alpha * a + (1 - alpha) * b for a, b in zip(v, w)],
    )
  assert seen['alpha'] != 0.5
