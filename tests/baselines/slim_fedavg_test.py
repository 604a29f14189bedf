"""Slim FedAvg: the whole model that is as large as FedHM's smallest."""

import tensorflow as tf

from baselines import slim_fedavg
from tests.baselines import rounds
from tff_pers.models import zoo


def test_its_widest_model_is_as_large_as_the_smallest_tier():
  """Rank 2 of a kernel 12 x 20: 147 parameters, as of 9 units, 16 n + 3."""
  model = zoo.build('mlp_20', tf.TensorSpec([None, 12]), 3)
  process = slim_fedavg.build_slim_fedavg(model, rank_ratio=0.125)
  weights = rounds.leaves(process.initialize_seeded(0)['weights'])
  assert [w.shape for w in weights] == [(12, 9), (9,), (9, 3), (3,)]
  assert 2 * (12 + 20) + 20 + 20 * 3 + 3 == sum(w.size for w in weights)
