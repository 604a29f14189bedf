"""What is special about FedNova."""

import numpy as np
import tensorflow as tf

import baselines
from tff_pers.testing import tiny
from tff_pers_example import fednova


def _after_a_round(process, task):
  output = process.next(
      process.initialize(), [()] * task.num_clients, task.train
  )
  return tf.nest.flatten(output['state']['weights'])


def test_with_equal_steps_it_is_fedavg():
  task, values = tiny.task(), dict(local_steps=3, batch_size=4)
  ours = fednova.build_fednova(
      task.model, fednova.FedNovaHyperparameters(**values)
  )
  fedavg = baselines.build_fedavg(
      task.model, baselines.fedavg.FedAvgHyperparameters(**values)
  )
  for a, b in zip(_after_a_round(ours, task), _after_a_round(fedavg, task)):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_with_epochs_it_is_not():
  """Clients have 5, 12, 7 and 9 examples, which are 2, 3, 2 and 3 batches."""
  task = tiny.task()
  values = dict(local_steps=0, local_epochs=1, batch_size=4)
  ours = fednova.build_fednova(
      task.model, fednova.FedNovaHyperparameters(**values)
  )
  output = ours.next(ours.initialize(), [()] * 4, task.train)
  mean = np.average([2, 3, 2, 3], weights=tiny.SIZES)
  np.testing.assert_allclose(output['metrics']['mean_steps'], mean, rtol=1e-6)
  fedavg = baselines.build_fedavg(
      task.model, baselines.fedavg.FedAvgHyperparameters(**values)
  )
  pairs = zip(_after_a_round(ours, task), _after_a_round(fedavg, task))
  assert any(not np.allclose(a, b, rtol=1e-3) for a, b in pairs)
