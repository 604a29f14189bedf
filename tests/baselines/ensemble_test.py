"""Ensemble: its reductions, the router's gradient, who averages what."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import ensemble
from baselines import fedavg
from tests import problems
from tests.baselines import rounds
from tff_pers.models import mixtures

_VALUES = dict(local_steps=5, batch_size=2, learning_rate=0.1)
# Every cohort of `rounds` has both groups; client 4 never trains.
_GROUPS = np.array([0, 1, 1, 0, 0])


def test_oracle_is_separate_fedavg_runs_of_the_groups():
  """Baselines 4.3: each restricted to its group's cohort members."""
  model = problems.tiny_model()
  process = ensemble.build_ensemble(
      model, ensemble.EnsembleHyperparameters(router='oracle', **_VALUES),
      num_models=2, groups=_GROUPS,
  )
  assert not process.is_stateful
  start = process.initialize_seeded(rounds.SEED)
  states, _, _ = rounds.train(process)
  alone = fedavg.build_fedavg(model, fedavg.FedAvgHyperparameters(**_VALUES))
  clients = problems.tiny_clients()
  for c in range(2):
    state = alone.initialize_seeded(rounds.SEED)
    state['weights'] = mixtures.select(start['models'], c)
    for cohort in rounds.COHORTS:
      members = [i for i in cohort if _GROUPS[i] == c]
      assert members
      state = alone.next(
          state, [()] * len(members), [clients[i] for i in members]
      )['state']
    rounds.assert_close(
        mixtures.select(states[-1]['models'], c), state['weights']
    )
  both = [dict(adapt=clients[i], test=clients[i]) for i in (1, 4)]
  results = process.evaluate(states[-1], [(), ()], both)
  np.testing.assert_array_equal([r['router'] for r in results], [[0, 1], [1, 0]])


def _work(num_models, **values):
  """Returns (the client work, the model)."""
  model = problems.tiny_model()
  hyperparameters = ensemble.EnsembleHyperparameters(**{**_VALUES, **values})
  routing = ensemble._Routing(model, hyperparameters, num_models, None)  # pylint: disable=protected-access
  mixed = mixtures.mixture(model, num_models, 'logits')
  return ensemble.build_ensemble_work(
      mixed, hyperparameters, routing, 'examples'
  ), model


def _message(models):
  return collections.OrderedDict(
      seed=tf.constant(0, tf.int64), round=tf.constant(0), models=models
  )


def test_identical_models_never_move_the_router():
  """Baselines 4.3: g_t = 0 exactly, and models stay identical."""
  work, model = _work(2)
  models = tf.nest.map_structure(
      lambda leaf: tf.stack([leaf, leaf]), model.initial_weights(1)
  )
  output = work.update(
      _message(models), dict(router=tf.zeros([2], tf.float64)),
      rounds.tensors(problems.tiny_clients()[4]),
  )
  np.testing.assert_array_equal(output.client_state['router'], [0, 0])
  for leaf in output.update['adaptors']:
    np.testing.assert_array_equal(leaf[0], leaf[1])


def test_one_step_takes_all_gradients_at_the_old_point():
  """Baselines 4.3: g_t,c = pi_c <dl/dout, logits_c - out>; models get pi_c."""
  work, model = _work(
      3, local_steps=1, batch_size=10, learning_rate=0.2,
      router_learning_rate=0.5,
  )
  models = mixtures.initial_models(model, 3, 1)
  t = np.array([0.3, -0.2, 0.5])
  client = problems.tiny_clients()[2]
  output = work.update(
      _message(models), dict(router=tf.constant(t)), rounds.tensors(client)
  )
  x, y = client['examples']['x'], client['examples']['y']
  pi = np.exp(t) / np.exp(t).sum()
  logits = np.stack([
      model.predict(mixtures.select(models, c), x, True, None) for c in range(3)
  ])
  out = np.einsum('c,cbk->bk', pi, logits)
  p = np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
  slope = (p - np.eye(2)[y]) / len(y)  # d(mean loss) / d out
  g = [pi[c] * np.sum(slope * (logits[c] - out)) for c in range(3)]
  assert np.abs(g).max() > 1e-3
  np.testing.assert_allclose(
      output.client_state['router'], t - 0.5 * np.array(g), rtol=1e-12
  )
  np.testing.assert_allclose(np.sum(g), 0, atol=1e-15)
  # The last layer's bias of model c: pi_c times the sum of slopes.
  for c in range(3):
    np.testing.assert_allclose(
        output.update['adaptors'][3][c], 0.2 * pi[c] * slope.sum(axis=0),
        rtol=1e-12,
    )
  after = np.exp(t - 0.5 * np.array(g))
  np.testing.assert_allclose(
      output.weight, np.concatenate([[5], 5 * after / after.sum()]), rtol=1e-6
  )


def test_models_are_averaged_by_the_router_after_training():
  """Baselines 4.3: weights n_i pi_ic, normalised per model over the cohort."""
  process, _, _, _ = rounds.run('ensemble', num_models=2)
  state = process.initialize_seeded(rounds.SEED)
  clients, cohort = problems.tiny_clients(), [0, 2, 3]
  fresh = process.initialize_client(state, 0)
  outputs = process.parts.work(
      process.parts.dispatch(state, cohort), [fresh] * 3,
      [clients[i] for i in cohort],
  )
  after = process.next(
      state, [fresh] * 3, [clients[i] for i in cohort]
  )['state']['models']
  t = np.stack([o['client_state']['router'] for o in outputs])
  pi = np.exp(t) / np.exp(t).sum(axis=1, keepdims=True)
  # Weights travel as float32: relative 1e-7 of a difference below 1.
  q = np.array([3, 5, 6])[:, None] * pi
  q /= q.sum(axis=0)
  assert np.abs(q[:, 0] - q[:, 1]).max() > 1e-3
  for position, leaf in enumerate(state['models']):
    deltas = np.stack([o['update']['adaptors'][position] for o in outputs])
    for c in range(2):
      mean = np.einsum('i,i...->...', q[:, c], deltas[:, c])
      np.testing.assert_allclose(after[position][c], leaf[c] - mean, atol=1e-6)


def test_small_weights_are_skipped_when_a_client_deploys():
  """Baselines 4.3: below 1e-3; the report says pi as it is."""
  process, states, _, _ = rounds.run('ensemble', num_models=2)
  client_state = collections.OrderedDict(router=np.array([0.0, 7.0]))
  weights = process.client_model(states[-1], client_state, 0)
  assert weights['mixing'][0] == 0 and weights['mixing'][1] > 0.999
  kept = collections.OrderedDict(router=np.array([0.0, 6.0]))
  assert process.client_model(states[-1], kept, 0)['mixing'][0] > 2e-3
  result = rounds.evaluated(
      process, states[-1], client_state, problems.tiny_clients()[4]
  )
  np.testing.assert_allclose(result['router'][0], 1 / (1 + np.exp(7)))


@pytest.mark.parametrize('router, known', [
    ('learned', [0.5, 0.5]), ('oracle', [1.0, 0.0])
])
def test_new_clients_learn_a_router(router, known):
  """As in FLoRAL: five full-batch steps without a scale, models frozen."""
  model, data = problems.tiny_model(), problems.tiny_clients()[4]
  process = ensemble.build_ensemble(
      model, ensemble.EnsembleHyperparameters(router=router, **_VALUES),
      num_models=2, groups=_GROUPS, num_clients=5,
  )
  state = rounds.train(process)[0][-1]
  waiting, new = process.evaluate(
      state, [process.initialize_client(state, i) for i in (4, 5)],
      [dict(adapt=d, test=d) for d in (data, dict(data, index=np.int32(5)))],
  )
  np.testing.assert_allclose(waiting['router'], known)
  x, y = data['examples']['x'][:7], data['examples']['y'][:7]
  logits = [
      model.predict(mixtures.select(state['models'], c), x, False, None)
      for c in range(2)
  ]
  t = tf.zeros([2], tf.float64)
  for _ in range(5):
    with tf.GradientTape() as tape:
      tape.watch(t)
      pi = tf.nn.softmax(t)
      loss = tf.reduce_mean(
          tf.nn.sparse_softmax_cross_entropy_with_logits(
              y, pi[0] * logits[0] + pi[1] * logits[1]
          )
      )
    h = tape.gradient(loss, t) / pi
    t -= h / (np.abs(h).max() + 1e-3)
  np.testing.assert_allclose(new['router'], tf.nn.softmax(t), rtol=1e-6)
  assert np.abs(t).max() > 1


@pytest.mark.parametrize('mix', ['logits', 'probabilities'])
def test_oracle_in_rounds_and_of_clients_never_seen(mix):
  """One-hot mixtures of either kind learn; without a cluster they are even."""
  process = ensemble.build_ensemble(
      problems.tiny_model(),
      ensemble.EnsembleHyperparameters(router='oracle', mix=mix, **_VALUES),
      num_models=2, groups=_GROUPS[:4],
  )
  states, _, metrics = rounds.train(process)
  assert all(m['non_finite'].size == 0 for m in metrics)
  assert metrics[-1]['train_loss'] < metrics[0]['train_loss']
  data = [dict(adapt=d, test=d) for d in problems.tiny_clients()[3:5]]
  results = process.evaluate(states[-1], [(), ()], data)
  np.testing.assert_array_equal(
      [r['router'] for r in results], [[1, 0], [0.5, 0.5]]
  )
  weights = process.client_model(states[-1], (), 4)
  np.testing.assert_array_equal(weights['mixing'], [0.5, 0.5])


@pytest.mark.parametrize('groups', [None, np.array([0, 2]), np.array([0, -1])])
def test_raises_on_an_oracle_without_groups(groups):
  with pytest.raises(ValueError, match=r'must be known and in 0\.\.1, the mod'):
    ensemble.build_ensemble(
        problems.tiny_model(),
        ensemble.EnsembleHyperparameters(router='oracle'), num_models=2,
        groups=groups,
    )
