"""IFCA: its trajectories, its collapse, and how it starts."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import ifca
from tests import problems
from tests.baselines import rounds
from tff_pers.models import mixtures

_CENTERS = np.array([-0.1, 0, 0.1, 9.9, 10, 10.1])[:, None]
_SCALARS = problems.Quadratics(
    np.ones([6, 1, 1]), _CENTERS, [1] * 6, np.zeros(1)
)


def _build(average):
  steps = dict(local_steps=1) if average == 'model' else {}
  return ifca.build_ifca(
      _SCALARS.model,
      ifca.IfcaHyperparameters(learning_rate=0.5, average=average, **steps),
      num_models=2, client_weighting='uniform',
  )


@pytest.fixture(scope='module', name='processes')
def _processes():
  return {average: _build(average) for average in ('model', 'gradient')}


def _models(process, start, num_rounds, clients=None):
  """Returns the two scalars after rounds with everybody."""
  clients = _SCALARS.clients() if clients is None else clients
  state = process.initialize_seeded(0)
  state['models'] = (np.array(start, np.float64)[:, None],)
  for _ in range(num_rounds):
    state = process.next(state, [()] * len(clients), clients)['state']
  return state['models'][0][:, 0]


@pytest.mark.parametrize(
    'average, expected',
    [('model', [0.03125, 9.96875]), ('gradient', [0.237305, 9.762695])],
)
def test_trajectory_of_six_scalar_clients(processes, average, expected):
  """Baselines B18, 4.2: from (1, 9), five rounds; gradients by the cohort."""
  found = _models(processes[average], (1, 9), 5)
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize('start', [(4, 4.5), (-3, -2)])
@pytest.mark.parametrize('average', ['model', 'gradient'])
def test_close_starts_separate(processes, average, start):
  """Baselines B18: to (0, 10), at rate 1/2 or 3/4 per round once apart."""
  found = _models(processes[average], start, 60)
  np.testing.assert_allclose(found, [0, 10], rtol=0, atol=1e-5)


def test_a_far_start_loses_a_model_for_ever(processes):
  """Baselines B18: from (30, 20) one model takes all; the other stays."""
  found = _models(processes['model'], (30, 20), 40)
  assert found[0] == 30
  np.testing.assert_allclose(found[1], 5, rtol=0, atol=1e-9)


def test_choice_is_by_training_data_and_reported():
  """Baselines 4.2, errors: what a client deploys depends on `adapt` alone.

  No client is between two models: rounding, about 1e-16, never chooses.
  """
  process, states, _, _ = rounds.run('ifca')
  clients = problems.tiny_clients()
  both = [dict(adapt=clients[i], test=clients[0]) for i in range(5)]
  results = process.evaluate(states[-1], [()] * 5, both)
  for client, result in zip(clients, results):
    losses = [
        rounds.loss(mixtures.select(states[-1]['models'], j), client)
        for j in range(2)
    ]
    assert np.abs(losses[0] - losses[1]) > 1e-3
    np.testing.assert_array_equal(
        result['router'], np.eye(2)[np.argmin(losses)]
    )


def test_ties_go_to_the_smallest_index():
  """Baselines 4.2, step 1."""
  model = problems.tiny_model()
  models = tf.nest.map_structure(
      lambda leaf: tf.stack([leaf] * 3), model.initial_weights(1)
  )
  data = rounds.tensors(problems.tiny_clients()[1])
  assert ifca.choose(model, models, 3, data)[0] == 0


def test_one_hot_weights_and_values_are_sent():
  """Baselines 4.2: the server needs sums alone; n_i in the chosen place."""
  model = problems.tiny_model()
  models = mixtures.initial_models(model, 3, 1)
  data = rounds.tensors(problems.tiny_clients()[2])
  message = collections.OrderedDict(
      seed=tf.constant(0, tf.int64), round=tf.constant(0), models=models
  )
  work = ifca.build_ifca_work(
      model, ifca.IfcaHyperparameters(batch_size=2), 3, 'examples'
  )
  output = work.update(message, (), data)
  j = int(ifca.choose(model, models, 3, data)[0])
  others = [c for c in range(3) if c != j]
  np.testing.assert_array_equal(output.weight[1:], 5 * np.eye(3)[j])
  for leaf in output.update['adaptors']:
    assert np.any(leaf[j]) and not np.any(leaf.numpy()[others])


def test_restarts_keep_the_draw_of_the_smallest_training_loss():
  """Baselines 4.2: the first round chooses, and does not train."""
  model, clients = problems.tiny_model(), problems.tiny_clients()
  means = []
  while not means or np.argmin(means) == 0:  # Else the choice would not show.
    models = mixtures.initial_models(model, 2, rounds.SEED, len(means))
    losses = [
        ifca.choose(model, models, 2, rounds.tensors(clients[i]))[1]
        for i in rounds.COHORTS[0]
    ]
    means.append(np.average(losses, weights=[3, 5]))
  _, states, _, _ = rounds.run('ifca', restarts=len(means))
  rounds.assert_identical(
      states[0]['models'],
      mixtures.initial_models(model, 2, rounds.SEED, len(means) - 1),
  )
  assert np.any(states[1]['models'][0] != states[0]['models'][0])


def test_warmup_is_fedavg_then_models_part():
  """Baselines 4.2: two rounds on model 0, then noise for the others."""
  _, states, _, _ = rounds.run('ifca', warmup_rounds=2, num_models=3)
  _, expected, _, _ = rounds.run('fedavg')
  row = lambda state, c: tf.nest.map_structure(
      lambda leaf: leaf[c], state['models']
  )
  for state, other in zip(states[:2], expected):
    rounds.assert_identical(row(state, 0), other['weights'])
  kernels = states[1]['models'][0]
  for a, b in ((0, 1), (0, 2), (1, 2)):
    distance = np.abs(kernels[a] - kernels[b]).max()
    assert 1e-3 < distance < 0.2 / np.sqrt(3)  # Two of scale .1 / sqrt(3).
  assert np.any(states[2]['models'][0] != kernels)


def test_the_last_round_of_warmup_makes_the_other_models():
  """All six train model 0 in round 0, the half of the way from 1 to 5."""
  process = ifca.build_ifca(
      _SCALARS.model,
      ifca.IfcaHyperparameters(
          learning_rate=0.5, local_steps=1, warmup_rounds=1
      ),
      num_models=2, client_weighting='uniform',
  )
  first, second = _models(process, (1, 9), 1)
  np.testing.assert_allclose(first, 3.0, rtol=1e-12)
  assert 0 < abs(second - first) < 1


def test_options_that_exclude_each_other_and_what_a_gradient_visits():
  with pytest.raises(ValueError, match='`restarts` must be 1 with warmup_round'):
    ifca.IfcaHyperparameters(restarts=2, warmup_rounds=3)
  assert ifca.IfcaHyperparameters(average='gradient').num_visited(34) == 34
