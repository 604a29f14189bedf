"""MAML and FOMAML: fixed points, Per-FedAvg, and what clients deploy."""

import numpy as np
import pytest

from baselines import maml as baselines_maml
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_update
from tff_pers.client_works import maml
from tff_pers.core import random
from tff_pers.numerics import thetas


@pytest.mark.parametrize('name, expected', [('maml', 0.6), ('fomaml', 0.0)])
def test_fixed_point_after_one_adaptation_step(name, expected):
  """Baselines 2.7: S2, gamma = .2."""
  problem = problems.s2(start=0.3)
  if name == 'maml':
    work = maml.build_maml_work(
        problem.model, num_adaptation_steps=1, gamma=0.2, batch_size=1
    )
  else:
    work = local_update.build_local_update(
        problem.model, gamma=0.2, batch_size=1,
        theta=thetas.LastGradient(2).theta,
    )
  w = simulator.run(
      work, problem, num_rounds=150, server_learning_rate=0.3
  )[0][0]
  np.testing.assert_allclose(w, [expected], rtol=0, atol=1e-7)


def test_rounds_are_those_of_numpy():
  """FOMAML sends A (I - gamma A)^J (w - c); clients count by examples."""
  problem = problems.q6()
  process = baselines_maml.build_fomaml(
      problem.model, baselines_maml.FomamlHyperparameters(
          learning_rate=0.1, adaptation_steps=3, batch_size=50,
          server_learning_rate=0.3,
      ),
  )
  states, _, _ = rounds.train(process, [range(6)] * 2, problem.clients())
  w = problem.start
  for state in states:
    sent = [
        a @ np.linalg.matrix_power(np.eye(5) - 0.1 * a, 3) @ (w - c)
        for a, c in zip(problem.curvatures, problem.centers)
    ]
    w = w - 0.3 * problem.shares('examples') @ sent
    np.testing.assert_allclose(state['weights'][0], w, rtol=0, atol=1e-12)


def test_one_step_is_perfedavg_with_one_step():
  """Baselines B4: full batches, so that b'' = b; eta = beta."""
  process, states, _, _ = rounds.run(
      'maml', learning_rate=0.5, adaptation_steps=1, server_learning_rate=0.3,
      batch_size=7,
  )
  other, expected, _, _ = rounds.run(
      'perfedavg', variant='exact', a=0.5, learning_rate=0.3, local_steps=1,
      batch_size=7,
  )
  rounds.assert_close(
      [state['weights'] for state in states],
      [state['weights'] for state in expected],
  )
  # The same adaptation, too.
  data = problems.tiny_clients()
  np.testing.assert_allclose(*(
      rounds.evaluated(own, after[-1], (), data[3], data[4])['loss']
      for own, after in ((process, states), (other, expected))
  ), rtol=1e-12)


def test_clients_deploy_after_as_many_steps_as_asked():
  """Others see the model before adaptation."""
  process, states, _, _ = rounds.run('fomaml', adaptation_steps=4, steps=2)
  data = problems.tiny_clients()[3]
  found = rounds.evaluated(process, states[-1], (), data)
  adapted, _ = local_sgd.train(
      problems.tiny_model(), rounds.tensors(states[-1]['weights']),
      rounds.tensors(data), learning_rate=0.1, num_steps=2,
      batch_size=2, seed=random.key(rounds.SEED, 3, 3, 0),
  )
  np.testing.assert_allclose(
      found['loss'], rounds.loss(adapted, data), rtol=1e-12
  )
  rounds.assert_identical(
      process.client_model(states[-1], (), 3), states[-1]['weights']
  )
