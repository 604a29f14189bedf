"""What every baseline promises, on a tiny task."""

import inspect

import numpy as np
import pytest
import tensorflow_federated as tff

import baselines
from tests import problems
from tests.baselines import rounds

_NAMES = (
    'apfl', 'ditto', 'ensemble', 'fedavg', 'fedavg_finetuned', 'fedem', 'ifca',
    'local_adaptor', 'local_only', 'perfedavg', 'pfedme',
)
# Methods whose server keeps a table of models.
_TABLES = ('ensemble', 'fedem', 'ifca')


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
def test_nothing_personal_is_sent(name):
  """Baselines B6: message and update are a shared model's, or empty."""
  process = rounds.run(name)[0]
  update = process.parts.work.type_signature.result.member['update']
  message = process.parts.dispatch.type_signature.result.member
  if name == 'local_only':
    assert update == tff.to_type(())
    assert tff.structure.name_list(message) == ['seed', 'round']
  elif name in _TABLES:
    assert tff.structure.name_list(message) == ['seed', 'round', 'models']
    assert update['adaptors'] == message['models']
    assert update['base'] == tff.to_type(())
  else:
    assert update == process.deployed.weights_type
    assert message['weights'] == process.deployed.weights_type
    assert len(message) == 3


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


def test_every_builder_is_exported():
  builders = {
      name[len('build_'):] for name, _ in inspect.getmembers(baselines)
      if name.startswith('build_')
  }
  assert builders >= set(_NAMES)
