"""Moving statistics are averaged, and moved by nothing but batches."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from baselines import fedavg
from baselines import fedavg_finetuned
from tests import acting
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import kernel_factors
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_step
from tff_pers.config import methods
from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.models import adaptors
from tff_pers.models import keras
from tff_pers.models import partition
from tff_pers.models import tff_models
from tff_pers.models import zoo

_STEPS = 3
_SIZES = (5, 3, 4)  # Below the batch size: every batch has filler rows.
_LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# How to make a method small; its options would move statistics, were they not
# left alone.
_VALUES = dict(
    local_steps=_STEPS, local_epochs=0, batch_size=8, learning_rate=1e-9,
    momentum=0.9, clip_norm=0.01, weight_decay=10.0, server_learning_rate=0.3,
    server_momentum=0.9, slow_step=0.3, mu=10.0, lambda_=10.0, split='norm',
    private_learning_rate=1e-9, private_steps=_STEPS, private_epochs=0,
    option='1',
)
_AVERAGED = (
    'fedadagrad', 'fedadam', 'fedavg', 'fedavg_finetuned', 'fedavgm', 'fedprox',
    'fedyogi', 'lookahead',
)
_PRIVATE = ('fedalt', 'fedbn', 'fedper', 'fedrep', 'fedsim')
_OWN = ('ditto', 'local_only')
_VISITING = ('perm',)
_SPLIT = ('async_ffgg', 'ffgg', 'local_ffgg')  # Only with split=norm.


@pytest.fixture(scope='module')
def network():
  layers = tf.keras.layers
  tf.keras.utils.set_random_seed(0)
  return tf.keras.Sequential([
      layers.Input([4]), layers.Dense(3, name='first'),
      layers.BatchNormalization(momentum=0.8), layers.ReLU(),
      layers.Dense(2, name='dense'),
  ])


@pytest.fixture(scope='module')
def task(network):
  rng = np.random.default_rng(0)
  return task_lib.Task(
      name='batches', model=keras.from_keras(network, _LOSS),
      train=[
          client_data.dense(
              i, rng.normal(i, 1 + i, [size, 4]).astype(np.float32),
              rng.integers(2, size=size).astype(np.int32),
          )
          for i, size in enumerate(_SIZES)
      ],
      test=[], num_classes=2,
  )


@pytest.fixture(scope='module')
def expected(network, task):
  """Keras' moving statistics after the batches of each client, [2][client]."""
  made = []
  for data in task.train:
    clone = tf.keras.models.clone_model(network)
    clone.set_weights(network.get_weights())
    x = data['examples']['x'][:data['num_examples']]
    for _ in range(_STEPS):
      clone(x, training=True)
    made.append(clone.get_weights()[-4:-2])
  return [np.stack(arrays) for arrays in zip(*made)]


def _build(name, task, **values):
  method = methods.get(name)
  return method.build(
      task, acting.hyperparameters(method.hyperparameters, _VALUES, **values)
  )


def _statistics(weights):
  return [leaf for leaf in rounds.leaves(weights) if leaf.shape == (3,)][-2:]


@pytest.mark.parametrize('name, values', [
    *((name, {}) for name in _AVERAGED),
    # One model for all is that of FedAvg.
    ('perm', dict(warmup_rounds=1, lambda_=1.0)),
    ('fedsim', dict(split='adapter')),
], ids=[*_AVERAGED, 'perm', 'fedsim'])
def test_the_server_averages_what_keras_computes(name, values, task, expected):
  process = _build(name, task, **values)
  states, _, _ = rounds.train(process, [(0, 1, 2)], task.train)
  shares = np.array(_SIZES) / sum(_SIZES)
  for found, all_clients in zip(_statistics(states[0]['weights']), expected):
    np.testing.assert_allclose(found, shares @ all_clients, rtol=1e-5)


@pytest.mark.parametrize('name', (*_PRIVATE, *_OWN))
def test_the_client_keeps_what_keras_computes(name, task, expected):
  _, clients, _ = rounds.train(_build(name, task), [(0, 1, 2)], task.train)
  for i in range(len(_SIZES)):
    for found, all_clients in zip(_statistics(clients[i]), expected):
      np.testing.assert_allclose(found, all_clients[i], rtol=1e-5)


def test_they_travel_with_the_models_of_perm(task, expected):
  """At lambda -> 0 every model stays with its client.

  The shared model takes one step down the gradient, which moves no statistics,
  though weights decay; and where gradients are compared theirs are 0.
  """
  process = _build(
      'perm', task, warmup_rounds=0, lambda_=1e-9, global_learning_rate=0.01
  )
  states, _, _ = rounds.train(process, [(0, 1, 2)], task.train)
  tables = [
      leaf for leaf in rounds.leaves(states[0]['models'])
      if leaf.shape == (3, 3)
  ][-2:]
  for found, all_clients in zip(tables, expected):
    np.testing.assert_allclose(found, all_clients, rtol=1e-5)
  initial = _statistics(process.initialize_seeded(0)['weights'])
  for found, before in zip(_statistics(states[0]['weights']), initial):
    np.testing.assert_array_equal(found, before)
  gradient = local_gradient.compute(
      task.model, task.model.initial_weights(0), task.train[0],
      seed=tf.zeros([2], tf.int64),
  ).gradient
  assert not any(map(np.any, _statistics(gradient)))


def test_perm_refuses_tiers_with_statistics(task):
  model = zoo.build('mlp_bn', task.model.x_spec, 2)
  with pytest.raises(ValueError, match='batch normalization with tiers, whose parts'):
    _build('perm', dataclasses.replace(task, model=model), tiers='1:0.5')


def test_all_other_methods_refuse(task):
  """In one sentence, before anything is built."""
  task = dataclasses.replace(
      task, groups=np.array([0, 1, 1], np.int32),
      model=zoo.build('mlp_bn', task.model.x_spec, 2),
  )
  known = (*_AVERAGED, *_PRIVATE, *_OWN, *_VISITING, *_SPLIT)
  assert set(known) <= set(methods.names())
  for name in sorted(set(methods.names()) - set(known)):
    with pytest.raises(ValueError, match='no batch normalization that is'):
      _build(name, task)
  for name in _SPLIT:
    with pytest.raises(ValueError, match='moving statistics .* split=norm'):
      _build(name, task, split='output_layer')
    with pytest.raises(ValueError, match='must keep the moving statistics'):
      _build(name, task)
    _build(name, task, stateful=True)
  with pytest.raises(ValueError, match='must keep .* stateless=false'):
    _build('fedalt', task, stateless=True)
  with pytest.raises(ValueError, match="TFF's training does not move"):
    tff_models.to_tff_functional_model(task.model)


def test_robust_rules_are_refused(task):
  with pytest.raises(ValueError, match="`aggregator` must be 'mean' for a"):
    _build('fedavg', task, aggregator='median')
  with pytest.raises(ValueError, match="`aggregator` must be 'mean' for a"):
    fedavg.build_fedavg(
        task.model,
        model_aggregator=tff.learning.robust_aggregator(clipping=True),
    )


def test_the_last_layer_is_that_with_the_last_kernel(task):
  part = fedavg_finetuned.fine_tuned_part(task.model, 'last')
  named = zip(part.weights, part.is_private)
  assert [w.name for w, private in named if private] == [
      'dense/kernel', 'dense/bias'
  ]


def test_a_norm_stays_whole_where_the_input_layer_is_private(task):
  parts = partition.from_scheme(task.model, 'input_layer')
  assert {w.layer for w, p in zip(parts.weights, parts.is_private) if not p} == {
      'dense'
  }


def test_steps_are_those_of_keras(network, task):
  """FedAvg of one client, with momentum, against Keras' own training step."""
  process = _build(
      'fedavg', task, learning_rate=0.1, clip_norm=0.0, weight_decay=0.0,
      server_learning_rate=1.0,
  )
  states, _, _ = rounds.train(process, [(0,)], task.train)
  clone = tf.keras.models.clone_model(network)
  clone.set_weights(network.get_weights())
  clone.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), _LOSS)
  examples = task.train[0]['examples']
  for _ in range(_STEPS):
    clone.train_on_batch(examples['x'][:5], examples['y'][:5])
  found = rounds.leaves(states[0]['weights'])
  own = [*clone.trainable_variables, *clone.non_trainable_variables]
  for ours, theirs in zip(found, own):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
  deployed = process.deploy(states[0], [()], task.train[:1])[0]['weights']
  x = task.train[1]['examples']['x']
  np.testing.assert_allclose(
      task.model.predict(deployed, x, False, tf.zeros([2], tf.int64)),
      clone(x, training=False), rtol=1e-4, atol=1e-5,
  )


def test_statistics_do_not_count_in_the_norm():
  """Where all of them move far, a short gradient keeps its length."""
  local = local_step.LocalStep(clip_norm=1.0, statistics=(False, True))
  weights = (tf.constant([1.0, 1.0]), tf.constant([5.0]))
  sgd = local.apply(
      local.start(weights), (tf.constant([0.3, 0.4]), tf.constant([100.0])), 1.0
  )
  rounds.assert_close(sgd.weights, (np.array([0.7, 0.6], np.float32), [-95.0]))


def test_masks_of_steps_on_axis_1_are_those_of_keras():
  """Each step is a channel there, and has other rows that count."""
  layers = tf.keras.layers
  network = tf.keras.Sequential([
      layers.Input([3, 2]), layers.Masking(),
      layers.BatchNormalization(axis=1, momentum=0.8), layers.Flatten(),
      layers.Dense(2),
  ])
  model = keras.from_keras(network, _LOSS)
  x = np.random.default_rng(0).normal(size=[4, 3, 2]).astype(np.float32)
  x[0, 1:], x[1, 2] = 0, 0
  batch = problems.batch(x, [0, 1, 1, 0])
  weights = model.initial_weights(0)
  _, moved = model.loss_and_gradient(weights, batch)
  network.compile(tf.keras.optimizers.SGD(0.0), _LOSS)
  network.train_on_batch(x, batch.y)
  for position, theirs in zip((-2, -1), network.non_trainable_variables):
    np.testing.assert_allclose(
        weights[position] - moved[position], theirs, rtol=1e-5
    )


def test_adaptors_leave_statistics_alone(task):
  plan = adaptors.full(task.model, 2).plan
  assert [entry.adaptor is None for entry in plan] == list(
      task.model.statistics
  )


def test_wide_kernels_are_not_held_as_factors():
  """Those steps know of no statistics."""
  for name, count in (('mlp', 1), ('mlp_bn', 0)):
    model = zoo.build(name, tf.TensorSpec([None, 300]), 2)
    chosen = kernel_factors.chosen(model, 10, batch_size=5, num_steps=4)
    assert len(chosen.positions) == count
