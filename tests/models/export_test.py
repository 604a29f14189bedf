"""Exported models predict what clients predict, and do not need this package."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.config import methods
from tff_pers.models import export
from tff_pers.models import keras
from tff_pers.testing import tiny

# One of each kind of what is deployed: plain weights, factors, adaptors and a
# router, several models, private weights, the first units of a tier.
_KINDS = (
    'fedavg_finetuned', 'fedhm', 'floral', 'fedem', 'fedper', 'heterofl',
)


def _after_a_round(name, task):
  """Returns (process, server state, client states)."""
  process = tiny.build(name, task)
  state = process.initialize_seeded(1)
  clients = [process.initialize_client(state, i) for i in range(len(tiny.SIZES))]
  output = process.next(state, clients, list(task.train))
  return process, output['state'], output['client_states']


@pytest.mark.parametrize('name', [
    pytest.param(name, marks=[pytest.mark.slow] * (name not in _KINDS))
    for name in methods.names()
])
def test_predictions_are_those_that_are_evaluated(name, tmp_path):
  """The exported model has the loss and the accuracy of `evaluate`."""
  task = tiny.task()
  process, state, clients = _after_a_round(name, task)
  evaluated = process.evaluate(state, clients, [
      dict(adapt=train, test=test)
      for train, test in zip(task.train, task.test)
  ])
  chosen = 2
  # Alone: none of these methods chooses something with others by default.
  weights = export.export_saved_model(
      process, state, task.train[chosen], str(tmp_path / 'model'),
      clients[chosen],
  )
  loaded = tf.saved_model.load(str(tmp_path / 'model'))
  examples = task.test[chosen]['examples']
  predictions = loaded.predict(examples['x'])
  served = loaded.signatures['serving_default'](x=tf.constant(examples['x']))
  np.testing.assert_array_equal(served['predictions'], predictions)
  loss = np.mean(process.deployed.example_loss(examples['y'], predictions))
  np.testing.assert_allclose(loss, evaluated[chosen]['loss'], rtol=1e-5)
  again = export.to_keras(process.deployed, weights)
  np.testing.assert_allclose(
      again(examples['x']), predictions, rtol=1e-5, atol=1e-6
  )


def test_a_keras_export_is_loaded_where_we_are_not(tmp_path):
  task = tiny.task()
  process, state, clients = _after_a_round('fedavg', task)
  weights = process.deploy(state, clients[:1], list(task.train[:1]))[0]['weights']
  path = export.save('keras', process.deployed, weights, str(tmp_path / 'a'))
  x = task.test[0]['examples']['x']
  np.save(tmp_path / 'x.npy', x)
  subprocess.run(
      [
          sys.executable, '-c',
          'import sys, numpy as np, tensorflow as tf\n'
          f'model = tf.keras.models.load_model({path!r}, compile=False)\n'
          f'x = np.load({str(tmp_path / "x.npy")!r})\n'
          f'np.save({str(tmp_path / "y.npy")!r}, model(x))\n'
          'assert "tff_pers" not in sys.modules\n',
      ], check=True, cwd=tmp_path, stderr=subprocess.DEVNULL,
  )
  expected = process.deployed.predict(weights, x, False, tf.zeros([2], tf.int64))
  np.testing.assert_allclose(
      np.load(tmp_path / 'y.npy'), expected, rtol=1e-5, atol=1e-6
  )


def test_npz_holds_the_leaves_by_path(tmp_path):
  weights = dict(dense=dict(kernel=np.ones([2, 3]), bias=np.zeros([3])), a=(1.0,))
  path = export.save('npz', None, weights, str(tmp_path / 'export' / 'a'))
  with np.load(path) as file:
    assert sorted(file.files) == ['a/0', 'dense/bias', 'dense/kernel']
    np.testing.assert_array_equal(file['dense/kernel'], np.ones([2, 3]))


def _keras_model():
  return tf.keras.Sequential([
      tf.keras.layers.Dense(4, 'relu', input_shape=(3,)),
      tf.keras.layers.Dense(2),
  ])


def test_weights_go_back_into_a_keras_model():
  model = keras.from_keras(_keras_model, 'mse', y_spec=tf.TensorSpec([None, 2]))
  weights = model.initial_weights(5)
  x = np.random.default_rng(0).normal(size=[7, 3]).astype(np.float32)
  expected = model.predict(weights, x, False, tf.zeros([2], tf.int64))
  merged = export.merge_into(_keras_model(), weights)
  np.testing.assert_allclose(merged(x), expected, rtol=1e-5)


def _network():
  inputs = tf.keras.Input([3])
  x = tf.keras.layers.Dropout(0.2)(
      tf.keras.layers.Dense(20, 'relu')(inputs)
  )
  return tf.keras.Model(inputs, tf.keras.layers.Dense(2)(x))


@pytest.mark.parametrize(
    'name', ['fedhm', 'fedavg', 'fedper', 'floral', 'ditto']
)
def test_a_client_of_a_keras_model_is_a_keras_model(name, tmp_path):
  """As a SavedModel, and back in Keras: the same predictions."""
  loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  task = dataclasses.replace(
      tiny.task(), model=keras.from_keras(_network(), loss)
  )
  process, state, clients = _after_a_round(name, task)
  weights = export.export_saved_model(
      process, state, task.train[2], str(tmp_path / 'model'), clients[2]
  )
  x = task.test[2]['examples']['x']
  loaded = tf.saved_model.load(str(tmp_path / 'model'))
  predictions = loaded.predict(x)
  target = _network()
  before = target(x)
  merged = export.merge_into(target, weights, process.deployed)
  np.testing.assert_allclose(merged(x), predictions, rtol=1e-5, atol=1e-6)
  assert np.max(np.abs(merged(x) - before)) > 1e-3


def test_weights_with_frozen_layers_go_back_too():
  frozen = _keras_model()
  frozen.layers[0].trainable = False
  model = keras.from_keras(frozen, 'mse', y_spec=tf.TensorSpec([None, 2]))
  weights = [leaf + 1.0 for leaf in model.initial_weights(5)]
  every = model.all_weights(tuple(weights))
  assert len(every) == 4 and len(weights) == 2
  for some in (weights, every):
    target = _keras_model()
    target.set_weights(frozen.get_weights())
    target.layers[0].trainable = False
    export.merge_into(target, some)
    np.testing.assert_allclose(target.layers[1].kernel, weights[0])


def test_raises_on_what_does_not_fit(tmp_path):
  several = [np.zeros([2, *v.shape]) for v in _keras_model().weights]
  for weights, message in (
      (several, 'Tip: several models do not fit into'),
      ((np.zeros([3, 4]),), 'found shapes .*Tip: weights with adap'),
  ):
    with pytest.raises(ValueError, match=message):
      export.merge_into(_keras_model(), weights)
  with pytest.raises(ValueError, match='saved_model, keras, npz, found onnx'):
    export.save('onnx', None, (), str(tmp_path / 'a'))
