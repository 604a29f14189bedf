"""Every registered method can be attacked, and survives what is not finite."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers import attacks
from tff_pers.config import methods
from tff_pers.testing import tiny

pytestmark = pytest.mark.usefixtures('native_runtime')
BYZANTINE = np.array([False, True, False, False])


# One of each kind: composed, of two fields, of products, with its own `next`,
# and without any message.
FAST = ('fedavg', 'scaffold', 'fedhm', 'perm', 'local_only')
NAMES = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    for name in methods.names()
]


def run(name, attack, task):
  """Returns the outputs of two rounds under the attack."""
  with attacks.carried_out(attacks.parse(attack), BYZANTINE, num_classes=2):
    process = tiny.build(name, task)
  state = process.initialize_seeded(3)
  clients = [process.initialize_client(state, i) for i in range(4)]
  outputs = []
  for _ in range(2):
    outputs.append(process.next(state, clients, task.train))
    state, clients = outputs[-1]['state'], outputs[-1]['client_states']
  return process, outputs


def sends_something(process) -> bool:
  """Returns whether the server has an aggregator to attack."""
  return len(process.server_state_type['aggregator']) > 0


def assert_no_nan(structure):
  for leaf in tf.nest.flatten(structure):
    leaf = np.asarray(leaf)
    if np.issubdtype(leaf.dtype, np.floating):
      assert not np.any(np.isnan(leaf))


@pytest.mark.parametrize('name', NAMES)
def test_nan_never_spreads_and_is_named(name):
  process, outputs = run(name, 'nan', tiny.task())
  for output in outputs:
    assert_no_nan((output['state'], output['client_states']))
    assert np.isfinite(output['metrics']['train_loss'])
    if sends_something(process):
      measured = output['metrics']['aggregator']
      np.testing.assert_array_equal(measured['refused'], [1])
      assert measured['num_refused'] == 1
