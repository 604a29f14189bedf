"""FedBuff (papers/baselines.md 8.2, B1, B23)."""

import functools

import numpy as np
import pytest

from baselines import fedavg
from baselines import fedbuff
from tests import problems
from tests.baselines import rounds
from tests.simulation import event_runs

_LOCAL = dict(local_steps=5, learning_rate=0.1, batch_size=1)


@functools.lru_cache(maxsize=None)
def _three_clients():
  """c = 0, 1, 5, start 0.5 (8.2, Tests)."""
  return problems.Quadratics(
      np.ones([3, 1, 1]), np.array([[0.0], [1.0], [5.0]]), [1, 2, 3],
      np.array([0.5]),
  )


def _fedavg(client_weighting):
  return fedavg.build_fedavg(
      _three_clients().model, fedavg.FedAvgHyperparameters(**_LOCAL),
      client_weighting=client_weighting,
  )


@pytest.mark.parametrize('staleness', ['polynomial', 'constant'])
def test_with_equal_durations_and_a_full_buffer_it_is_fedavg(staleness):
  """B1: the messages of a time are applied before any client is sent."""
  problem = _three_clients()
  process = fedbuff.build_fedbuff(
      problem.model, fedbuff.FedBuffHyperparameters(
          buffer_size=3, staleness=staleness, **_LOCAL
      ),
  )
  events = event_runs.schedule(
      3, 10, delays=event_runs.Durations(2.0, 2.0, 2.0), messages_per_update=3
  )
  trainer = event_runs.trainer(process, problem.clients(), events)
  found = [s['weights'] for s in event_runs.updates(trainer, 10)]
  expected, _, _ = rounds.train(
      _fedavg('uniform'), [(0, 1, 2)] * 10, problem.clients()
  )
  rounds.assert_close(found, [state['weights'] for state in expected])


@pytest.mark.parametrize(
    'client_weighting', ['examples', 'uniform', 'batches']
)
def test_a_round_with_a_full_buffer_is_one_of_fedavg(client_weighting):
  """B1, divided by the sum of the weights, not by their number."""
  problem = _three_clients()
  process = fedbuff.build_fedbuff(
      problem.model, fedbuff.FedBuffHyperparameters(
          buffer_size=2, normalize='weights', **_LOCAL
      ), client_weighting=client_weighting, mean_weight=1.7,
  )
  cohorts = [(0, 2), (1, 2), (0, 1)]
  found, _, _ = rounds.train(process, cohorts, problem.clients())
  expected, _, _ = rounds.train(
      _fedavg(client_weighting), cohorts, problem.clients()
  )
  rounds.assert_close(
      [state['weights'] for state in found],
      [state['weights'] for state in expected],
  )
  assert [int(state['version']) for state in found] == [1, 2, 3]


def _at(process, version, sent_at, delta):
  """Returns (server state of a version, the answer of a client with delta)."""
  state = process.initialize_seeded(0)
  state['version'] = np.int32(version)
  problem = _three_clients()
  message = process.parts.dispatch(state, [0])
  message[0]['version'] = np.int32(sent_at)
  [answer] = process.parts.work(message, [()], problem.clients()[:1])
  answer['update']['weights'] = (np.array([float(delta)]),)
  return state, answer


@pytest.mark.parametrize('normalize, step', [
    ('buffer', 1.304738), ('weights', 1.773459),
])
def test_step_of_three_stale_updates(normalize, step):
  """8.2, Values: deltas 1, 2, 3 with tau 0, 1, 3."""
  process = fedbuff.build_fedbuff(
      _three_clients().model, fedbuff.FedBuffHyperparameters(
          buffer_size=3, normalize=normalize, **_LOCAL
      ),
  )
  state, _ = _at(process, 5, 5, 0.0)
  for number, (delta, tau) in enumerate([(1, 0), (2, 1), (3, 3)], start=1):
    assert state['version'] == 5  # Arrivals in the buffer do not raise it.
    _, answer = _at(process, 5, 5 - tau, delta)
    aggregated = process.parts.aggregate(state, [answer])
    state = process.parts.apply(state, aggregated)['state']
    assert state['count'] == number % 3 and state['round'] == number
  np.testing.assert_allclose(0.5 - state['weights'][0], [step], atol=1e-6)
  assert state['version'] == 6 and state['buffer_weight'] == 0
  assert not np.any(state['buffer'][0])


def test_examples_are_relative_to_their_mean():
  """8.2: they multiply s by n_i / mean n; the divisor stays B."""
  problem = _three_clients()
  process = fedbuff.build_fedbuff(
      problem.model,
      fedbuff.FedBuffHyperparameters(
          buffer_size=2, local_steps=1, learning_rate=1.0, batch_size=8
      ), client_weighting='examples', mean_weight=2.0,
  )
  [state], _, _ = rounds.train(process, [(0, 2)], problem.clients())
  # Full steps: w - u = w - c, n = 1 and 3.
  step = (0.5 * (0.5 - 0.0) + 1.5 * (0.5 - 5.0)) / 2
  np.testing.assert_allclose(state['weights'][0], [0.5 - step], rtol=1e-12)


@pytest.mark.parametrize('name, expected', [
    ('uniform', 1.0), ('examples', 2.0), ('batches', 4 / 3)
])
def test_mean_weight_of_a_task(name, expected):
  task = problems.quadratic_task(_three_clients())
  assert fedbuff.mean_weight(task, name, 2) == expected


@pytest.mark.parametrize('buffer_size, staleness, expected', [
    (2, 'polynomial', 0.1164), (1, 'constant', 0.1441),
    (1, 'polynomial', 0.0782), (2, 'constant', 0.1843), (5, 'constant', 0.2),
    (5, 'polynomial', 0.2),
])
def test_bias_towards_the_fast_client(buffer_size, staleness, expected):
  """8.2: durations 1 and 4; mean over versions of whole cycles."""
  problem = event_runs.two_clients()
  process = fedbuff.build_fedbuff(
      problem.model, fedbuff.FedBuffHyperparameters(
          buffer_size=buffer_size, staleness=staleness, **_LOCAL
      ),
  )
  number = {1: 60, 2: 40, 5: 30}[buffer_size]
  events = event_runs.schedule(
      2, number, delays=event_runs.Durations(1.0, 4.0),
      redispatch='same_client', messages_per_update=buffer_size,
  )
  trainer = event_runs.trainer(process, problem.clients(), events)
  found = [
      float(state['weights'][0][0])
      for state in event_runs.updates(trainer, number)
  ]
  np.testing.assert_allclose(np.mean(found[-10:]), expected, atol=6e-5)
