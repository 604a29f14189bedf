"""kNN-Per (papers/neighbours.md 6)."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import knn_per
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import memorization
from tff_pers.data import client_data
from tff_pers.models import export
from tff_pers.models import keras
from tff_pers.models import last_layer
from tff_pers.models import neighbours as neighbours_lib
from tff_pers.models import zoo

_SPEC = tf.TensorSpec([None, 3], tf.float64)
_OPTIONS = dict(local_steps=4, batch_size=4, learning_rate=0.1)


def _client(num_examples, index=0):
  rng = np.random.default_rng(num_examples)
  y = rng.integers(2, size=num_examples).astype(np.int32)
  return client_data.dense(index, rng.normal(size=[num_examples, 3]), y)


def _neighbours(model, k=10, capacity=1000):
  return neighbours_lib.Neighbours(last_layer.of(model), k, capacity)


def _weights(neighbours, client, mixing):
  """Returns what a client deploys: first weights and a given lambda."""
  weights = neighbours.layer.model.init(tf.constant([1, 2], tf.int64))
  store = memorization.build_store(neighbours, weights, rounds.tensors(client))
  return collections.OrderedDict(
      mixing=tf.constant(mixing, tf.float64), store=store, weights=weights
  )


def _predict(deployed, weights, x):
  return np.asarray(deployed.predict(
      tf.nest.map_structure(tf.constant, weights), tf.constant(x), False,
      tf.zeros([2], tf.int64),
  ))


def _softmax(z):
  z = np.exp(np.asarray(z) - np.max(z, axis=1, keepdims=True))
  return z / z.sum(axis=1, keepdims=True)


def _numpy_neighbours(phi, stored, y, k):
  """Returns the shares of the classes among the k nearest, one by one."""
  apart = [
      np.linalg.norm(stored[i] - stored[j])
      for i in range(len(stored)) for j in range(i)
  ]
  scale = np.median(apart) if apart and np.median(apart) else 1.0
  found = np.zeros([len(phi), 2])
  for row, query in enumerate(phi):
    distances = [np.linalg.norm(query - other) for other in stored]
    for j in np.argsort(distances)[:k]:
      found[row, y[j]] += np.exp(-distances[j] / scale)
  return found / found.sum(axis=1, keepdims=True)


def _numpy_features(weights, x):
  """Returns (phi, logits) of the tiny network."""
  w1, b1, w2, b2 = weights
  phi = np.tanh(x @ w1 + b1)
  return phi, phi @ w2 + b2


@pytest.fixture(scope='module', name='trained')
def _trained():
  """Returns (process, server state, clients) after two rounds; k = 3."""
  clients = [_client(size, index=i) for i, size in enumerate([23, 4, 1, 0])]
  process = knn_per.build_knn_per(
      problems.tiny_model(), knn_per.KnnPerHyperparameters(k=3, **_OPTIONS)
  )
  states, _, _ = rounds.train(process, [(0, 1), (0, 2)], clients)
  return process, states[-1], clients


def test_predictions_are_those_of_numpy(trained):
  """All of it by brute force, lambda included; 1e-6."""
  process, state, clients = trained
  deployed = [r['weights'] for r in process.deploy(state, [()] * 4, clients)]
  w = state['weights']
  chosen = []
  for client, weights in zip(clients[:3], deployed):
    message = rounds.message((), rounds.SEED, 2)
    (x_kept, y_kept), (x_held, y_held) = (
        [np.asarray(part['examples'][name])[:int(part['num_examples'])]
         for name in 'xy'] for part in held_out.split(
             rounds.tensors(client), 0.2,
             client_work.key(message, client, use=1),
         )
    )
    losses = [0.0]
    if len(x_held):
      phi, logits = _numpy_features(w, x_held)
      near = _numpy_neighbours(phi, _numpy_features(w, x_kept)[0], y_kept, 3)
      losses = [
          -np.sum(np.log(
              m * near + (1 - m) * _softmax(logits) + 1e-9
          )[range(len(near)), y_held]) for m in np.arange(11) / 10
      ]
    chosen.append(np.argmin(losses) / 10)
    assert weights['mixing'] == pytest.approx(chosen[-1], abs=1e-12)
    x, y = (client['examples'][name] for name in 'xy')
    queries = np.random.default_rng(5).normal(size=[50, 3])
    phi, logits = _numpy_features(w, queries)
    near = _numpy_neighbours(phi, _numpy_features(w, x)[0], y, 3)
    for share in (chosen[-1], 0.3, 1.0):
      found = _predict(
          process.deployed, dict(weights, mixing=np.float64(share)), queries
      )
      expected = share * near + (1 - share) * _softmax(logits)
      np.testing.assert_allclose(_softmax(found), expected, rtol=0, atol=1e-6)
  assert 0 < max(chosen)
  # Without examples there is nothing but the global model.
  assert deployed[3]['mixing'] == 0 and deployed[3]['store']['size'] == 0
  np.testing.assert_allclose(
      _softmax(_predict(process.deployed, deployed[3], queries)),
      _softmax(logits), rtol=1e-12,
  )


def test_a_store_holds_no_more_than_it_can():
  client = _client(20)
  neighbours = _neighbours(problems.tiny_model(), capacity=6)
  weights = _weights(neighbours, client, 1.0)
  store = weights['store']
  assert store['size'] == 6 and store['features'].shape == (6, 4)
  everything, _ = _numpy_features(
      weights['weights'], client['examples']['x']
  )
  np.testing.assert_allclose(store['features'], everything[:6])
  np.testing.assert_array_equal(
      store['labels'], client['examples']['y'][:6]
  )
  x = client['examples']['x']
  assert np.isfinite(_predict(neighbours.deployed(), weights, x)).all()


def test_more_examples_than_it_can_hold_are_drawn(trained):
  """Of 23 examples other ones than the first six, none twice."""
  _, state, clients = trained
  process = knn_per.build_knn_per(
      problems.tiny_model(), knn_per.KnnPerHyperparameters(max_store=6)
  )
  store = process.deploy(state, [()], clients[:1])[0]['weights']['store']
  everything, _ = _numpy_features(
      state['weights'], clients[0]['examples']['x']
  )
  places = [
      np.flatnonzero(np.isclose(everything, row).all(axis=1))[0]
      for row in store['features']
  ]
  assert len(set(places)) == 6 and max(places) > 5


def test_equal_features_have_scale_one():
  client = _client(6)
  client['examples']['x'][:] = 1.0
  weights = _weights(_neighbours(problems.tiny_model()), client, 1.0)
  assert weights['store']['scale'] == 1.0


def test_numbers_are_mixed_with_the_mean_of_the_neighbours():
  """By hand: features 0, 1, 3 of labels 1, 2, 4, k = 2, asked at .5."""
  model = zoo.build(
      'linear_regression', tf.TensorSpec([None, 1], tf.float64), 0,
      dtype=tf.float64,
  )
  neighbours = _neighbours(model, 2, 4)
  weights = (tf.constant([[10.0]], tf.float64), tf.constant([7.0], tf.float64))
  client = rounds.tensors(client_data.dense(
      0, np.array([[0.0], [1.0], [3.0]]), np.array([1.0, 2.0, 4.0])
  ))
  store = memorization.build_store(neighbours, weights, client)
  assert store['scale'] == 2.0  # Of 1, 2, 3.
  ask = lambda x, mixing: neighbours.deployed().predict(
      dict(mixing=tf.constant(mixing, tf.float64), store=store,
           weights=weights), tf.constant([[x]], tf.float64), False,
      tf.zeros([2], tf.int64),
  )[0, 0]
  np.testing.assert_allclose(ask(0.5, 1.0), 1.5, rtol=1e-9)
  np.testing.assert_allclose(ask(0.5, 0.25), 0.25 * 1.5 + 0.75 * 12)
  near = np.exp(-0.5)  # 4 is 1 from 3, and 3 from 1.
  np.testing.assert_allclose(ask(2.0, 1.0), 3.0, rtol=1e-9)
  np.testing.assert_allclose(
      ask(4.0, 1.0), (near * 4 + np.exp(-1.5) * 2) / (near + np.exp(-1.5)),
      rtol=1e-9,
  )


def test_one_logit_stands_for_two_classes():
  model = zoo.build('logistic_regression', _SPEC, 2, dtype=tf.float64)
  neighbours = _neighbours(model, 3, 8)
  client = rounds.tensors(client_data.dense(
      0, np.eye(3), np.array([1, 1, 0], np.int32)
  ))
  weights = model.init(tf.zeros([2], tf.int64))
  store = memorization.build_store(neighbours, weights, client)
  said = neighbours.predict(store, tf.zeros([1, 3], tf.float64), 1)
  np.testing.assert_allclose(tf.sigmoid(said), [[2 / 3]], rtol=1e-6)


def _keras_model(activation):
  return tf.keras.Sequential([
      tf.keras.layers.Dense(4, 'relu', input_shape=(3,)),
      tf.keras.layers.Dense(2, activation),
  ])


def test_features_of_a_keras_model_are_what_enters_its_last_layer():
  network = _keras_model(None)
  model = keras.from_keras(
      network, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  )
  x = np.random.default_rng(0).normal(size=[5, 3]).astype(np.float32)
  weights = tuple(tf.constant(v.numpy()) for v in network.trainable_variables)
  z, phi = last_layer.of(model).predict(weights, x, tf.zeros([2], tf.int64))
  np.testing.assert_allclose(z, network(x), rtol=1e-5)
  np.testing.assert_allclose(phi, network.layers[0](x), rtol=1e-5)


@pytest.mark.parametrize('make', [
    lambda: keras.from_keras(
        _keras_model('softmax'), 'sparse_categorical_crossentropy'
    ),
    lambda: keras.from_keras(
        _keras_model(None), 'mse', y_spec=tf.TensorSpec([None, 2]),
        metrics=['categorical_accuracy'],
    ),
    lambda: keras.from_keras(
        _keras_model('relu'), 'mse', y_spec=tf.TensorSpec([None, 2])
    ),
    lambda: problems.q6().model,
    lambda: zoo.build(
        'char_lstm_small', tf.TensorSpec([None, 5], tf.int32), 90
    ),
], ids=['softmax', 'one_hot', 'relu', 'no_layer', 'steps'])
def test_models_without_features_are_refused(make):
  with pytest.raises(ValueError, match='end in a dense layer without activ'):
    knn_per.build_knn_per(make())


def test_what_is_exported_predicts_alike_and_goes_into_no_keras_model(tmp_path):
  client, neighbours = _client(9), _neighbours(problems.tiny_model())
  deployed, weights = neighbours.deployed(), _weights(neighbours, client, 0.4)
  assert 'up to 1000 training examples' in deployed.holds
  path, x = str(tmp_path / 'model'), client['examples']['x']
  export.save_model(deployed, weights, path)
  loaded = tf.saved_model.load(path)
  np.testing.assert_allclose(
      loaded.predict(x), _predict(deployed, weights, x), rtol=1e-9
  )
  network = _keras_model(None)
  weights['weights'] = [v.numpy() for v in network.trainable_variables]
  with pytest.raises(ValueError, match='`to_keras` keeps them all'):
    export.merge_into(network, weights)
