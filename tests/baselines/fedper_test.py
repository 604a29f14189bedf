"""FedPer (papers/baselines.md 6.1 and 6.3)."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedper
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import partition

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def _build(is_private, **options):
  return fedper.build_fedper(
      partition.Partition(problems.tiny_model(), is_private),
      fedper.FedPerHyperparameters(**{**_LOCAL, **options}),
  )


@pytest.mark.parametrize('options', [
    {},
    dict(
        server_learning_rate=0.5, momentum=0.5, learning_rate_rounds='2',
        learning_rate_schedule='exponential',
    ),
])
def test_without_private_weights_it_is_fedavg_bit_for_bit(options):
  """Baselines B1."""
  states, client_states, _ = rounds.train(_build((False,) * 4, **options))
  _, plain, _, _ = rounds.run('fedavg', **options)
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights'], expected['weights'])
  assert not any(rounds.leaves(list(client_states.values())))


def test_without_global_weights_it_is_local_training_bit_for_bit():
  """Baselines B2."""
  states, client_states, metrics = rounds.train(_build((True,) * 4))
  _, _, expected, plain = rounds.run('local_only')
  for i, own in expected.items():
    rounds.assert_identical(client_states[i], own)
  assert not rounds.leaves(states[-1]['weights'])
  for metric, other in zip(metrics, plain):
    assert metric['bytes_up'] == metric['bytes_down'] == 0.0
    np.testing.assert_array_equal(metric['train_loss'], other['train_loss'])


@pytest.mark.parametrize('split, is_private', [
    ('output_layer', (False, False, True, True)),
    ('input_layer', (True, True, False, False)),
    ('bias', (False, True, False, True)),
])
def test_only_global_weights_travel(split, is_private):
  process = rounds.run('fedper', split=split)[0]
  parts = partition.Partition(problems.tiny_model(), is_private)
  message = process.parts.dispatch.type_signature.result.member
  update = process.parts.work.type_signature.result.member['update']
  assert tff.structure.name_list(message) == ['seed', 'round', 'weights']
  assert message['weights'] == update == parts.global_type
  assert process.client_state_type == parts.private_type


def test_private_weights_are_the_own_ones_whoever_else_takes_part():
  process, states, client_states, _ = rounds.run('fedper')
  clients = problems.tiny_clients()
  cohort = [0, 2, 3]
  before = [client_states[i] for i in cohort]
  after = process.next(
      states[-1], before, [clients[i] for i in cohort]
  )['client_states']
  for i, own, expected in zip(cohort, before, after):
    alone = process.next(states[-1], [own], [clients[i]])['client_states'][0]
    rounds.assert_identical(alone, expected)
    assert np.any(rounds.leaves(own)[0] != rounds.leaves(expected)[0])
  assert np.any(rounds.leaves(after[0])[0] != rounds.leaves(after[1])[0])


def test_a_client_that_never_took_part_has_its_part_of_the_initial_model():
  process, states, client_states, _ = rounds.run('fedper')
  initial = problems.tiny_model().initial_weights(rounds.SEED)
  fresh = process.initialize_client(states[-1], 4)
  rounds.assert_identical(fresh, initial[2:])
  assert np.any(rounds.leaves(client_states[0])[0] != initial[2])


def test_client_deploys_global_and_own_weights():
  process, states, client_states, _ = rounds.run('fedper')
  state, own = states[-1], client_states[2]
  expected = [*rounds.leaves(state['weights']), *rounds.leaves(own)]
  rounds.assert_identical(process.client_model(state, own, 2), expected)
  data = problems.tiny_clients()[2]
  actual = process.evaluate(state, [own], [dict(adapt=data, test=data)])[0]
  model, (x, y) = problems.tiny_model(), map(data['examples'].get, 'xy')
  losses = model.example_loss(y, model.predict(expected, x, False, None))
  np.testing.assert_allclose(actual['loss'], np.mean(losses), rtol=1e-9)


def test_a_new_client_learns_its_private_weights_alone():
  """Baselines 6: E epochs, the global weights frozen."""
  process, states, _, _ = rounds.run('fedper', adapt_epochs=3)
  state = states[-1]
  data = collections.OrderedDict(
      problems.tiny_clients()[4], index=np.int32(5)
  )
  own = process.initialize_client(state, 5)
  actual = process.evaluate(state, [own], [dict(adapt=data, test=data)])[0]
  body = [tf.constant(leaf) for leaf in rounds.leaves(state['weights'])]
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  message = rounds.message(body, rounds.SEED, 3)
  learned, _ = local_sgd.train(
      parts.private_model(body), tf.nest.map_structure(tf.constant, own),
      rounds.tensors(data), learning_rate=0.1, num_epochs=3, batch_size=2,
      seed=client_work.key(message, rounds.tensors(data)),
  )
  def loss(own):
    model, (x, y) = parts.model, map(data['examples'].get, 'xy')
    weights = [*body, *own]
    losses = model.example_loss(y, model.predict(weights, x, False, None))
    return np.mean(losses)
  np.testing.assert_allclose(actual['loss'], loss(learned), rtol=1e-9)
  assert actual['loss'] < loss(own) - 1e-2


def test_private_adaptors_are_trained_beside_a_global_base():
  process, states, client_states, _ = rounds.run(
      'fedper', split='adapter', adaptor_rank=1
  )
  initial = problems.tiny_model().initial_weights(rounds.SEED)
  for leaf, start in zip(rounds.leaves(states[-1]['weights']), initial):
    assert np.abs(leaf - start).max() > 1e-3
  first, second = (rounds.leaves(client_states[i]) for i in (0, 2))
  assert len(first) == 6  # u, v and a change of the bias of both layers.
  for a, b in zip(first, second):
    assert np.abs(a - b).max() > 1e-4


def _split_least_squares():
  """Returns (parts, clients, theta_0) of baselines 6.2."""
  rng = np.random.default_rng(5)
  h = rng.standard_normal((6, 12, 4)) / np.sqrt(12)
  b = rng.standard_normal((6, 12, 2)) / np.sqrt(12)
  theta, own = rng.standard_normal(4), rng.standard_normal((6, 2))
  y = np.einsum('nij,j->ni', h, theta) + np.einsum('nij,nj->ni', b, own)

  def predict(weights, x, training, seed):
    del training, seed  # Unused.
    return tf.linalg.matvec(x, tf.concat(weights, axis=0))

  model = functional.FunctionalModel(
      init=lambda seed: (tf.zeros([4], tf.float64), tf.zeros([2], tf.float64)),
      predict=predict,
      example_loss=lambda y, p: tf.reduce_sum((p - y) ** 2, axis=1) / 2,
      x_spec=tf.TensorSpec([None, 12, 6], tf.float64),
      y_spec=tf.TensorSpec([None, 12], tf.float64),
  )
  clients = [
      client_data.dense(i, np.concatenate([h[i], b[i]], 1)[None], y[i][None])
      for i in range(6)
  ]
  return partition.Partition(model, (False, True)), clients, theta


@pytest.mark.parametrize('cohort_size, expected', [
    (6, {10: 0.013088}), (2, {10: 0.110036, 50: 0.002177}),
])
def test_distances_on_split_least_squares(cohort_size, expected):
  """Baselines 6.2, FedSim; full participation, and cohorts of two."""
  parts, clients, theta = _split_least_squares()
  process = fedper.build_fedper(
      parts,
      fedper.FedPerHyperparameters(
          local_steps=5, batch_size=1, learning_rate=0.3
      ),
      client_weighting='uniform',
  )
  rng, cohorts = np.random.default_rng(0), [range(6)] * max(expected)
  if cohort_size < 6:
    cohorts = [rng.choice(6, 2, replace=False) for _ in cohorts]
  cohorts = [list(map(int, cohort)) for cohort in cohorts]
  states, _, _ = rounds.train(process, cohorts, clients)
  for round_num, distance in expected.items():
    weights = rounds.leaves(states[round_num - 1]['weights'])[0]
    np.testing.assert_allclose(
        np.linalg.norm(weights - theta), distance, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize('options, message', [
    (dict(split='norm'), "`split` must be input_layer, .*, found 'norm', which"),
    (dict(split='*'), '`split` must leave model a global weight'),
    (dict(adaptor_rank=2), '`adaptor_rank` must be 0 with a `split` without'),
])
def test_raises_on_a_split_that_does_not_fit(options, message):
  with pytest.raises(ValueError, match=message):
    rounds.run('fedper', **options)
