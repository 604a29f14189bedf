"""Keras layers that hold more than trainable weights, against Keras itself."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedavg
from tests.conformance import agree
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.models import export
from tff_pers.models import keras

L = tf.keras.layers
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
RTOL, ATOL = 1e-5, 1e-6
SCALES = tf.constant(np.linspace(0.5, 2, 200), tf.float32)


def _backbone():
  """Its statistics are those of no batch."""
  backbone = tf.keras.Sequential([
      L.Conv2D(4, 3, input_shape=(6, 6, 1)), L.BatchNormalization(), L.ReLU(),
      L.GlobalAveragePooling2D(),
  ])
  rng = np.random.default_rng(0)
  backbone.layers[1].set_weights(
      [rng.uniform(0.5, 2, size=4) for _ in range(4)]
  )
  return backbone


def _frozen():
  backbone = _backbone()
  backbone.trainable = False
  return tf.keras.Sequential([backbone, L.Dense(3)])


def _called_for_inference():
  """As in Keras' guide of fine-tuning: scale and offset are trained."""
  inputs = tf.keras.Input([6, 6, 1])
  return tf.keras.Model(inputs, L.Dense(3)(_backbone()(inputs, training=False)))


def _adapted():
  layer = L.Normalization()
  layer.adapt(np.random.default_rng(1).normal(3, 2, size=[50, 200]))
  return tf.keras.Sequential([L.InputLayer([200]), layer, L.Dense(3)])


def _with_constants():
  inputs = tf.keras.Input([200])
  x = L.Rescaling(0.5, offset=-0.1)(inputs) * SCALES
  x = L.Lambda(lambda x: tf.gather(SCALES, [3, 1])[0] * x)(x)
  return tf.keras.Model(inputs, L.Dense(3)(x))


def _examples(network):
  rng = np.random.default_rng(2)
  x = rng.normal(size=[6, *network.input_shape[1:]])
  return x.astype(np.float32), rng.integers(3, size=6).astype(np.int32)


def _step_and_evaluation(model, x, y, call=agree.on_fused):
  """Returns weights after one local step of FedAvg, and their evaluation."""
  process = fedavg.build_fedavg(model, fedavg.FedAvgHyperparameters(
      local_steps=1, batch_size=len(y), learning_rate=0.1,
  ))
  data = client_data.dense(0, x, y)
  state = call(process.next, process.initialize_seeded(0), [()], [data])['state']
  [found] = call(process.evaluate, state, [()], [dict(adapt=data, test=data)])
  return state['weights'], found


def _check_as_keras(network, call=agree.on_fused):
  x, y = _examples(network)
  model = keras.from_keras(network, LOSS, metrics=['accuracy'])
  weights, found = _step_and_evaluation(model, x, y, call)
  network.compile(tf.keras.optimizers.SGD(0.1), LOSS, metrics=['accuracy'])
  network.train_on_batch(x, y)
  for ours, theirs in zip(weights, network.trainable_variables, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=ATOL)
  expected = network.test_on_batch(x, y, return_dict=True)
  for name, value in expected.items():
    np.testing.assert_allclose(found[name], value, rtol=RTOL, err_msg=name)


@pytest.mark.parametrize(
    'make', [_called_for_inference, _adapted, _with_constants]
)
def test_one_step_and_one_evaluation_are_those_of_keras(make):
  _check_as_keras(make())


@pytest.mark.parametrize('call', [agree.on_fused, agree.on_native])
def test_frozen_batch_normalization_is_that_of_keras(call):
  _check_as_keras(_frozen(), call)


def test_frozen_statistics_are_constants_of_the_model(tmp_path):
  """Exported with it; adaptors change scale and offset, but not them."""
  network = _frozen()
  x, _ = _examples(network)
  model = keras.from_keras(network, LOSS)
  assert model.num_parameters == 4 * 3 + 3
  weights = tuple(leaf + 0.5 for leaf in model.initial_weights(0))
  export.save_model(model, weights, str(tmp_path / 'model'))
  loaded = tf.saved_model.load(str(tmp_path / 'model'))
  export.merge_into(network, weights)
  np.testing.assert_allclose(
      loaded.predict(x), network(x), rtol=RTOL, atol=ATOL
  )
  plan = adaptors.floral(model, 2, adapt_norm=True).plan
  assert {
      entry.weight.name.split('/')[1]: entry.adaptor is not None
      for entry in plan if entry.weight.layer.startswith('batch_normalization')
  } == dict(gamma=True, beta=True, moving_mean=False, moving_variance=False)


@pytest.mark.parametrize('policy, tolerance', [
    ('mixed_float16', 0.01), ('mixed_bfloat16', 0.1),
])
def test_mixed_precision_trains_weights_of_float32(policy, tolerance):
  tf.keras.utils.set_random_seed(0)
  network = tf.keras.Sequential([
      L.InputLayer([4]), L.Dense(8, 'tanh', dtype=policy),
      L.LayerNormalization(dtype=policy), L.Dense(3, dtype=policy),
  ])
  model = keras.from_keras(network, LOSS)
  x, y = _examples(network)
  weights = model.initial_weights(0)
  predictions = model.predict(weights, x, False, random.key(0))
  assert predictions.dtype == tf.float32
  # Of 16 bits; a graph may round less often than single operations do.
  theirs = network(x)
  np.testing.assert_array_equal(
      predictions, tf.cast(tf.cast(predictions, theirs.dtype), tf.float32)
  )
  np.testing.assert_allclose(
      predictions, tf.cast(theirs, tf.float32), rtol=0, atol=tolerance
  )
  trained, found = _step_and_evaluation(model, x, y)
  assert {leaf.dtype for leaf in trained} == {np.dtype(np.float32)}
  before = np.mean(model.example_loss(y, predictions))
  assert found['loss'] < before


@pytest.mark.parametrize('layer, found', [
    (lambda: L.IntegerLookup(vocabulary=[3, 5]), 'IntegerLookup'),
    (lambda: L.StringLookup(vocabulary=['a', 'b']), 'StringLookup'),
    (
        lambda: L.TextVectorization(vocabulary=['a'], output_sequence_length=1),
        'TextVectorization',
    ),
])
def test_raises_on_a_table_of_words(layer, found):
  network = tf.keras.Sequential(
      [L.InputLayer([1], dtype=tf.string), layer(), L.Embedding(9, 3)]
      if found != 'IntegerLookup' else [L.InputLayer([1]), layer()]
  )
  with pytest.raises(
      ValueError, match=rf"looks up words .* found layer '\w+' \({found}\)"
  ):
    keras.from_keras(network, LOSS)


@pytest.mark.parametrize('make, count', [
    (_called_for_inference, 0), (_frozen, 0),
    (lambda: tf.keras.Sequential([_backbone(), L.Dense(3)]), 2),
])
def test_statistics_are_weights_where_batches_move_them(make, count):
  assert sum(keras.from_keras(make(), LOSS).statistics) == count
