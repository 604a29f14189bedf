"""Every method leaves Byzantine clients out of its training metrics."""

import numpy as np
import pytest
import tensorflow as tf

from tests.contracts import tiny
from tff_pers import methods
from tff_pers import round_metrics
from tff_pers.runtime import native

BYZANTINE = np.array([False, True, False, False])


def _first_round(process, data):
  """Returns the output of the first round with everybody."""
  state = process.initialize_seeded(3)
  clients = [process.initialize_client(state, i) for i in range(len(data))]
  return process.next(state, clients, data)


@pytest.fixture(autouse=True)
def _native_runtime():
  """Processes run one round, which does not pay for fusing them."""
  with native.use():
    yield


# What leaves them out is in the parts that all other methods are made of.
FAST = ('fedavg', *(n for n in methods.names() if not methods.get(n).travels))
NAMES = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    for name in methods.names()
]


@pytest.mark.parametrize('name', NAMES)
def test_training_loss_is_that_of_the_honest_clients(name):
  """It does not move when the Byzantine client trains on other examples.

  Its labels become all the same: opposite ones would give the same loss, since
  the first model is 0.
  """
  task = tiny.task()
  with round_metrics.leaving_out(BYZANTINE):
    process = tiny.build(name, task)
  other = list(task.train)
  other[1] = tf.nest.map_structure(np.copy, task.train[1])
  other[1]['examples']['x'] *= 3
  other[1]['examples']['y'][:] = 1
  outputs = [_first_round(process, data) for data in (task.train, other)]
  losses = [float(output['metrics']['train_loss']) for output in outputs]
  assert np.isfinite(losses[0]) and losses[0] == losses[1]
  # It does train, as everybody.
  leaves = [
      tf.nest.flatten((output['state'], output['client_states']))
      for output in outputs
  ]
  assert any(np.any(a != b) for a, b in zip(*leaves))


def test_who_is_left_out_ends_with_the_scope():
  with pytest.raises(KeyError):
    with round_metrics.leaving_out(BYZANTINE):
      raise KeyError
  task = tiny.task()
  after = tiny.build('fedavg', task)
  with round_metrics.leaving_out(None):
    inside = tiny.build('fedavg', task)
  losses = [
      float(_first_round(process, task.train)['metrics']['train_loss'])
      for process in (after, inside)
  ]
  assert losses[0] == losses[1]
