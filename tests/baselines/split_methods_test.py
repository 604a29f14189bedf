"""What all baselines with a split promise (papers/baselines.md 6, B6)."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedalt
from baselines import fedsim
from tests import problems
from tests import slow
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.models import partition

_STATEFUL = [
    ('fedsim', {}), ('fedper', {}),
    ('fedalt', dict(private_learning_rate=0.2)), ('fedrep', {}),
]
_STATELESS = [('fedalt', dict(stateless=True)), ('fedrecon', {})]
_BUILDERS = {
    'fedalt': (fedalt.build_fedalt, fedalt.FedAltHyperparameters),
    'fedsim': (fedsim.build_fedsim, fedsim.FedSimHyperparameters),
}


def _train(name, is_private, **options):
  """Returns what `rounds.train` does, with this split of the tiny model."""
  build, kind = _BUILDERS[name]
  return rounds.train(build(
      partition.Partition(problems.tiny_model(), (is_private,) * 4),
      kind(local_steps=5, batch_size=2, learning_rate=0.1, **options),
  ))


_STEP = dict(
    momentum=0.5, weight_decay=0.1, learning_rate_rounds='2',
    learning_rate_schedule='exponential',
)


@pytest.mark.parametrize('name', _BUILDERS)
def test_without_private_weights_it_is_fedavg_bit_for_bit(name):
  """Baselines B1."""
  options = dict(_STEP, server_learning_rate=0.5)
  states, client_states, _ = _train(name, False, **options)
  _, plain, _, _ = rounds.run('fedavg', **options)
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights'], expected['weights'])
  assert not any(rounds.leaves(list(client_states.values())))


@pytest.mark.parametrize('name', _BUILDERS)
def test_without_global_weights_it_is_local_training_bit_for_bit(name):
  """Baselines B2."""
  states, client_states, metrics = _train(name, True, **_STEP)
  _, _, expected, plain = rounds.run('local_only', **_STEP)
  for i, own in expected.items():
    rounds.assert_identical(client_states[i], own)
  assert not rounds.leaves(states[-1]['weights'])
  for metric, other in zip(metrics, plain):
    assert metric['bytes_up'] == metric['bytes_down'] == 0.0
    np.testing.assert_array_equal(metric['train_loss'], other['train_loss'])


@pytest.mark.parametrize('name, cohort_size, expected', [
    ('fedalt', 6, {10: 0.002346, 50: 0.0}),
    ('fedalt', 2, {10: 0.054095, 50: 2.7e-5, 100: 0.0}),
    ('fedsim', 6, {10: 0.013088, 50: 0.0}),
    ('fedsim', 2, {10: 0.110036, 50: 0.002177, 100: 2e-6}),
])
def test_distances_on_split_least_squares(name, cohort_size, expected):
  """Baselines B21; full participation, and cohorts of two."""
  build, kind = _BUILDERS[name]
  process = build(
      problems.split_least_squares()[0],
      kind(local_steps=5, batch_size=1, learning_rate=0.3),
      client_weighting='uniform',
  )
  found = rounds.distances_to_shared_optimum(
      process, max(expected), cohort_size
  )
  for round_num, distance in expected.items():
    np.testing.assert_allclose(
        found[round_num - 1], distance, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize('split, is_private', [
    ('input_layer', (True, True, False, False)),
    ('bias', (False, True, False, True)),
])
def test_the_split_is_what_the_flag_says(split, is_private):
  process = rounds.run('fedsim', split=split)[0]
  parts = partition.Partition(problems.tiny_model(), is_private)
  theta_type = parts.global_model(()).weights_type
  assert process.server_state_type['weights'] == theta_type
  assert process.client_state_type == parts.private_model(()).weights_type


def _learned(state, data, *, epochs, own=None, private_learning_rate=0.1):
  """Returns W after passes with theta frozen, and before; from w^0 or `own`."""
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  body = [tf.constant(leaf) for leaf in rounds.leaves(state['weights'])]
  own = own or parts.initial_weights(rounds.SEED)[1]
  message = rounds.message(body, rounds.SEED, 3)
  learned, _ = local_sgd.train(
      parts.private_model(body), own, rounds.tensors(data), num_epochs=epochs,
      batch_size=2, learning_rate=private_learning_rate,
      seed=client_work.key(message, rounds.tensors(data)),
  )
  return [*body, *learned], [*body, *own]


@pytest.mark.parametrize(
    'name, options', slow.beyond(1, _STATEFUL) + slow.beyond(1, _STATELESS)
)
def test_a_new_client_learns_its_private_weights_alone(name, options):
  """Baselines 6: E epochs from the initial value, the global weights frozen."""
  process, states, _, _ = rounds.run(name, adapt_epochs=3, **options)
  data = collections.OrderedDict(
      problems.tiny_clients()[4], index=np.int32(5)
  )
  own = process.initialize_client(states[-1], 5)
  actual = rounds.evaluated(process, states[-1], own, data)['loss']
  rates = {k: v for k, v in options.items() if k != 'stateless'}
  learned, before = _learned(states[-1], data, epochs=3, **rates)
  np.testing.assert_allclose(actual, rounds.loss(learned, data), rtol=1e-9)
  assert actual < rounds.loss(before, data) - 1e-2


def test_a_client_that_trains_learns_its_private_weights_once_more():
  """Baselines 6.4: E more epochs of the head, but for evaluation alone.

  All methods deploy by the same code, and the contract of hyperparameters sees
  that each has the option.
  """
  options = dict(private_learning_rate=0.2)
  process, states, own, _ = rounds.run('fedalt', final_epochs=2, **options)
  plain = rounds.run('fedalt', **options)
  rounds.assert_identical(states[-1], plain[1][-1])
  rounds.assert_identical(own[0], plain[2][0])
  state, data = states[-1], problems.tiny_clients()[0]
  actual = rounds.evaluated(process, state, own[0], data)['loss']
  learned, before = _learned(
      state, data, epochs=2, own=[tf.constant(leaf) for leaf in own[0]],
      **options
  )
  np.testing.assert_allclose(actual, rounds.loss(learned, data), rtol=1e-9)
  assert actual < rounds.loss(before, data) - 1e-3


@pytest.mark.parametrize('name, options', _STATELESS)
def test_stateless_clients_are_all_evaluated_as_new_ones(name, options):
  process, states, client_states, _ = rounds.run(
      name, adapt_epochs=3, **options
  )
  state, data = states[-1], problems.tiny_clients()[2]
  actual = rounds.evaluated(process, state, client_states[2], data)
  learned, before = _learned(state, data, epochs=3)
  np.testing.assert_allclose(
      actual['loss'], rounds.loss(learned, data), rtol=1e-9
  )
  rounds.assert_identical(
      process.client_model(state, client_states[2], 2), before
  )
