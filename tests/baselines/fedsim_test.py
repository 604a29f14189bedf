"""FedSim and FedPer (papers/baselines.md 6.1 and 6.3)."""

import numpy as np
import pytest

from baselines import fedsim
from tests import problems
from tests.baselines import rounds
from tff_pers.models import partition


def test_fedper_is_fedsim_bit_for_bit():
  """Baselines B3."""
  _, states, client_states, metrics = rounds.run('fedsim', clip_norm=0.5)
  _, *expected = rounds.run('fedper', clip_norm=0.5)
  rounds.assert_identical([states, client_states, metrics], expected)


def test_with_adaptors_it_is_the_local_adaptor_without_preconditioner():
  """Baselines B3."""
  _, states, client_states, _ = rounds.run('fedsim', split='adapter')
  _, expected, adaptors, _ = rounds.run('local_adaptor', precondition=False)
  initial = problems.tiny_model().initial_weights(rounds.SEED)
  for state, other in zip(states, expected):
    rounds.assert_close(state['weights'], other['weights'])
  for leaf, start in zip(rounds.leaves(states[-1]['weights']), initial):
    assert np.abs(leaf - start).max() > 1e-3
  for i, own in adaptors.items():
    assert len(rounds.leaves(own)) == 6  # u, v and a bias of both layers.
    rounds.assert_close(client_states[i], own)


def test_private_weights_are_the_own_ones_whoever_else_takes_part():
  process, states, client_states, _ = rounds.run('fedsim')
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


def test_both_gradients_are_taken_at_the_old_point():
  """One step of the formula, with a step size for each part."""
  process = fedsim.build_fedsim(
      partition.Partition(problems.tiny_model(), (False, True, False, True)),
      fedsim.FedSimHyperparameters(
          local_steps=1, batch_size=7, learning_rate=0.1,
          private_learning_rate=0.3,
      ),
  )
  states, own, _ = rounds.train(process, cohorts=((4,),))
  start = problems.tiny_model().initial_weights(rounds.SEED)
  _, gradient = rounds.gradient(start, problems.tiny_clients()[4])
  stepped = [
      w - rate * g for w, g, rate in zip(start, gradient, (0.1, 0.3, 0.1, 0.3))
  ]
  rounds.assert_close(states[0]['weights'], stepped[0::2])
  rounds.assert_close(own[4], stepped[1::2])


@pytest.mark.parametrize('options, message', [
    (dict(split='norm'), "`split` must be input_layer, .*, found 'norm', which"),
    (dict(split='*'), '`split` must leave model a global weight'),
    (dict(adaptor_rank=2), '`adaptor_rank` must be 0 with a `split` without'),
])
def test_raises_on_a_split_that_does_not_fit(options, message):
  with pytest.raises(ValueError, match=message):
    rounds.run('fedsim', **options)


def _first(process, state, index):
  return rounds.leaves(process.initialize_client(state, index))


def test_all_heads_start_alike_unless_each_client_draws_its_own():
  common, random = (
      rounds.run('fedper', head_init=how) for how in ('common', 'random')
  )
  state = common[0].initialize_seeded(rounds.SEED)
  rounds.assert_identical(
      _first(common[0], state, 0), _first(common[0], state, 3)
  )
  state = random[0].initialize_seeded(rounds.SEED)
  kernels = [_first(random[0], state, i)[0] for i in (0, 3)]
  assert np.abs(kernels[0] - kernels[1]).max() > 1e-2
  # The run decides what a client draws, and nothing else.
  rounds.assert_identical(_first(random[0], state, 3)[0], kernels[1])
  other = _first(random[0], random[0].initialize_seeded(rounds.SEED + 1), 3)
  assert np.abs(other[0] - kernels[1]).max() > 1e-2


def test_random_heads_are_drawn_as_the_model_draws_its_weights():
  process = rounds.run('fedper', head_init='random')[0]
  parts = partition.from_scheme(problems.tiny_model(), 'output_layer')
  drawn = np.array([
      _first(process, process.initialize_seeded(seed), index)[0]
      for seed in range(4) for index in range(8)
  ])
  known = np.array([parts.initial_weights(seed)[1][0] for seed in range(32)])
  # 32 kernels each: the standard deviations agree within 5 standard errors.
  error = known.std() / np.sqrt(2 * known.size)
  assert abs(drawn.std() - known.std()) < 5 * np.sqrt(2) * error
