"""What every baseline promises, on a tiny task."""

import numpy as np
import pytest

from tests import problems
from tests.baselines import rounds
from tests.contracts import alike
from tff_pers import methods

# Every method that a module of `baselines` registers, found by itself.
_NAMES = alike.slow_if_alike(
    name for name in methods.names()
    if methods.get(name).build.__module__.startswith('baselines.')
)


@pytest.mark.parametrize('name', _NAMES)
def test_order_of_the_cohort_is_irrelevant(name):
  """Baselines B7."""
  process, states, client_states, _ = rounds.run(name)
  clients = problems.tiny_clients()
  cohort = [1, 3, 4]
  state_of = lambda i: client_states.get(
      i, process.initialize_client(states[-1], i)
  )
  def next_of(order):
    return process.next(
        states[-1], [state_of(i) for i in order], [clients[i] for i in order]
    )
  forth, back = next_of(cohort), next_of(cohort[::-1])
  # Shares of a router are summed in float32, whole numbers exactly.
  atol = 1e-7 if name == 'ensemble' else 1e-12
  rounds.assert_close(back['state'], forth['state'], atol)
  for a, b in zip(back['client_states'], forth['client_states'][::-1]):
    np.testing.assert_equal(a, b)


@pytest.mark.parametrize('name', _NAMES)
def test_loss_falls_and_evaluation_covers_clients_never_seen(name):
  process, states, client_states, _ = rounds.run(name)
  clients = problems.tiny_clients()
  both = [dict(adapt=clients[i], test=clients[i]) for i in (0, 4)]
  unseen = process.initialize_client(states[-1], 4)
  start = process.initialize_seeded(rounds.SEED)
  begin = process.evaluate(
      start, [process.initialize_client(start, 0), unseen], both
  )
  end = process.evaluate(states[-1], [client_states[0], unseen], both)
  assert end[0]['loss'] < begin[0]['loss']
  assert np.isfinite(end[1]['loss'])
  assert end[1]['num_examples'] == 7


@pytest.mark.parametrize('name', _NAMES)
def test_a_client_without_examples_changes_nothing(name):
  process, states, _, _ = rounds.run(name)
  empty = problems.tiny_clients()[0]
  empty = dict(empty, num_examples=np.int32(0))
  before = process.initialize_client(states[-1], 0)
  output = process.next(states[-1], [before], [empty])
  np.testing.assert_equal(output['client_states'][0], before)
  expected = dict(states[-1], round=np.int32(4))
  rounds.assert_identical(output['state'], type(states[-1])(expected))
  assert not output['metrics']['non_finite'].size
