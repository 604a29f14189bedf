"""FedAsync (papers/baselines.md 8.1, B23)."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedasync
from baselines import stale_messages
from tests import problems
from tests.baselines import rounds
from tests.simulation import event_runs

_LOCAL = dict(local_steps=5, learning_rate=0.1, batch_size=1)


def _weights_of(tau, **options):
  hyperparameters = stale_messages.StaleTraining(**options)
  return [
      float(stale_messages.discount(hyperparameters, tf.constant(t), tf.float64))
      for t in tau
  ]


def test_weights_of_stale_messages():
  """8.1, Values: alpha = .6, a = .5 and hinge (10, 4)."""
  polynomial = 0.6 * np.array(_weights_of([0, 1, 3, 8]))
  np.testing.assert_allclose(polynomial, [0.6, 0.424264, 0.3, 0.2], atol=1e-6)
  hinge = _weights_of([0, 1, 3, 4, 5, 8], staleness='hinge')
  np.testing.assert_allclose(hinge, [1, 1, 1, 1, 1 / 11, 1 / 41], rtol=1e-12)
  assert _weights_of([0, 9], staleness='constant') == [1, 1]
  assert _weights_of([3], exponent=1.0) == [0.25]


@pytest.mark.parametrize('alpha, staleness, expected, num_updates', [
    (0.6, 'polynomial', 0.111795, 120),
    (0.6, 'constant', 0.29283, 120),
    (0.1, 'constant', 0.210129, 500),
    (0.1, 'polynomial', 0.101995, 500),
])
def test_bias_towards_the_fast_client(alpha, staleness, expected, num_updates):
  """8.1: durations 1 and 4; mean over whole cycles of five versions."""
  problem = event_runs.two_clients()
  process = fedasync.build_fedasync(
      problem.model, fedasync.FedAsyncHyperparameters(
          alpha=alpha, staleness=staleness, **_LOCAL
      ),
  )
  events = event_runs.schedule(
      2, num_updates, delays=event_runs.Durations(1.0, 4.0),
      redispatch='same_client',
  )
  trainer = event_runs.trainer(process, problem.clients(), events)
  found = [
      float(state['weights'][0][0])
      for state in event_runs.updates(trainer, num_updates)
  ]
  np.testing.assert_allclose(np.mean(found[-10:]), expected, atol=1e-6)


def test_alone_with_alpha_1_it_is_local_sgd():
  problem = problems.s2(start=0.3)
  process = fedasync.build_fedasync(
      problem.model, fedasync.FedAsyncHyperparameters(alpha=1.0, **_LOCAL)
  )
  events = event_runs.schedule(2, 4, in_flight=1)
  trainer = event_runs.trainer(process, problem.clients(), events)
  w = 0.3
  for number, state in enumerate(event_runs.updates(trainer, 4)):
    i = events.clients_of(number)[0]
    a, c = problem.curvatures[i, 0, 0], problem.centers[i, 0]
    w = c + (1 - 0.1 * a) ** 5 * (w - c)
    np.testing.assert_allclose(state['weights'][0], [w], rtol=1e-12)


def test_a_round_mixes_with_the_mean_model_and_is_one_update():
  problem = problems.s2(start=0.3)
  process = fedasync.build_fedasync(
      problem.model, fedasync.FedAsyncHyperparameters(rho=0.5, **_LOCAL)
  )
  states, _, _ = rounds.train(process, [(0, 1), (1, 0)], problem.clients())
  w = 0.3
  for number, state in enumerate(states, start=1):
    models = []
    for a, c in ((1, 1), (4, -1)):
      u = w
      for _ in range(5):
        u -= 0.1 * (a * (u - c) + 0.5 * (u - w))
      models.append(u)
    w = 0.4 * w + 0.6 * np.mean(models)
    np.testing.assert_allclose(state['weights'][0], [w], rtol=1e-12)
    assert state['version'] == number
