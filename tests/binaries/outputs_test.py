"""What a run leaves behind: how many parameters a client handles."""

import numpy as np
import pytest
import tensorflow_federated as tff

from binaries import outputs
from tests.baselines import rounds


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
  assert outputs.parameters(process, model) == dict(
      model=size, client=models * size + more
  )


def test_sizes_that_are_not_fixed_are_unknown():
  floats = tff.TensorType(np.float32, [None, 3])
  integers = tff.TensorType(np.int32, [None])
  assert outputs.num_floats([tff.to_type((floats, integers))]) is None
  assert outputs.num_floats([integers]) == 0
