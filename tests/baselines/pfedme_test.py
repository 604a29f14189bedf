"""pFedMe: fixed points, the limits of lam, and what is deployed."""

from absl import logging
import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from baselines import pfedme
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator
from tff_pers.client_works import local_sgd

_A, _C = np.array([1.0, 4.0]), np.array([1.0, -1.0])  # S2.


def _exact(lam, tolerance=1e-9):
  """Hyperparameters that solve S2's inner problem up to `tolerance`."""
  # Contraction |1 - eta_p (lam + a)| is the same for a = 1 and a = 4.
  inner_lr = 1 / (lam + 2.5)
  steps = int(np.ceil(np.log(tolerance) / np.log(1.5 * inner_lr)))
  return dict(lam=lam, inner_lr=inner_lr, inner_steps=steps)


def _s2(num_rounds, **values):
  problem = problems.s2()
  work = pfedme.build_moreau_sgd(
      problem.model, pfedme.PFedMeHyperparameters(**values), 'uniform'
  )
  return simulator.run(work, problem, num_rounds=num_rounds)[0][0][0]


@pytest.mark.parametrize(
    'lam, expected', [(1.0, -0.230769), (15.0, -0.542169), (1e3, -0.599042)]
)
def test_fixed_point_of_one_local_step(lam, expected):
  """Baselines B13, 3.2: exact prox, the mean with weights lam a / (lam + a)."""
  weights = lam * _A / (lam + _A)
  mean = np.average(_C, weights=weights)
  np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-6)
  w = _s2(80, learning_rate=0.3, local_steps=1, **_exact(lam))
  np.testing.assert_allclose(w, expected, rtol=0, atol=1e-6)


def test_fixed_point_of_twenty_local_steps():
  """Baselines B13, 3.2: K = 20, eta = .01, lam = 15."""
  w = _s2(120, learning_rate=0.01, local_steps=20, **_exact(15.0))
  np.testing.assert_allclose(w, -0.467867, rtol=0, atol=1e-6)


def test_weak_pull_gives_the_mean_of_centers_and_local_models():
  """Baselines B13, 3.2: lam -> 0."""
  lam = 1e-4
  values = _exact(lam, 1e-6)
  # Weights lam a / (lam + a) = lam (1 - O(lam / a)): eta lam = .5 halves.
  w = _s2(60, learning_rate=0.5 / lam, local_steps=1, **values)
  np.testing.assert_allclose(w, 0.0, rtol=0, atol=lam)
  recompute = pfedme.build_recompute(
      problems.s2().model,
      pfedme.PFedMeHyperparameters(local_steps=1, **values),
  )
  message = rounds.message((tf.constant([w]),))
  for i, data in enumerate(problems.s2().clients()):
    theta = recompute(message, (), rounds.tensors(data))[0]
    np.testing.assert_allclose(theta, _C[i:i + 1], rtol=0, atol=2 * lam)


def test_strong_pull_tends_to_fedavg_at_rate_one_over_lam():
  """Baselines B5, 3.2: gap to FedAvg's fixed point, K = 5, eta = .05."""
  problem = problems.s2()
  budget = dict(learning_rate=0.05, local_steps=5)
  work = local_sgd.build_local_sgd(
      problem.model, fedavg.FedAvgHyperparameters(**budget), 'uniform'
  )
  limit = simulator.run(work, problem, num_rounds=50)[0][0][0]
  gaps = [
      abs(_s2(50, **budget, **_exact(lam, 1e-12)) - limit)
      for lam in (1e2, 1e3, 1e4)
  ]
  np.testing.assert_allclose(gaps, [5.754e-3, 5.787e-4, 5.790e-5], rtol=2e-4)


def test_default_inner_steps_leave_a_small_error():
  """Baselines B13, 3.2: (1 - .05 (15 + a))^5 = 3.2e-4 for a = 1."""
  problem = problems.s2()
  u = (tf.constant([3.0], tf.float64),)
  theta, _ = pfedme.prox_steps(
      problem.model, pfedme.PFedMeHyperparameters(), u, u,
      rounds.whole_batch(problem.clients()[0]),
  )
  prox = (1.0 * 1.0 + 15.0 * 3.0) / 16.0
  error = (theta[0][0] - prox) / (3.0 - prox)
  np.testing.assert_allclose(error, (1 - 0.05 * 16) ** 5, rtol=1e-9)
  np.testing.assert_allclose(error, 3.2e-4, rtol=1e-9)


@pytest.mark.parametrize('warm_start', [False, True])
def test_client_work_follows_the_box(warm_start):
  """Baselines 3.2, step 2, and the stored theta; scalar, K = 3, Kin = 2."""
  problem = problems.s2()
  work = pfedme.build_moreau_sgd(
      problem.model,
      pfedme.PFedMeHyperparameters(
          learning_rate=0.02, local_steps=3, inner_steps=2, inner_lr=0.1,
          lam=2.0, warm_start=warm_start, deploy='stored',
      ),
      'uniform',
  )
  u = theta = 0.7
  for _ in range(3):
    if not warm_start:
      theta = u
    for _ in range(2):
      theta -= 0.1 * (4.0 * (theta + 1.0) + 2.0 * (theta - u))
    u -= 0.02 * 2.0 * (u - theta)
  w = (tf.constant([0.7], tf.float64),)
  output = work.update(
      rounds.message(w), (tf.zeros([1], tf.float64),),
      rounds.tensors(problem.clients()[1]),
  )
  np.testing.assert_allclose(output.update[0], [0.7 - u], rtol=1e-10)
  np.testing.assert_allclose(output.client_state[0], [theta], rtol=1e-10)


def test_process_equals_simulator_and_deploys_theta():
  """The server mixes with beta; theta comes from a round from the new w."""
  problem = problems.q6()
  hyperparameters = pfedme.PFedMeHyperparameters(local_steps=4, beta=0.5)
  process = pfedme.build_pfedme(problem.model, hyperparameters)
  states, _, _ = rounds.train(process, [range(6)] * 2, problem.clients())
  work = pfedme.build_moreau_sgd(problem.model, hyperparameters, 'examples')
  expected, _ = simulator.run(
      work, problem, num_rounds=2, server_learning_rate=0.5, seed=rounds.SEED
  )
  rounds.assert_close(states[-1]['weights'], expected)
  data = problem.clients()[2]
  loss = rounds.evaluated(process, states[-1], (), data)['loss']
  u = theta = expected[0]
  for _ in range(4):
    theta = u
    for _ in range(5):
      gradient = problem.curvatures[2] @ (theta - problem.centers[2])
      theta = theta - 0.05 * (gradient + 15.0 * (theta - u))
    u = u - 0.05 * 15.0 * (u - theta)
  np.testing.assert_allclose(loss, problem.loss(2, theta), rtol=1e-10)
  assert loss < 0.95 * problem.loss(2, expected[0])


def test_stored_theta_is_client_state_and_changes_nothing_else():
  process, states, client_states, _ = rounds.run('pfedme', deploy='stored')
  _, expected, _, _ = rounds.run('pfedme')
  rounds.assert_identical(states, expected)
  deployed = process.client_model(states[-1], client_states[0], 0)
  rounds.assert_identical(deployed, client_states[0])
  never_seen = process.initialize_client(states[-1], 4)
  start = process.initialize_seeded(rounds.SEED)
  rounds.assert_identical(never_seen, start['weights'])


@pytest.mark.parametrize('learning_rate, warnings', [(0.05, 0), (0.1, 1)])
def test_warns_when_u_oversteps_theta(monkeypatch, learning_rate, warnings):
  """Baselines 3.2: eta lam > 1 is allowed, with a warning."""
  said = []
  monkeypatch.setattr(logging, 'warning', lambda *args: said.append(args))
  pfedme.build_pfedme(
      problems.s2().model,
      pfedme.PFedMeHyperparameters(learning_rate=learning_rate, lam=15.0),
  )
  assert len(said) == warnings
