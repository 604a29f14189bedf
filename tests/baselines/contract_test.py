"""What every baseline promises in float64; `contracts` has all the rest."""

import numpy as np
import pytest

from tests import problems
from tests.baselines import rounds
from tests.contracts import alike
from tff_pers.config import methods

# Every method that a module of `baselines` registers, found by itself.
_NAMES = alike.slow_if_alike(
    name for name in methods.names()
    if methods.get(name).build.__module__.startswith('baselines.')
    # The model of `rounds` has no batch normalization.
    and 'batch_norm' not in methods.get(name).needs
)


@pytest.mark.parametrize('name', _NAMES)
def test_order_of_the_cohort_is_irrelevant(name):
  """Baselines B7, to the last bits, which float32 would hide."""
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
