"""Every registered method of this project, round by round."""

import collections
import functools

import pytest

from tests.conformance import agree as agree_lib
from tests.conformance import cases
from tff_pers.config import methods
from tff_pers.testing import tiny

agree = agree_lib.agree


@pytest.mark.parametrize('name', cases.cases(
    methods.names(), fast=['fedavg', 'floral']
))
def test_rounds_and_evaluation(name):
  """The second round is already one with visits of other models."""
  task = tiny.task()
  process = tiny.build(name, task)
  cohort = range(task.num_clients)
  # Batch normalization divides by the deviation of a few rows, which magnifies
  # what rounding changes.
  needs_norm = 'batch_norm' in methods.get(name).needs
  tolerance = dict(rtol=1e-4, atol=1e-5) if needs_norm else {}
  agree = functools.partial(agree_lib.agree, **tolerance)
  state = agree(process.initialize_seeded, 3)
  clients = [
      agree_lib.on_native(process.initialize_client, state, i) for i in cohort
  ]
  for _ in range(2):
    output = agree(process.next, state, clients, task.train)
    state, clients = output['state'], output['client_states']
  data = [
      collections.OrderedDict(adapt=a, test=t)
      for a, t in zip(task.train, task.test)
  ]
  agree(process.evaluate, state, clients, data)
  agree(process.client_model, state, clients[0], 0)


@pytest.mark.slow
def test_clients_of_several_ranks():
  """Their shapes differ: no stack of them exists, vectorized is a loop."""
  task = tiny.task()
  process = tiny.build('fedhm', task)
  state = agree_lib.on_native(process.initialize_seeded, 3)
  ranks = {
      process.client_model(state, (), i)['factors'][0][0].shape[-1]
      for i in range(4)
  }
  assert len(ranks) == 3  # mlp_20 on three inputs: 0 (in full), 2, 3 and 3.
  agree(
      process.next, state, [()] * 4, task.train,
      strategies=('loop', 'vectorized'),
  )


@pytest.mark.slow
def test_owners_of_several_widths():
  """PERM: warm-up, the choice of kappa, and visits of wider models."""
  task = tiny.task()
  process = tiny.build('perm', task, tiers='1:0.5:0.25')
  state = agree_lib.on_native(process.initialize_seeded, 3)
  widths = {process.client_model(state, (), i)[1].shape[0] for i in range(4)}
  assert widths == {20, 10, 5}
  for _ in range(2):
    state = agree(process.next, state, [()] * 4, task.train)['state']
  data = [
      collections.OrderedDict(adapt=a, test=t)
      for a, t in zip(task.train, task.test)
  ]
  agree(process.evaluate, state, [()] * 4, data)


def test_partial_cohorts():
  """Another cohort in every round, and nobody."""
  task = tiny.task(clients_per_round=2)
  process = tiny.build('fedavg', task)
  state = agree_lib.on_native(process.initialize_seeded, 3)
  for cohort in ([1, 2], [3], [0, 2, 3]):
    data = [task.train[i] for i in cohort]
    output = agree(process.next, state, [()] * len(cohort), data)
    state = output['state']
  with pytest.raises(ValueError):
    agree(process.next, state, [], [])
