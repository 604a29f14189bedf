"""FedPer (papers/baselines.md 6.3): where its heads start."""

import numpy as np

from tests import problems
from tests.baselines import rounds
from tff_pers.models import partition


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
