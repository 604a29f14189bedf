"""Fine-tuned FedAvg: training is FedAvg's, deployment adapts."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg_finetuned
from tests import problems
from tests.baselines import rounds


def _fine_tune(model, weights, data, **hyperparameters):
  fine_tune = fedavg_finetuned.build_fine_tuning(
      model,
      fedavg_finetuned.FedAvgFinetunedHyperparameters(**hyperparameters),
  )
  return fine_tune(rounds.message(weights), (), rounds.tensors(data))


@pytest.mark.parametrize(
    'steps, expected', [(1, 0.576), (5, 0.224122), (0, 0.224122)]
)
def test_losses_after_fine_tuning(steps, expected):
  """Baselines B10, 2.2: S2 at w = -.6, eta_p = .1; 0 steps mean K = 5."""
  problem = problems.s2()
  w = (tf.constant([-0.6], tf.float64),)
  losses = []
  for i, data in enumerate(problem.clients()):
    v = _fine_tune(
        problem.model, w, data, steps=steps, lr=0.1, local_steps=5,
        learning_rate=7.0,
    )
    losses.append(problem.loss(i, v[0]))
  np.testing.assert_allclose(np.mean(losses), expected, rtol=0, atol=1e-6)
  before = [problem.loss(i, [-0.6]) for i in range(2)]
  np.testing.assert_allclose(np.mean(before), 0.8)


def test_client_deploys_its_iterate_of_the_coming_round():
  """Localized FedAvg (perm 3): u_i before aggregation, batches of use 0."""
  process, states, _, _ = rounds.run('fedavg_finetuned')
  fedavg_process, fedavg_states, _, _ = rounds.run('fedavg')
  client = problems.tiny_clients()[3]
  # FedAvg on that client alone: w of the next round is its u.
  alone = fedavg_process.next(fedavg_states[-1], [()], [client])['state']
  actual = rounds.evaluated(process, states[-1], (), client)['loss']
  np.testing.assert_allclose(
      actual, rounds.loss(alone['weights'], client), rtol=1e-12
  )
  unadapted = rounds.loss(fedavg_states[-1]['weights'], client)
  assert abs(actual - unadapted) > 1e-3


def test_last_layer_alone_is_fine_tuned():
  model = problems.tiny_model()
  weights = model.init(tf.constant([1, 2], tf.int64))
  data = problems.tiny_clients()[2]
  v = _fine_tune(
      model, weights, data, layers='last', steps=1, lr=0.5, batch_size=10
  )
  _, gradient = rounds.gradient(weights, data)
  assert tuple(map(type, v)) == tuple(map(type, weights))
  rounds.assert_identical(v[:2], weights[:2])
  rounds.assert_close(
      v[2:], [w - 0.5 * g for w, g in zip(weights[2:], gradient[2:])]
  )
  assert np.max(np.abs(gradient[0])) > 1e-3  # It would have moved.
