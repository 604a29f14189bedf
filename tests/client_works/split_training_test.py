"""What clients with private weights deploy."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedsim
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import split_training
from tff_pers.data import client_data
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters


_HYPERPARAMETERS = split_hyperparameters.SplitHyperparameters(
    adapt_epochs=1, learning_rate=0.5, batch_size=10, weight_decay=0.1,
    learning_rate_schedule='steps', learning_rate_rounds='1',
)


def _deploy(is_private, num_clients):
  """Returns (weights before, weights deployed by client 4 of 7 examples)."""
  parts = partition.Partition(problems.tiny_model(), is_private)
  theta, own = parts.initial_weights(0)
  deploy = split_training.build_deploy(parts, _HYPERPARAMETERS, num_clients)
  data = rounds.tensors(problems.tiny_clients()[4])
  late = rounds.message(theta, round_num=5)
  return parts.merge(theta, own), deploy(late, own, data)


@pytest.mark.parametrize('num_clients', [None, 5])
def test_a_client_that_may_take_part_deploys_what_it_has(num_clients):
  before, after = _deploy((False, True, True, False), num_clients)
  rounds.assert_identical(after, before)


def test_a_new_client_takes_gradient_steps_of_its_private_weights():
  before, after = _deploy((False, True, True, False), 4)
  data = problems.tiny_clients()[4]['examples']
  _, gradient = problems.tiny_model().loss_and_gradient(
      before,
      client_data.Batch(
          tf.constant(data['x']), tf.constant(data['y']),
          tf.ones([7], tf.bool), tf.zeros([2], tf.int64),
      ),
  )
  rounds.assert_identical([after[0], after[3]], [before[0], before[3]])
  for i in (1, 2):  # One epoch is one batch; no schedule, but weight decay.
    slope = gradient[i] + 0.1 * before[i]
    rounds.assert_close(after[i], before[i] - 0.5 * slope)
    assert np.abs(gradient[i]).max() > 1e-3


def test_a_new_client_without_private_weights_deploys_the_global_model():
  before, after = _deploy((False,) * 4, 0)
  rounds.assert_identical(after, before)


def test_the_schedule_is_that_of_both_rates():
  values = fedsim.FedSimHyperparameters(
      learning_rate=0.4, private_learning_rate=0.8,
      learning_rate_schedule='steps', learning_rate_rounds='2',
      learning_rate_decay=0.25,
  )
  found = split_training.scheduled_rates(values, dict(round=tf.constant(2)))
  assert isinstance(found, split_training.Rates)
  np.testing.assert_allclose([found.theta, found.own], [0.1, 0.2], rtol=1e-12)
