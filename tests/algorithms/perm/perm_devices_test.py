"""PERM of clients with models of different width: perm 2.5 and check 15a."""

import collections
import functools
import types

import numpy as np
import pytest
import tensorflow as tf

from tests import acting
from tests import problems
from tests import slow
from tests.algorithms.perm import perm_numpy
from tests.baselines import rounds
from tests.baselines import submodel_rounds as sr
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting
from tff_pers.algorithms.perm import visits
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.core import random
from tff_pers.models import submodels
from tff_pers.numerics import distances

_N = 5
_UNITS = [range(count) for count in sr.COUNTS]
_NUM_WEIGHTS = np.array([6 * count + 2 for count in sr.COUNTS])
_SHARES = _NUM_WEIGHTS / _NUM_WEIGHTS[0]
_MODEL = problems.tiny_model(sr.HIDDEN)
_STEP = dict(local_steps=4, batch_size=2, learning_rate=0.2, weight_decay=0.1)
_LOCAL = local_step.LocalStep(momentum=0.5, weight_decay=0.1)  # Of `sr.STEP`.


def _hyperparameters(**values):
  return acting.hyperparameters(
      perm.PermHyperparameters,
      dict(
          _STEP, momentum=0.5, warmup_rounds=1, global_learning_rate=0.3,
          # So that clients deploy the row or the mixture itself.
          own_rounds=0, adapt_epochs=0,
      ),
      **values,
  )


@functools.lru_cache(maxsize=None)
def _devices(assign=sr.assign, **values):
  """Returns devices with 6, 3 and 2 of 6 units; client i is in tier i mod 3."""
  return perm_devices.Devices(_MODEL, sr.parts(), assign, **values)


def _client(devices):
  return perm_client.Client(devices, _hyperparameters(), _N)


def _weights():
  rng = np.random.default_rng(0)
  return [rng.standard_normal(spec.shape) for spec in _MODEL.spec]


def _mask(tier):
  """Returns 1 for each weight that a tier has, a vector."""
  zeros = [np.zeros(spec.shape) for spec in _MODEL.spec]
  own = [np.ones(leaf.shape) for leaf in sr.cut(zeros, _UNITS[tier])]
  return _flat(sr.put(zeros, own, _UNITS[tier]))


def _flat(leaves):
  return np.concatenate([np.ravel(leaf) for leaf in leaves])


def _close(actual, expected):
  for found, leaf in zip(actual, expected):
    np.testing.assert_allclose(found, leaf, rtol=1e-10, atol=1e-12)


def _process(devices, num_new_clients=0, **values):
  values = dict(dict(lambda_=40.0), **values)
  return perm.build_perm(
      _MODEL, _N, _hyperparameters(**values), devices=devices,
      num_new_clients=num_new_clients,
  )


def _both(data):
  return collections.OrderedDict(adapt=data, test=data)


# --- Check 15a: whole models. ---


@pytest.mark.parametrize('full', [True, False])
def test_of_whole_models_it_is_perm_bit_for_bit(full):
  """Through warm-up, the choice of kappa, and visits."""
  widths = perm_devices.Devices(
      _MODEL, submodels.Submodels(_MODEL, (1.0, 1.0)),
      lambda seed, round_num, index: index % 2,
  )
  found = []
  for devices in (None, widths):
    process = perm.build_perm(
        _MODEL, _N, _hyperparameters(warmup_rounds=2), devices=devices,
        full_participation=full,
    )
    state, seen = process.initialize_seeded(sr.SEED), []
    for cohort in (range(5), range(5), (0, 2, 4), (3, 1, 0), (1, 2)):
      cohort = range(_N) if full else cohort
      state, metrics = sr.play(process, state, cohort)
      seen.append([*tf.nest.flatten(state), *tf.nest.flatten(metrics)])
    found.append(seen)
    assert np.any(state['models'][0] != state['weights'][0])
  for actual, expected in zip(*found):
    rounds.assert_identical(actual, expected)


# --- (c) Training of what a device has. ---


def _train(devices, weights, owner, host, t, seed=None):
  """Returns (weights, key of the batches) after a visit."""
  client = problems.tiny_clients()[host]
  seed = random.key(sr.SEED, t, host, 0) if seed is None else seed
  final, _ = devices.train(
      tuple(map(tf.constant, weights)), client, seed=seed, owner=owner,
      learning_rate=0.2, local=_LOCAL, batch_size=2, num_steps=4,
  )
  return [leaf.numpy() for leaf in final]


@pytest.mark.parametrize('owner, host', [
    (0, 1), (0, 2), (2, 0), (2, 1), (1, 1), (1, 2), (3, 0), (None, 4)
])
def test_a_visit_trains_the_units_that_both_have(owner, host):
  """The others stay as they are, momentum and weight decay included."""
  tier = max(sr.tier_of(host if owner is None else owner), sr.tier_of(host))
  weights, client = _weights(), problems.tiny_clients()[host]
  found = _train(_devices(), weights, owner, host, 3)
  own = sr.cut(weights, _UNITS[tier])
  alone, _ = local_sgd.train(
      sr.parts().tiers[tier], tuple(map(tf.constant, own)), client,
      learning_rate=0.2, seed=random.key(sr.SEED, 3, host, 0), local=_LOCAL,
      batch_size=2, num_steps=4,
  )
  rounds.assert_identical(
      found, sr.put(weights, [leaf.numpy() for leaf in alone], _UNITS[tier])
  )
  trained = sr.train(own, sr.batches(client, 3))
  _close(found, sr.put(weights, trained, _UNITS[tier]))


def _task(**fields):
  return types.SimpleNamespace(**dict(dict(
      model=_MODEL, tier_assignment='fixed', rank_ratios=(1.0, 0.5),
      num_clients=2, tiers=np.array([2, 0, 1]),
  ), **fields))


@pytest.mark.parametrize('rounding, counts', [
    ('floor', [6, 2, 1]), ('round', [6, 3, 1])
])
def test_devices_are_those_of_the_task(rounding, counts):
  """Check 15a: q = max(1, floor(beta C))."""
  devices = perm_devices.build_devices(_task(), perm.PermHyperparameters(
      tiers='1:0.45:0.1', width_rounding=rounding, vc=2.0, compare='all',
      vc_of='source',
  ))
  assert [devices.parts.num_kept(k)['hidden'] for k in range(3)] == counts
  found = [devices.tier(tf.constant(index)).numpy() for index in range(5)]
  assert found == [2, 0, 1, 0, 1]  # Beyond the table: index mod 3.
  assert (devices.compare, devices.vc, devices.vc_of) == ('all', 2, 'source')


def test_without_tiers_devices_have_the_whole_model():
  devices = perm_devices.build_devices(_task(), perm.PermHyperparameters())
  assert devices == perm_devices.Devices(_MODEL)


# --- (a) w moves by means over the clients that have a coordinate. ---


def _no_whole(seed, round_num, index):
  """Clients have 3 units, or 2; nobody has the last 3."""
  del seed, round_num  # Fixed.
  return 1 + index % 2


def _gradient(weights, client):
  x, y = client['examples']['x'], client['examples']['y']
  return sr.gradient(weights, x, y)


@pytest.mark.parametrize('warmup', slow.beyond(1, ['fedavg', 'gradient']))
def test_w_moves_by_means_over_the_clients_that_have_a_coordinate(warmup):
  """In NumPy; what nobody has does not decay either."""
  process = _process(_devices(_no_whole), warmup=warmup)
  state, weights = sr.start(process)
  trained, sizes = [], []
  for index, client in enumerate(problems.tiny_clients()):
    units = _UNITS[1 + index % 2]
    own = sr.cut(weights, units)
    if warmup == 'fedavg':
      own = sr.train(own, sr.batches(client, 0))
    else:
      own = [w - 0.3 * (g + 0.1 * w) for w, g in zip(
          own, _gradient(own, client)
      )]
    trained.append((units, own))
    sizes.append(float(client['num_examples']))
  after, metrics = sr.play(process, state, range(_N))
  _close(after['weights'], sr.average(weights, trained, sizes))
  assert sr.moved(state, after) == [0, 1, 2]
  mean = 8 * np.mean(_NUM_WEIGHTS[[1, 2, 1, 2, 1]])
  np.testing.assert_allclose(
      [metrics['bytes_down'], metrics['bytes_up']], [mean, mean], rtol=1e-6
  )


# --- (b) Gradients, distances, and what is added to them. ---


@pytest.mark.parametrize('compare', ['intersection', 'all'])
def test_gradients_are_those_of_a_client_s_own_model(compare):
  """Zeros elsewhere; the variance in units of distances."""
  weights, data = _weights(), problems.tiny_clients()[4]
  message = dict(
      seed=sr.SEED, round=0, weights=tuple(map(tf.constant, weights))
  )
  found = _client(_devices(compare=compare)).gradient(message, data)
  own = sr.cut(weights, _UNITS[1])
  zeros = [np.zeros_like(leaf) for leaf in weights]
  _close(found.gradient, sr.put(zeros, _gradient(own, data), _UNITS[1]))
  alone = local_gradient.compute(
      sr.parts().tiers[1], tuple(map(tf.constant, own)), data,
      seed=random.key(sr.SEED, 0, 4, 1),
  )
  scale = _SHARES[1] if compare == 'intersection' else 1.0
  np.testing.assert_allclose(  # Shares are float32.
      found.variance, alone.variance / scale, rtol=1e-6
  )


@pytest.mark.parametrize('compare', ['intersection', 'all'])
def test_distances_are_those_of_numpy(compare):
  devices = _devices(compare=compare)
  clients, owners = np.int32([3, 2, 7, 1, 5]), np.int32([4, 0, 2])
  vectors = np.stack([
      7 * _mask(client % 3) + _mask(client % 3) * row for client, row in zip(
          clients, np.random.default_rng(0).standard_normal([5, 38])
      )
  ])
  expected = np.zeros([3, 5])
  for i, owner in enumerate(owners):
    for j, client in enumerate(clients):
      tier = max(clients[owner] % 3, client % 3)
      if compare == 'intersection':
        mask, share = _mask(tier), _SHARES[tier]
      else:
        mask, share = 1.0, 1.0
      difference = mask * (vectors[owner] - vectors[j])
      expected[i, j] = np.sum(difference**2) / share
  found = devices.pairwise(
      tf.constant(vectors), tf.constant([True] * 5), tf.constant(clients),
      tf.constant(owners),
  )
  np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_clients_of_the_same_data_are_near_in_what_both_have():
  """Units that lead nowhere yet: all that differs is in what one has."""
  w1, b1, w2, b2 = _weights()
  w2[2:] = 0
  found = []
  for compare in ('intersection', 'all'):
    devices = _devices(compare=compare)
    message = dict(
        seed=sr.SEED, round=0, weights=tuple(map(tf.constant, (w1, b1, w2, b2)))
    )
    gradients = [
        distances.flatten(_client(devices).gradient(
            message, dict(problems.tiny_clients()[0], index=np.int32(index))
        ).gradient) for index in range(3)
    ]
    found.append(devices.pairwise(
        tf.stack(gradients), tf.constant([True] * 3), tf.range(3), tf.range(3)
    ).numpy())
  near, far = found
  np.testing.assert_allclose(near, np.zeros([3, 3]), atol=1e-12)
  assert np.all(far[np.triu_indices(3, 1)] > 1e-3)


@pytest.mark.parametrize('vc_of', ['learner', 'source'])
@pytest.mark.parametrize('sizes', [
    (9.0, 9.0, 9.0, 9.0, 9.0), (4.0, 9.0, 2.0, 6.0, 3.0)
])
def test_capacity_is_a_linear_term(vc_of, sizes):
  """perm 2.5; check 15a: of the learner and with equal n_j it does nothing."""
  sizes = np.array(sizes)
  vectors = np.stack([
      _mask(i % 3) * row
      for i, row in enumerate(np.random.default_rng(1).normal(size=[_N, 38]))
  ])
  table = dict(
      fingerprints=tf.constant(vectors), sizes=tf.constant(sizes, tf.float32)
  )
  solve = lambda **values: perm_mixing.Problem(
      _client(_devices(**values)), table, tf.constant(800.0, tf.float64)
  ).all_rows(tf.eye(_N)).numpy()
  plain = solve()
  found = solve(vc=6.0, vc_of=vc_of)
  tiers = np.arange(_N) % 3
  c = _devices().pairwise(
      tf.constant(vectors), tf.constant([True] * _N), tf.range(_N),
      tf.range(_N),
  ).numpy()
  own = _NUM_WEIGHTS[tiers]
  own = own[:, None] if vc_of == 'learner' else own
  c = c + 6 * np.sqrt(own / sizes)
  expected = [perm_numpy.water_level(row, sizes, 800.0) for row in c]
  np.testing.assert_allclose(found, expected, atol=1e-6)
  if vc_of == 'learner' and len(set(sizes)) == 1:
    np.testing.assert_allclose(found, plain, atol=1e-6)
  else:
    assert np.abs(found - plain).max() > 0.01
  assert np.count_nonzero(plain) > 2 * _N


# --- What clients own. ---


@functools.lru_cache(maxsize=None)
def _alone():
  """Returns (process, states, metrics) with a tiny lambda."""
  process = _process(_devices(), 3, lambda_=1e-9)
  states, metrics = [process.initialize_seeded(sr.SEED)], []
  for _ in range(3):
    state, measured = sr.play(process, states[-1], range(_N))
    states.append(state)
    metrics.append(measured)
  return process, states, metrics


def test_without_lambda_clients_train_their_own_models_alone():
  """From their slices of w."""
  process, states, metrics = _alone()
  np.testing.assert_array_equal(states[-1]['mixing'], np.eye(_N))
  w = states[1]['weights']  # After the warm-up.
  for index, client in enumerate(problems.tiny_clients()):
    own = sr.cut([np.asarray(leaf) for leaf in w], _UNITS[sr.tier_of(index)])
    for t in (1, 2):
      own = sr.train(own, sr.batches(client, t))
    _close(process.client_model(states[-1], (), index), own)
  # w down, G_i up; a model and a number down, a model up.
  mean = np.mean(_NUM_WEIGHTS[[0, 1, 2, 0, 1]])
  np.testing.assert_allclose(
      [metrics[-1]['bytes_down'], metrics[-1]['bytes_up']],
      [8 * (2 * mean + 1), 8 * 2 * mean], rtol=1e-6,
  )


def test_clients_deploy_the_models_of_their_tiers():
  """New ones, of which 7 is in tier 1, a mixture."""
  process, states, _ = _alone()
  data = problems.tiny_clients()[3]
  x, y = data['examples']['x'], data['examples']['y']
  some = [dict(data, index=np.int32(index)) for index in (1, 2, 3, 5, 7)]
  for state in (states[1], states[-1]):
    deployed = process.deploy(state, [()] * 5, some)
    metrics = process.evaluate(state, [()] * 5, list(map(_both, some)))
    for client, found, measured in zip(some, deployed, metrics):
      index = int(client['index'])
      tier = sr.tier_of(index)
      own = tuple(map(tf.constant, found['weights']))
      assert own[1].shape == (sr.COUNTS[tier],)
      logits = sr.parts().tiers[tier].predict(own, x, False, None)
      loss = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
      np.testing.assert_allclose(measured['loss'], np.mean(loss), rtol=1e-10)
      if index < _N:
        rounds.assert_identical(
            list(own), list(process.client_model(state, (), index))
        )
      elif state is states[1]:  # Before any comparison.
        rounds.assert_identical(
            list(own), sr.cut(list(state['weights']), _UNITS[tier])
        )


@pytest.mark.parametrize('adapt_epochs', [1, 0])
def test_new_clients_adapt_the_models_of_their_tiers(adapt_epochs):
  """Client 5 is in tier 2, from the shared model."""
  process = _process(_devices(), 1, adapt_epochs=adapt_epochs)
  state, weights = sr.start(process)
  new = dict(problems.tiny_clients()[3], index=np.int32(5))
  found, = process.deploy(state, [()], [new])
  own = tuple(map(tf.constant, sr.cut(weights, _UNITS[2])))
  if adapt_epochs:
    own, _ = local_sgd.train(
        sr.parts().tiers[2], own, new, learning_rate=0.2, local=_LOCAL,
        seed=random.key(0, 4, 5), batch_size=2, num_epochs=1,
    )
  _close(found['weights'], own)


@pytest.mark.parametrize('owner, host', [(0, 2), (2, 0), (1, 2), (3, 0)])
def test_bytes_of_a_visit_are_those_of_what_both_have(owner, host):
  weights = _weights()
  hosted = collections.OrderedDict(
      models=tuple(tf.constant(leaf)[None] for leaf in weights),
      multipliers=tf.constant([0.5], tf.float64), owners=tf.constant([owner]),
      round=tf.constant(2), seed=tf.constant(sr.SEED, tf.int64),
  )
  # pylint: disable-next=protected-access
  done = visits._visit(
      setting.Setting(_devices(), _hyperparameters(), _N), hosted,
      problems.tiny_clients()[host],
  )
  both = min(_NUM_WEIGHTS[[owner % 3, host % 3]])
  found = [done['report'][name] for name in ('bytes_down', 'bytes_up')]
  np.testing.assert_allclose(found, [8 * both + 8, 8 * both], rtol=1e-6)
  units = _UNITS[max(owner % 3, host % 3)]
  models = [leaf[0].numpy() for leaf in done['rows']['models']]
  moved = sr.moved(dict(weights=weights), dict(weights=models))
  assert moved == list(units)


# --- Digits. ---
