"""FedAvg: its fixed points, and how clients are weighted."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tests import problems
from tests.baselines import rounds
from tests.baselines import simulator
from tests.baselines import submodel_rounds as sr
from tff_pers.client_works import local_sgd


def _simulate(problem, client_weighting, num_rounds, **hyperparameters):
  work = local_sgd.build_local_sgd(
      problem.model, fedavg.FedAvgHyperparameters(**hyperparameters),
      client_weighting,
  )
  return simulator.run(work, problem, num_rounds=num_rounds)[0][0]


@pytest.mark.parametrize(
    'client_weighting, distance',
    [('uniform', 0.112953), ('examples', 0.142515)],
)
def test_fixed_point_is_that_of_the_affine_map(client_weighting, distance):
  """Baselines B9, 2.1 (a): Q6, K = 10, eta = .1."""
  problem = problems.q6()
  w = _simulate(
      problem, client_weighting, 100, local_steps=10, learning_rate=0.1,
      batch_size=50,
  )
  p = problem.shares(client_weighting)
  # After K steps u - c = (I - eta A)^K (w - c): the fixed point is H^-1 h.
  h_of = np.stack([
      np.eye(5) - np.linalg.matrix_power(np.eye(5) - 0.1 * a, 10)
      for a in problem.curvatures
  ])
  expected = np.linalg.solve(
      np.einsum('n,nij->ij', p, h_of),
      np.einsum('n,nij,nj->i', p, h_of, problem.centers),
  )
  np.testing.assert_allclose(w, expected, rtol=0, atol=1e-12)
  drift = np.linalg.norm(w - problem.minimizer(p))
  np.testing.assert_allclose(drift, distance, rtol=0, atol=1e-6)


def test_one_local_step_ends_at_the_minimizer():
  """Baselines B9, 2.1 (b): K = 1 has no drift."""
  problem = problems.q6()
  w = _simulate(
      problem, 'uniform', 200, local_steps=1, learning_rate=0.5, batch_size=50
  )
  np.testing.assert_allclose(w, problem.minimizer(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    'client_weighting, expected',
    # Two examples per batch: one and two batches.
    [('uniform', 0.5), ('examples', 0.75), ('batches', 2 / 3)],
)
def test_clients_count_by_the_chosen_weighting(client_weighting, expected):
  """Baselines B8: n = (1, 3), c = (0, 1), one full step to the optimum."""
  problem = problems.Quadratics(
      np.ones([2, 1, 1]), np.array([[0.0], [1.0]]), [1, 3], np.array([0.4])
  )
  w = _simulate(
      problem, client_weighting, 1, local_steps=1, learning_rate=1.0,
      batch_size=2,
  )
  np.testing.assert_allclose(w, [expected], rtol=0, atol=1e-12)


def test_process_equals_simulator_and_ignores_copies_of_all_clients():
  """Baselines B7: every client twice, uniform weights, full participation."""
  problem = problems.q6()
  hyperparameters = fedavg.FedAvgHyperparameters(
      local_steps=3, learning_rate=0.1, batch_size=50, server_learning_rate=0.7
  )
  process = fedavg.build_fedavg(
      problem.model, hyperparameters, client_weighting='uniform'
  )
  clients = problem.clients()
  once, _, _ = rounds.train(process, [range(6)] * 2, clients)
  twice, _, _ = rounds.train(
      process, [range(12)] * 2,
      clients + [dict(c, index=np.int32(c['index'] + 6)) for c in clients],
  )
  rounds.assert_close(twice[-1]['weights'], once[-1]['weights'])
  work = local_sgd.build_local_sgd(problem.model, hyperparameters, 'uniform')
  expected, _ = simulator.run(
      work, problem, num_rounds=2, server_learning_rate=0.7, seed=rounds.SEED
  )
  rounds.assert_close(once[-1]['weights'], expected)


def test_masked_loss_and_rows_are_those_of_numpy():
  """FedHM 2.6."""
  sr.assert_masked_rounds(fedavg.build_fedavg(
      problems.tiny_model(sr.HIDDEN),
      fedavg.FedAvgHyperparameters(**sr.STEP, masked_loss=True),
  ), [slice(None)] * 3)


def test_raises_on_what_does_not_fit():
  model = problems.q6().model
  with pytest.raises(ValueError, match='`masked_loss` must be false for a mod'):
    fedavg.build_fedavg(model, fedavg.FedAvgHyperparameters(masked_loss=True))
  with pytest.raises(TypeError, match='one of tff.learning.optimizers, found S'):
    fedavg.build_averaging(
        model, local_sgd.build_local_sgd(
            model, fedavg.FedAvgHyperparameters(), 'examples'
        ),
        server_optimizer=tf.keras.optimizers.SGD(0.5),
    )
