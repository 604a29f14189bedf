"""Local SGD against NumPy, and one client work in its two forms."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import tff_client_work
from tff_pers.config import hyperparameters as hp
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import zoo

MODEL = zoo.build(
    'linear_regression', tf.TensorSpec([None, 3], tf.float64), 0,
    dtype=tf.float64,
)


def _client(num_examples, index=0):
  rng = np.random.default_rng(num_examples)
  x, y = rng.normal(size=[num_examples, 3]), rng.normal(size=num_examples)
  return client_data.dense(index, x, y)


def _start():
  return (
      tf.constant([[1.0], [-2], [3]], tf.float64),
      tf.constant([0.5], tf.float64),
  )


def _numpy_sgd(data, rate, *, seed, batch_size, **budget):
  """Steps of w <- w - rate * mean gradient of (x w + b - y)^2."""
  kernel, bias = (w.numpy() for w in _start())
  x, y = data['examples']['x'], data['examples']['y']
  rows, mask = client_data.batch_rows(
      data['num_examples'], len(x), seed=seed, batch_size=batch_size, **budget
  )
  losses = []
  for batch, counts in zip(rows.numpy(), mask.numpy()):
    batch = batch[counts]
    residual = x[batch] @ kernel[:, 0] + bias[0] - y[batch]
    losses.append(np.mean(residual**2))
    kernel = kernel - rate * 2 * (x[batch].T @ residual)[:, None] / len(batch)
    bias = bias - rate * 2 * np.mean(residual)
  return (kernel, bias), np.mean(losses)


@pytest.mark.parametrize(
    'budget',
    [dict(num_steps=7, batch_size=4), dict(num_epochs=2, batch_size=3)],
)
def test_train_matches_numpy(budget):
  """Ten examples: short last batches of 2 and of 1 example."""
  data, key = _client(10), random.key(1, 2)
  actual, loss = local_sgd.train(
      MODEL, _start(), data, learning_rate=0.05, seed=key, **budget
  )
  expected, expected_loss = _numpy_sgd(data, 0.05, seed=key, **budget)
  np.testing.assert_allclose(actual[0], expected[0], rtol=1e-10)
  np.testing.assert_allclose(actual[1], expected[1], rtol=1e-10)
  np.testing.assert_allclose(loss, expected_loss, rtol=1e-10)


def test_train_without_examples_stays():
  actual, loss = local_sgd.train(
      MODEL, _start(), _client(0), learning_rate=0.1, seed=random.key(0),
      num_steps=3, batch_size=4,
  )
  np.testing.assert_array_equal(actual[0], _start()[0])
  assert loss == 0


@pytest.mark.parametrize('rate', [0.1, tf.constant(0.1, tf.float64)])
def test_descend_keeps_double_precision(rate):
  stepped = local_sgd.descend(_start(), _start(), rate)
  np.testing.assert_allclose(stepped[0], 0.9 * _start()[0], rtol=1e-15)


def test_update_is_initial_minus_final_and_keeps_the_client_state():
  work = local_sgd.build_local_sgd(
      MODEL, hp.LocalTraining(0.05, local_steps=4, batch_size=3), 'examples'
  )
  data = _client(10, index=6)
  message = dict(
      seed=tf.constant(3, tf.int64), round=tf.constant(2), weights=_start()
  )
  output = work.update(message, ('kept',), data)
  final, loss = _numpy_sgd(
      data, 0.05, seed=random.key(3, 2, 6, 0), batch_size=3, num_steps=4
  )
  np.testing.assert_allclose(
      output.update[0], _start()[0] - final[0], rtol=1e-10
  )
  np.testing.assert_allclose(output.loss, loss, rtol=1e-10)
  assert output.client_state == ('kept',)
  assert output.weight == 10


@pytest.mark.parametrize(
    'weighting, weight', [('uniform', 1), ('examples', 10), ('batches', 4)]
)
def test_client_weight_of_dense_data_and_of_batches(weighting, weight):
  data = _client(10)
  dataset = tf.data.Dataset.from_tensor_slices(data['examples']).batch(3)
  pairs = dataset.map(lambda row: (row['x'], row['y']))
  for each in (data, dataset, pairs):
    assert client_work.client_weight(weighting, each, 3) == weight


def test_client_weight_raises_on_unknown():
  with pytest.raises(ValueError, match="uniform, examples, batches, found 'n'"):
    client_work.client_weight('n', _client(2), 1)


def test_key_depends_on_seed_round_client_and_use():
  def key(seed=1, round_num=2, index=3, use=4):
    message = dict(seed=seed, round=round_num)
    return tuple(client_work.key(message, dict(index=index), use).numpy())
  keys = [key(), key(seed=9), key(round_num=9), key(index=9), key(use=9)]
  assert len(set(keys)) == 5
  assert key() == keys[0]
  dataset = tf.data.Dataset.range(3)
  of_dataset = client_work.key(dict(seed=1, round=2), dataset, 4)
  assert tuple(of_dataset.numpy()) == key(index=0)


def test_message_type_sorts_its_fields():
  message = client_work.message_type(weights=np.float32, control=np.float64)
  assert tff.structure.name_list(message) == [
      'seed', 'round', 'control', 'weights'
  ]


def _learning(work):
  """Returns TFF's learning process around a client work, of seed 5."""
  model_weights = tff.learning.models.ModelWeights(MODEL.weights_type, ())
  weights_type = tff.to_type(model_weights)

  @tff.tensorflow.computation
  def initial_weights():
    return tff.learning.models.ModelWeights(MODEL.init(random.key(0)), ())

  return tff.learning.templates.compose_learning_process(
      initial_weights,
      tff.learning.templates.build_broadcast_process(weights_type),
      tff_client_work.as_client_work_process(work, MODEL, seed=5),
      tff.aggregators.MeanFactory().create(
          MODEL.weights_type, tff.TensorType(np.float32)
      ),
      tff.learning.templates.build_apply_optimizer_finalizer(
          tff.learning.optimizers.build_sgdm(1.0), weights_type
      ),
  )


def test_both_forms_train_alike_in_a_tff_learning_process():
  """`as_client_work_process` composes with TFF's own parts, on `tf.data`.

  The dataset holds the very batches that the dense form visits in round 0.
  """
  hyperparameters = hp.LocalTraining(0.05, local_steps=4, batch_size=3)
  work = local_sgd.build_local_sgd(MODEL, hyperparameters, 'uniform')
  seed = 5
  clients = [_client(6), _client(9)]
  key = random.key(seed, 0, 0, 0)

  def batches(data):
    rows, mask = client_data.batch_rows(
        data['num_examples'], len(data['examples']['x']), seed=key,
        batch_size=3, num_steps=4,
    )
    assert np.all(mask)
    return tf.data.Dataset.from_tensor_slices(
        collections.OrderedDict(
            (name, value[rows.numpy()])
            for name, value in data['examples'].items()
        )
    )

  learning = _learning(work)
  output = learning.next(
      learning.initialize(), [batches(data) for data in clients]
  )
  trained = learning.get_model_weights(output.state).trainable

  data_type = client_data.client_data_type(MODEL.x_spec, MODEL.y_spec)
  dense = client_work.as_personalized(
      work, client_work.message_type(weights=MODEL.weights_type),
      tff.to_type(()), data_type,
  )
  message = collections.OrderedDict(
      seed=np.int64(seed), round=np.int32(0),
      weights=(np.zeros([3, 1]), np.zeros([1])),
  )
  outputs = [dense(message, (), data) for data in clients]
  for i in range(2):
    np.testing.assert_allclose(
        trained[i], -np.mean([o['update'][i] for o in outputs], axis=0),
        rtol=1e-10,
    )
  np.testing.assert_allclose(
      output.metrics['client_work']['train']['loss'],
      np.mean([o['loss'] for o in outputs]), rtol=1e-10,
  )
  assert output.state.client_work['round'] == 1


def test_clients_of_nan_and_without_examples_do_not_count_in_tff():
  hyperparameters = hp.LocalTraining(0.05, local_steps=4, batch_size=3)
  learning = _learning(
      local_sgd.build_local_sgd(MODEL, hyperparameters, 'uniform')
  )

  def batches(data):
    return tf.data.Dataset.from_tensor_slices(data['examples']).batch(3)

  good, bad = _client(9), _client(6)
  bad['examples']['x'] = np.full_like(bad['examples']['x'], np.nan)
  alone, all_three = (
      learning.next(learning.initialize(), [batches(data) for data in cohort])
      for cohort in ([good], [good, bad, _client(0)])
  )
  tf.nest.map_structure(
      np.testing.assert_array_equal,
      learning.get_model_weights(all_three.state).trainable,
      learning.get_model_weights(alone.state).trainable,
  )
  train = all_three.metrics['client_work']['train']
  assert train['loss'] == alone.metrics['client_work']['train']['loss'] > 0
  assert train['num_non_finite'] == 1


def test_a_work_that_tffs_client_work_cannot_hold_says_so():

  def on_dense_data(message, client_state, data):
    del message, client_state
    return data['num_examples']

  with pytest.raises(TypeError, match='must need nothing but.*Dataset'):
    tff_client_work.as_client_work_process(
        client_work.ClientWork(on_dense_data), MODEL
    )
