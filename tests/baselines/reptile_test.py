"""Reptile: FedAvg with another step of the server."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import reptile
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import local_sgd
from tff_pers.core import random

_FALLING = dict(
    learning_rate_schedule='steps', learning_rate_rounds='1:2',
    learning_rate_decay=0.5, momentum=0.5,
)


def test_reptile_with_an_outer_step_of_one_trains_as_fedavg():
  """Baselines B1: step sizes of clients fall, and that of the server as well."""
  rounds.assert_close(
      rounds.run('reptile', **_FALLING)[1], rounds.run('fedavg', **_FALLING)[1]
  )


@pytest.mark.parametrize(
    'final, expected',
    [(0.0, [2, 1.5, 1, 0, 0]), (0.5, [2, 1.75, 1.5, 1, 1]), (1.0, [2] * 5)],
)
def test_outer_step_falls_linearly(final, expected):
  """Baselines 2.7: rounds 0, 2, 4, 8 and 20 of 8, from eps = 2."""
  options = dict(outer_rounds=8) if final < 1 else {}
  outer = reptile.build_outer_step(reptile.ReptileHyperparameters(
      outer_step=2.0, outer_final=final, **options
  ))
  found = [outer(dict(round=tf.constant(t))) for t in (0, 2, 4, 8, 20)]
  np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_without_an_outer_step_nothing_moves():
  """And clients deploy what `steps` steps make of it."""
  process, states, _, _ = rounds.run(
      'reptile', outer_final=0.0, outer_rounds=2, steps=3
  )
  rounds.assert_identical(states[2]['weights'], states[1]['weights'])
  assert np.any(states[1]['weights'][0] != states[0]['weights'][0])
  data = problems.tiny_clients()[3]
  found = rounds.evaluated(process, states[-1], (), data)
  adapted, _ = local_sgd.train(
      problems.tiny_model(), rounds.tensors(states[-1]['weights']),
      rounds.tensors(data), learning_rate=0.1, num_steps=3, batch_size=2,
      seed=random.key(rounds.SEED, 3, 3, 0),
  )
  np.testing.assert_allclose(
      found['loss'], rounds.loss(adapted, data), rtol=1e-12
  )


def test_raises_without_rounds_over_which_it_falls():
  with pytest.raises(ValueError, match='`outer_rounds` must be > 0 unless'):
    reptile.ReptileHyperparameters(outer_final=0.5)
