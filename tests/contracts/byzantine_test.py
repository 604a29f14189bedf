"""Every method leaves Byzantine clients out of its training metrics."""

import numpy as np
import pytest

from tff_pers.config import methods
from tff_pers.core import left_out
from tff_pers.testing import registry_contract
from tff_pers.testing import tiny

pytestmark = pytest.mark.usefixtures('native_runtime')
BYZANTINE = np.array([False, True, False, False])


# What leaves them out is in the parts that all other methods are made of.
FAST = ('fedavg', *(n for n in methods.names() if not methods.get(n).travels))
NAMES = [
    name if name in FAST else pytest.param(name, marks=pytest.mark.slow)
    for name in methods.names()
]


@pytest.mark.parametrize('name', NAMES)
def test_training_loss_is_that_of_the_honest_clients(name):
  registry_contract.test_training_loss_is_that_of_the_honest_clients(name)


def test_who_is_left_out_ends_with_the_scope():
  task = tiny.task()
  processes = [tiny.build('fedavg', task)]
  with pytest.raises(KeyError):
    with left_out.leaving_out(BYZANTINE):
      processes.append(tiny.build('fedavg', task))
      raise KeyError
  processes.append(tiny.build('fedavg', task))
  before, inside, after = [
      registry_contract.first_round(process, task.train)['metrics']['train_loss']
      for process in processes
  ]
  assert after == before != inside
