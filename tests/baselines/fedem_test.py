"""FedEM: responsibilities, the gradient of the M-step, its reductions."""

import collections
import types

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedem
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import example_losses
from tff_pers.config import methods
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import keras
from tff_pers.models import mixtures
from tff_pers.models import zoo

_VALUES = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def _count(num_examples):
  return dict(num_examples=tf.constant(num_examples))


@pytest.mark.parametrize(
    'mixing, expected',
    [([0.5, 0.5], [0.710950, 0.289050]), ([0.2, 0.8], [0.380767, 0.619233])],
)
def test_responsibilities(mixing, expected):
  """Baselines B17, 4.1: losses (.1, 1)."""
  q, pi = fedem.e_step(
      tf.constant(mixing, tf.float64), tf.constant([[0.1, 1.0]], tf.float64),
      _count(1),
  )
  np.testing.assert_allclose(q, [expected], rtol=0, atol=1e-6)
  np.testing.assert_array_equal(pi, q[0])


def test_mixing_is_the_mean_over_examples_alone():
  """Baselines B17, 4.1: three examples; a row of padding does not count."""
  losses = tf.constant([[0.1, 1], [2, 0.5], [0.3, 0.3], [9, -9]], tf.float64)
  uniform = tf.constant([0.5, 0.5], tf.float64)
  _, pi = fedem.e_step(uniform, losses, _count(3))
  np.testing.assert_allclose(pi, [0.464458, 0.535542], rtol=0, atol=1e-6)
  _, pi = fedem.e_step(uniform, losses, _count(0))
  np.testing.assert_array_equal(pi, uniform)


def test_gradient_of_the_m_step_is_that_of_the_marginal_loss():
  """Baselines B17, 4.1: q at the current parameters, in float64 1e-12."""
  model, data = problems.tiny_model(), problems.tiny_clients()[4]
  models = mixtures.initial_models(model, 3, 1)
  pi = tf.constant([0.2, 0.5, 0.3], tf.float64)
  batch = problems.batch(
      *map(data['examples'].get, 'xy'), [True] * 5 + [False] * 2
  )
  def losses():
    return tf.stack([
        model.example_loss(
            batch.y,
            model.predict(mixtures.select(models, c), batch.x, True, None),
        ) for c in range(3)
    ], axis=1)
  q, _ = fedem.e_step(pi, losses(), _count(7))
  with tf.GradientTape(persistent=True) as tape:
    tape.watch(models)
    m_step = fedem.weighted_loss(model, models, batch, q)
    marginal = -tf.reduce_mean(
        tf.reduce_logsumexp(tf.math.log(pi) - losses(), axis=1)[:5]
    )
  pairs = zip(tape.gradient(m_step, models), tape.gradient(marginal, models))
  for a, b in pairs:
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert np.abs(a).max() > 1e-3


def test_exact_em_never_increases_the_marginal_loss():
  """Baselines 4.1: scalar Gaussian components, exact M-step."""
  y = np.concatenate([
      np.random.default_rng(0).normal(m, 1, 20) for m in (-2, 1, 4)
  ])
  means, pi = np.array([0.0, 0.5, 1.0]), tf.constant([1 / 3] * 3, tf.float64)
  marginals = []
  for _ in range(30):
    losses = (y[:, None] - means) ** 2 / 2
    marginals.append(-np.mean(np.log(np.exp(-losses) @ pi.numpy())))
    q, pi = fedem.e_step(pi, tf.constant(losses), _count(60))
    means = (q.numpy() * y[:, None]).sum(axis=0) / q.numpy().sum(axis=0)
  assert np.all(np.diff(marginals) <= 1e-12)
  assert marginals[0] - marginals[-1] > 0.5
  assert means[0] < -1 and means[2] > 3


def _message(models):
  return collections.OrderedDict(
      seed=tf.constant(0, tf.int64), round=tf.constant(0), models=models
  )


def _state(mixing):
  return dict(mixing=tf.constant(mixing, tf.float64))


def test_identical_components_stay_identical():
  """Baselines 4.1: and responsibilities stay equal to pi."""
  model = problems.tiny_model()
  models = tf.nest.map_structure(
      lambda leaf: tf.stack([leaf, leaf]), model.initial_weights(1)
  )
  values = fedem.FedEmHyperparameters(num_models=2, **_VALUES)
  output = fedem.build_fedem_work(model, values, 2, 'examples').update(
      _message(models), _state([0.5, 0.5]),
      rounds.tensors(problems.tiny_clients()[4]),
  )
  np.testing.assert_array_equal(output.client_state['mixing'], [0.5, 0.5])
  for leaf in output.update['adaptors']:
    np.testing.assert_array_equal(leaf[0], leaf[1])


def test_responsibilities_follow_their_examples_and_are_frozen():
  """Baselines 4.1, errors: shuffled batches; the old pi; divided by |b|.

  Against local steps that compute q per batch from the received models.
  """
  model, client = problems.tiny_model(), problems.tiny_clients()[3]
  data, models = rounds.tensors(client), mixtures.initial_models(model, 2, 1)
  values = fedem.FedEmHyperparameters(num_models=2, **_VALUES)
  output = fedem.build_fedem_work(model, values, 2, 'examples').update(
      _message(models), _state([0.3, 0.7]), data
  )

  def step(w, batch):
    def losses(table):
      return [
          model.example_loss(
              batch.y,
              model.predict(mixtures.select(table, c), batch.x, True, None),
          ) for c in range(2)
      ]
    weighted = tf.stack(
        [p * tf.exp(-l) for p, l in zip((0.3, 0.7), losses(models))]
    )
    q = weighted / tf.reduce_sum(weighted, axis=0)
    mask = tf.cast(batch.mask, tf.float64)
    with tf.GradientTape() as tape:
      tape.watch(w)
      loss = tf.reduce_sum(q * tf.stack(losses(w)) * mask)
      loss /= tf.reduce_sum(mask)
    return tf.nest.map_structure(
        lambda leaf, g: leaf - 0.1 * g, w, tape.gradient(loss, w)
    )

  final = client_data.fold_batches(
      data, step, models, seed=random.key(0, 0, 3, 0), batch_size=2,
      num_steps=5,
  )
  for start, end, update in zip(models, final, output.update['adaptors']):
    np.testing.assert_allclose(update, start - end, rtol=0, atol=1e-12)
  table = example_losses.compute(model, models, 2, data)
  _, pi = fedem.e_step(_state([0.3, 0.7])['mixing'], table, data)
  np.testing.assert_allclose(output.client_state['mixing'], pi, rtol=1e-12)
  # The same weight for every component: not the mixing.
  np.testing.assert_array_equal(output.weight, [6, 6, 6])


def test_new_clients_take_five_e_steps_and_others_one():
  """Baselines 4.1: from uniform pi, models frozen, on training data.

  One that has not been sampled yet is no new client, here as elsewhere.
  """
  process, states, client_states, _ = rounds.run('fedem')
  clients, model = problems.tiny_clients(), problems.tiny_model()
  adapt = [dict(clients[4], index=np.int32(5)), clients[4], clients[0]]
  fresh = process.initialize_client(states[-1], 4)
  results = process.evaluate(
      states[-1], [fresh, fresh, client_states[0]],
      [dict(adapt=a, test=clients[1]) for a in adapt],
  )
  np.testing.assert_allclose(fresh['mixing'], [1 / 3] * 3)
  starts = (fresh['mixing'], fresh['mixing'], client_states[0]['mixing'])
  for result, a, start, steps in zip(results, adapt, starts, (5, 1, 1)):
    data = rounds.tensors(a)
    table = fedem.negative_log_likelihoods(
        model, states[-1]['models'], 3, data
    )
    pi = tf.constant(start)
    for _ in range(steps):
      _, pi = fedem.e_step(pi, table, data)
    np.testing.assert_allclose(result['router'], pi, rtol=1e-12)
    assert np.abs(result['router'] - start).max() > 1e-3


def test_deploys_the_mixture_of_probabilities():
  """Baselines 4.1: test loss is -log sum_c pi_c p_c(y)."""
  process, states, client_states, _ = rounds.run('fedem')
  client = problems.tiny_clients()[0]
  result = rounds.evaluated(process, states[-1], client_states[0], client)
  table = fedem.negative_log_likelihoods(
      problems.tiny_model(), states[-1]['models'], 3, rounds.tensors(client)
  )
  expected = -np.mean(np.log(np.exp(-table) @ result['router']))
  np.testing.assert_allclose(result['loss'], expected, rtol=1e-12)


def _regression(num_targets):
  return zoo.build(
      'linear_regression', tf.TensorSpec([None, 2]), 0, num_targets=num_targets
  )


def _of_keras(loss):
  layer = tf.keras.layers.Dense(3, input_shape=(2,))
  return keras.from_keras(
      tf.keras.Sequential([layer]), loss, y_spec=tf.TensorSpec([None, 3])
  )


@pytest.mark.parametrize('model', [
    _regression(1), _regression(3), _of_keras('mse'),
    _of_keras(tf.keras.losses.MeanSquaredError()),
], ids=['one', 'several', 'name', 'object'])
def test_squared_errors_are_likelihoods_of_unit_variance(model):
  """Baselines 4.1: sum of squares / 2; also of several targets."""
  shape = [1, *model.y_spec.shape[1:]]
  data = rounds.tensors(client_data.dense(
      0, np.zeros([1, 2], np.float32), np.full(shape, 2, np.float32)
  ))
  np.testing.assert_allclose(
      fedem.negative_log_likelihoods(
          model, mixtures.initial_models(model, 1, 0), 1, data
      ), [[np.prod(shape) * 4 / 2]], rtol=1e-6,
  )


def test_likelihoods_of_a_sequence_are_of_all_its_steps():
  network = tf.keras.Sequential([
      tf.keras.layers.Embedding(5, 5, 'uniform', input_length=7)
  ])
  loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  model = keras.from_keras(
      network, loss, y_spec=tf.TensorSpec([None, 7], tf.int32)
  )
  tokens = np.random.default_rng(0).integers(5, size=[4, 7]).astype(np.int32)
  data = rounds.tensors(
      client_data.dense(0, tokens.astype(np.float32), tokens)
  )
  logits = network(tokens).numpy()
  each = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(
      logits, tokens[..., None], -1
  )[..., 0]
  np.testing.assert_allclose(
      fedem.negative_log_likelihoods(
          model, mixtures.initial_models(model, 1, 0), 1, data
      )[:, 0], each.sum(axis=1), rtol=1e-5,
  )


@pytest.mark.parametrize('groups, number', [((0, 4, 1), 5), ((), 3)])
def test_has_as_many_components_as_the_task_has_clusters(
    groups, number, monkeypatch
):
  """Like FLoRAL, IFCA and the ensemble; 3 where clusters are not known."""
  monkeypatch.setattr(
      fedem, 'build_fedem', lambda *args, num_models, **options: num_models
  )
  task = types.SimpleNamespace(
      model=None, groups=groups, has_groups=bool(groups), num_clients=3,
      client_weighting='examples',
  )
  assert methods.get('fedem').build(task, None) == number
