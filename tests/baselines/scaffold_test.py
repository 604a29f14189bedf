"""Scaffold (papers/baselines.md 5, B20)."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from baselines import scaffold
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.data import client_data

_Q6 = dict(local_steps=10, batch_size=50, learning_rate=0.1)
_ALL = tuple(range(6))


@functools.lru_cache(maxsize=None)
def _on_q6(num_clients=6, **options):
  """Returns the process; a batch of 50 holds all examples of a client."""
  return scaffold.build_scaffold(
      problems.q6().model,
      scaffold.ScaffoldHyperparameters(**{**_Q6, **options}),
      num_clients=num_clients,
  )


def _distances(states):
  optimum = problems.q6().minimizer()
  return [np.linalg.norm(state['weights'][0] - optimum) for state in states]


def _variates(client_states):
  """Returns c_i of all clients; those never seen have zeros."""
  return [
      client_states.get(i, (np.zeros(5),))[0] for i in range(6)
  ]


@functools.lru_cache(maxsize=None)
def _pairs(num_rounds):
  rng = np.random.default_rng(0)
  return [
      tuple(map(int, rng.choice(6, 2, replace=False)))
      for _ in range(num_rounds)
  ]


@pytest.mark.parametrize('option, expected', [
    ('1', {1: 0.343696, 10: 1e-6, 50: 0.0}),
    ('2', {1: 0.343696, 10: 1.82e-4, 50: 0.0}),
])
def test_distances_with_all_clients(option, expected):
  process = _on_q6(option=option)
  states, _, _ = rounds.train(process, [_ALL] * 50, problems.q6().clients())
  found = _distances(states)
  for round_num, distance in expected.items():
    np.testing.assert_allclose(
        found[round_num - 1], distance, rtol=0, atol=1e-6
    )


def test_cohorts_of_two_converge_and_keep_the_invariant():
  """c is the mean of the variates of all clients, after every round."""
  process, clients = _on_q6(), problems.q6().clients()
  state, own, found = process.initialize_seeded(0), {}, []
  for cohort in _pairs(100):
    before = {
        i: own.get(i, process.initialize_client(state, i)) for i in cohort
    }
    output = process.next(
        state, list(before.values()), [clients[i] for i in cohort]
    )
    state = output['state']
    own.update(zip(cohort, output['client_states']))
    found.append(state)
    np.testing.assert_allclose(
        state['variate'][0], np.mean(_variates(own), axis=0), rtol=0, atol=1e-14
    )
  distances = _distances(found)
  for round_num, distance in {
      1: 0.871734, 10: 0.285893, 50: 1.60e-4, 100: 0.0
  }.items():
    np.testing.assert_allclose(
        distances[round_num - 1], distance, rtol=0, atol=1e-6
    )


def _fedavg(cohorts, **options):
  q6 = problems.q6()
  process = fedavg.build_fedavg(
      q6.model, fedavg.FedAvgHyperparameters(**{**_Q6, **options}),
      client_weighting='uniform',
  )
  return rounds.train(process, cohorts, q6.clients())[0]


def test_frozen_variates_are_fedavg_with_its_floor():
  """Baselines B1."""
  process, clients = _on_q6(), problems.q6().clients()
  state, cohorts = process.initialize_seeded(rounds.SEED), [_ALL] * 60
  zeros = process.initialize_client(state, 0)
  states = []
  for cohort in cohorts:
    output = process.next(
        state, [zeros] * 6, [clients[i] for i in cohort]
    )
    state = type(state)(output['state'], variate=zeros)
    states.append(state)
  for state, expected in zip(states, _fedavg(cohorts)):
    rounds.assert_close(state['weights'], expected['weights'], atol=1e-15)
  np.testing.assert_allclose(
      _distances(states)[-1], 0.112953, rtol=0, atol=1e-6
  )


def test_options_agree_for_one_step_of_all_examples():
  """Also with weight decay, clipping and a schedule: both renew by d."""
  more = dict(
      local_steps=1, weight_decay=0.1, clip_norm=0.5, learning_rate_rounds='1',
      learning_rate_schedule='steps',
  )
  found = [
      rounds.train(
          _on_q6(option=option, **more), _pairs(5), problems.q6().clients()
      )[:2]
      for option in '12'
  ]
  rounds.assert_close(*found, atol=1e-12)


def test_client_work_follows_the_box():
  """Two rounds of a client; 3 examples in batches of 2 make 4 steps."""
  model = problems.tiny_model()
  process = scaffold.build_scaffold(
      model,
      scaffold.ScaffoldHyperparameters(
          local_steps=0, local_epochs=2, batch_size=2, learning_rate=0.1,
          learning_rate_schedule='exponential', learning_rate_rounds='1',
      ),
      num_clients=5,
  )
  clients = problems.tiny_clients()
  states, own, _ = rounds.train(process, [(0, 1)], clients)
  state, c_i = states[0], own[0]
  after = process.next(state, [c_i], [clients[0]])
  data, eta = rounds.tensors(clients[0]), 0.1 * 0.1
  x, c = state['weights'], state['variate']
  message = rounds.message((), state['seed'], state['round'])

  def step(y, batch):
    _, gradient = model.loss_and_gradient(y, batch)
    return tf.nest.map_structure(
        lambda w, g, own, all_: w - eta * (g - own + all_), y, gradient, c_i, c
    )

  y = client_data.fold_batches(
      data, step, tf.nest.map_structure(tf.constant, x), num_epochs=2,
      batch_size=2, seed=client_work.key(message, data),
  )
  renewed = tf.nest.map_structure(
      lambda own, all_, a, b: own - all_ + (a - b) / (4 * eta), c_i, c, x, y
  )
  rounds.assert_close(after['state']['weights'], y)
  rounds.assert_close(after['client_states'][0], renewed)
  rounds.assert_close(
      after['state']['variate'],
      tf.nest.map_structure(
          lambda all_, new, own: all_ + (new - own) / 5, c, renewed, c_i
      ),
  )


def test_momentum_is_for_option_1():
  with pytest.raises(ValueError, match='`momentum` must be 0 with option=2'):
    scaffold.ScaffoldHyperparameters(momentum=0.5)
  values = scaffold.ScaffoldHyperparameters(momentum=0.5, option='1')
  assert local_step.build(values).momentum == 0.5
