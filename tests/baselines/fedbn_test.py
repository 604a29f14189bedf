"""FedBN (papers/neighbours.md 1)."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from baselines import fedbn
from tests import problems
from tests.baselines import rounds
from tff_pers.data import client_data
from tff_pers.models import keras
from tff_pers.models import zoo

_SPEC = tf.TensorSpec([None, 3])
_OPTIONS = dict(local_steps=4, batch_size=4, learning_rate=0.1, momentum=0.5)
_LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _clients(sizes=(6, 3, 5)):
  rng = np.random.default_rng(0)
  return [
      client_data.dense(
          i, rng.normal(i, 1 + i, [size, 3]).astype(np.float32),
          rng.integers(2, size=size).astype(np.int32),
      )
      for i, size in enumerate(sizes)
  ]


def _build(model):
  return fedbn.build_fedbn(model, fedbn.FedBNHyperparameters(**_OPTIONS))


def _fedavg(model):
  return fedavg.build_fedavg(model, fedavg.FedAvgHyperparameters(**_OPTIONS))


def test_a_model_without_batch_normalization_is_refused():
  with pytest.raises(ValueError, match=r'batch norm.* fedsim.split=norm.'):
    _build(problems.tiny_model())


def test_of_one_client_it_is_fedavg():
  model = zoo.build('mlp_bn', _SPEC, 2)
  process, clients = _build(model), _clients()
  states, own, _ = rounds.train(process, [(0,), (0,)], clients)
  expected, _, _ = rounds.train(_fedavg(model), [(0,), (0,)], clients)
  deployed = process.deploy(states[-1], [own[0]], clients[:1])[0]['weights']
  # Not bit for bit: w - (w - u) of FedAvg is u but for rounding.
  rounds.assert_close(deployed, expected[-1]['weights'], atol=1e-5)


def test_affine_maps_of_the_inputs_make_no_difference():
  """After the normalization both clients see the same."""
  layers = tf.keras.layers
  tf.keras.utils.set_random_seed(0)
  model = keras.from_keras(tf.keras.Sequential([
      layers.Input([3], dtype=tf.float64),
      layers.BatchNormalization(epsilon=1e-12, dtype=tf.float64),
      layers.Dense(4, 'tanh', dtype=tf.float64),
      layers.Dense(2, dtype=tf.float64),
  ]), _LOSS)
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=[2, 7, 3]), rng.integers(2, size=[2, 7])
  mapped = x * [[[1, 1, 1]], [[3, 2, 0.1]]] + [[[0, 0, 0]], [[-5, 1, 9]]]

  def shared(process, inputs):
    clients = [
        client_data.dense(i, inputs[i], y[i].astype(np.int32)) for i in (0, 1)
    ]
    states, _, _ = rounds.train(process, [(0, 1)], clients)
    return rounds.leaves(states[-1]['weights'])

  options = dict(local_steps=1, batch_size=7, learning_rate=0.5)
  found = shared(fedbn.build_fedbn(
      model, fedbn.FedBNHyperparameters(**options)
  ), mapped)
  expected = shared(fedavg.build_fedavg(
      model, fedavg.FedAvgHyperparameters(**options)
  ), x)
  assert len(found) == 4
  # FedAvg's are all weights: scale and offset come first, statistics last.
  rounds.assert_close(found, expected[2:6], atol=1e-6)


def test_a_new_client_takes_the_statistics_of_its_own_data():
  """Of one pass, with the first scales and offsets."""
  layers = tf.keras.layers
  model = keras.from_keras(tf.keras.Sequential([
      layers.Input([3]), layers.BatchNormalization(), layers.Dense(2),
  ]), _LOSS)
  clients = _clients()
  process = _build(model)
  states, _, _ = rounds.train(process, [(0, 1)], clients)
  initial = process.initialize_client(states[-1], 2)
  deployed = process.deploy(states[-1], [initial], clients[2:])[0]['weights']
  scale, offset, *_, mean, variance = rounds.leaves(deployed)
  np.testing.assert_array_equal(scale, 1)
  np.testing.assert_array_equal(offset, 0)
  x = clients[2]['examples']['x'][:5]
  np.testing.assert_allclose(mean, x.mean(0), rtol=1e-5)
  # The two batches, of 4 and of 1, have other means, between which the variance
  # is not counted.
  assert (variance <= x.var(0)).all() and (variance > 0.3 * x.var(0)).any()
