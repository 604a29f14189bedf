"""What a run leaves behind: how many parameters a client handles."""

import numpy as np
import pytest
import tensorflow_federated as tff

from binaries import outputs
from tests import problems
from tests.baselines import rounds
from tff_pers import methods


@pytest.mark.parametrize(
    'name, models, more',
    [
        ('fedavg', 1, 0),
        ('ensemble', 4, 4),  # And the router.
        ('ifca', 2, 0),
        ('ditto', 2, 0),  # The shared and the personal model.
        ('local_only', 1, 0),
    ],
)
def test_parameters_of_a_client_are_what_it_gets_and_keeps(name, models, more):
  process = rounds.run(name)[0]
  # 3 features, 4 hidden units, 2 classes.
  size = 4 * 4 + 5 * 2
  model = type('Model', (), dict(num_parameters=size))
  assert outputs.parameters(process, model, None) == dict(
      model=size, client=models * size + more
  )


def test_share_of_private_parameters_is_that_of_the_split():
  values = methods.get('fedper').hyperparameters(split='bias')
  found = outputs.parameters(
      rounds.run('fedper', split='bias')[0], problems.tiny_model(), values
  )
  assert found['private_share'] == 6 / 26


def test_sizes_that_are_not_fixed_are_unknown():
  floats = tff.TensorType(np.float32, [None, 3])
  integers = tff.TensorType(np.int32, [None])
  assert outputs.num_floats([tff.to_type((floats, integers))]) is None
  assert outputs.num_floats([integers]) == 0
