"""FedAlt and FedRep (papers/baselines.md 6.2 and 6.4)."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedalt
from baselines import fedrep
from tests import problems
from tests.baselines import rounds
from tff_pers.models import partition

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)
_MORE = dict(
    momentum=0.5, weight_decay=0.1, learning_rate_rounds='2',
    learning_rate_schedule='exponential',
)


def _build(is_private, **options):
  return fedalt.build_fedalt(
      partition.Partition(problems.tiny_model(), is_private),
      fedalt.FedAltHyperparameters(**{**_LOCAL, **options}),
  )


@pytest.mark.parametrize('options', [{}, _MORE, dict(stateless=True)])
def test_without_private_weights_it_is_fedavg_bit_for_bit(options):
  """Baselines B1."""
  states, _, _ = rounds.train(_build((False,) * 4, **options))
  options = {k: value for k, value in options.items() if k != 'stateless'}
  _, plain, _, _ = rounds.run('fedavg', **options)
  for state, expected in zip(states, plain):
    rounds.assert_identical(state['weights'], expected['weights'])


@pytest.mark.parametrize('options', [{}, _MORE])
def test_without_global_weights_it_is_local_training_bit_for_bit(options):
  """Baselines B2."""
  _, client_states, metrics = rounds.train(_build((True,) * 4, **options))
  _, _, expected, plain = rounds.run('local_only', **options)
  for i, own in expected.items():
    rounds.assert_identical(client_states[i], own)
  for metric, other in zip(metrics, plain):
    np.testing.assert_array_equal(metric['train_loss'], other['train_loss'])


def test_a_phase_holds_the_other_part_at_its_newest_value():
  """First w at the old theta, then theta at the new w."""
  process = _build(
      (False, True, False, True), local_steps=2, private_steps=3, batch_size=7,
      private_learning_rate=0.3,
  )
  states, own, _ = rounds.train(process, cohorts=((4,),))
  weights = list(problems.tiny_model().initial_weights(rounds.SEED))
  data = problems.tiny_clients()[4]
  for steps, rate, leaves in ((3, 0.3, (1, 3)), (2, 0.1, (0, 2))):
    for _ in range(steps):
      _, gradient = rounds.gradient(weights, data)
      for leaf in leaves:
        weights[leaf] -= rate * gradient[leaf]
  rounds.assert_close(states[0]['weights'], weights[0::2])
  rounds.assert_close(own[4], weights[1::2])


@pytest.mark.parametrize('options, expected', [
    ({}, dict(num_steps=5, num_epochs=None)),
    (dict(private_epochs=3), dict(num_epochs=3)),
    (dict(private_steps=4), dict(num_steps=4)),
    # 7 examples are 4 batches of two, the last of them short.
    (dict(private_epochs=3, private_steps=50), dict(num_steps=12)),
    (dict(private_epochs=3, private_steps=9), dict(num_steps=9)),
])
def test_private_phase_lasts_as_long_as_asked_for(options, expected):
  values = fedalt.FedAltHyperparameters(**_LOCAL, **options)
  budget = values.private_budget(dict(num_examples=tf.constant(7)))
  assert {**budget, 'batch_size': 2} == dict(expected, batch_size=2)


def test_stateless_clients_start_from_the_initial_value_every_time():
  _, kept, _, _ = rounds.run('fedalt')
  _, fresh, states, _ = rounds.run('fedalt', stateless=True)
  assert not rounds.leaves(list(states.values()))
  for i in (0, 1):  # Nobody has taken part twice.
    rounds.assert_identical(fresh[i]['weights'], kept[i]['weights'])
  first = problems.tiny_clients()[0], problems.tiny_clients()[2]
  process = rounds.run('fedalt')[0]
  unseen = [process.initialize_client(kept[1], i) for i in (2, 0)]
  again = process.next(kept[1], unseen, list(first[::-1]))
  rounds.assert_identical(fresh[2]['weights'], again['state']['weights'])
  different = zip(rounds.leaves(fresh[2]), rounds.leaves(kept[2]))
  assert any(np.any(a != b) for a, b in different)


@pytest.mark.parametrize('cohort_size, expected', [
    (6, {10: 0.002346, 50: 0.0}),
    (2, {10: 0.054095, 50: 2.7e-5, 100: 0.0}),
])
def test_distances_on_split_least_squares(cohort_size, expected):
  """Baselines B21; full participation, and cohorts of two."""
  parts, _, _ = problems.split_least_squares()
  process = fedalt.build_fedalt(
      parts,
      fedalt.FedAltHyperparameters(
          local_steps=5, batch_size=1, learning_rate=0.3
      ),
      client_weighting='uniform',
  )
  found = rounds.distances_to_shared_optimum(
      process, max(expected), cohort_size
  )
  for round_num, distance in expected.items():
    np.testing.assert_allclose(
        found[round_num - 1], distance, rtol=0, atol=1e-6
    )


def test_fedrep_with_one_epoch_each_is_fedalt_bit_for_bit():
  """Baselines B3."""
  epochs = dict(local_steps=0, local_epochs=1, private_epochs=1)
  _, *found = rounds.run('fedrep', **epochs)
  _, *expected = rounds.run('fedalt', **epochs)
  rounds.assert_identical(found, expected)


def test_fedrep_trains_heads_for_ten_epochs_by_default():
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  small = dict(batch_size=2, learning_rate=0.1)
  found = rounds.train(
      fedrep.build_fedrep(parts, fedrep.FedRepHyperparameters(**small)),
      cohorts=((1,),),
  )
  alternating = rounds.train(
      fedalt.build_fedalt(
          parts,
          fedalt.FedAltHyperparameters(
              **small, local_steps=0, local_epochs=1, private_epochs=10
          ),
      ),
      cohorts=((1,),),
  )
  rounds.assert_identical(list(found), list(alternating))


@pytest.mark.parametrize('options', [
    dict(local_steps=1), dict(local_steps=1, private_steps=1),
])
def test_raises_on_momentum_of_phases_of_one_step(options):
  with pytest.raises(ValueError, match='`momentum` must be 0 where a client'):
    fedalt.FedAltHyperparameters(momentum=0.5, **options)
