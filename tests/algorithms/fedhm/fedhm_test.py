"""FedHM: checks A6, A7, A9, A10, A11, A12 and A13, and a NumPy oracle."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from tests.algorithms.fedhm import fedhm_numpy
from tff_pers.algorithms.fedhm import fedhm
from tff_pers.algorithms.fedhm import fedhm_hyperparameters as fedhm_hp
from tff_pers.client_works import frobenius_decay
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.data import tiers as tier_assignment
from tff_pers.data.tasks import low_rank_regression
from tff_pers.models import masked
from tff_pers.models import tiered_model
from tff_pers.models import zoo
from tff_pers.numerics import factorization
from tff_pers.testing import tiny

RATIOS = (1.0, 0.5, 0.25, 0.125)
RANKS = (None, 8, 4, 2)
# One client per tier, of different numbers of examples.
SIZES = (30, 20, 25, 15)
# Of a round whose clients do not move by more than 1e-29.
STILL = dict(learning_rate=1e-30)
STEP = dict(local_steps=3, learning_rate=0.05, batch_size=0)
DECAYS = dict(momentum=0.6, weight_decay=0.3, frobenius_decay=0.2)


def _linear(ratios=RATIOS):
  return tiered_model.TieredModel(
      low_rank_regression.linear_model(tf.float64), ratios
  )


def _by_index(seed, round_num, index):
  del seed, round_num  # Fixed.
  return index


def _clients(sizes=SIZES):
  rng = np.random.default_rng(0)
  target = rng.standard_normal((20, 16)) / 4
  made = []
  for i, size in enumerate(sizes):
    x = rng.standard_normal((size, 20)).astype(np.float32)
    y = (x @ target + 0.1 * rng.standard_normal((size, 16))).astype(np.float32)
    made.append(client_data.dense(i, x, y))
  return made


def _nothing(index):
  """A client whose gradient is 0 where the kernel is 0."""
  return client_data.dense(
      index, np.zeros([1, 20], np.float32), np.zeros([1, 16], np.float32)
  )


def _round(process, state, clients):
  return process.next(state, [()] * len(clients), clients)


def _tiered_process(tau=math.inf, ratios=RATIOS, **values):
  return fedhm.build_fedhm(
      _linear(ratios), _by_index,
      fedhm_hp.FedHMHyperparameters(**{**STEP, **values}), tau=tau,
  )


@pytest.fixture(scope='module', name='decayed')
def _decayed():
  """With all of the local step; weights of one client per tier differ."""
  return _tiered_process(
      tau=0.5, learning_rate_schedule='exponential', learning_rate_decay=0.25,
      learning_rate_rounds='2', **DECAYS
  )


def _numpy_round(matrix, clients, ranks, shares, round_num):
  trained = [
      fedhm_numpy.train(
          matrix, rank, client, steps=3, rate=0.05 * 0.5 ** round_num, momentum=0.6, decay=0.3,
          frobenius=0.2,
      )
      for rank, client in zip(ranks, clients)
  ]
  return np.tensordot(shares, np.stack(trained), 1)


def test_rounds_are_those_of_numpy(decayed):
  """Algorithm 1: two rounds of all tiers, then one of two clients."""
  clients = _clients()
  state = decayed.initialize_seeded(3)
  matrix = np.asarray(state['weights'][0])
  shares = fedhm_numpy.alphas(RATIOS, 0.5)
  for t in range(2):
    state = _round(decayed, state, clients)['state']
    matrix = _numpy_round(matrix, clients, RANKS, shares, t)
    np.testing.assert_allclose(state['weights'][0], matrix, atol=1e-6)
  # The weights of the last two alone sum to one.
  state = _round(decayed, state, clients[2:])['state']
  matrix = _numpy_round(
      matrix, clients[2:], RANKS[2:], fedhm_numpy.alphas(RATIOS[2:], 0.5),
      2,
  )
  np.testing.assert_allclose(state['weights'][0], matrix, atol=1e-6)


def test_a_kernel_that_starts_at_zero_learns():
  """From u = 0 the first step is that of u alone: u = -eta v^T g."""
  base = low_rank_regression.linear_model(tf.float64)
  base = dataclasses.replace(
      base, init=lambda key: (tf.zeros([20, 16], tf.float64),)
  )
  process = fedhm.build_fedhm(
      tiered_model.TieredModel(base, (0.25, 0.25)), _by_index,
      fedhm_hp.FedHMHyperparameters(**{**STEP, 'local_steps': 1}),
  )
  clients = _clients()[:2]
  state = process.initialize_seeded(3)
  output = _round(process, state, clients)
  v = np.asarray(state['factors'][0].v)
  expected = -0.05 * v @ v.T @ np.mean([
      fedhm_numpy.gradient(np.zeros((20, 16)), client) for client in clients
  ], axis=0)
  assert np.linalg.norm(expected) > 1e-3
  np.testing.assert_allclose(
      output['state']['weights'][0], expected, rtol=1e-5, atol=1e-8
  )
  assert output['metrics']['energy_top_rmin'] == 0
  # Other directions in every round, whatever was learned.
  later = _round(process, state, [_nothing(0), _nothing(1)])['state']
  assert not np.any(later['weights'][0])
  assert np.all(later['factors'][0].v != v)


def test_metrics_of_a_round(decayed):
  """A12: each client is sent the model of its tier, and returns as much."""
  state = decayed.initialize_seeded(3)
  metrics = _round(decayed, state, _clients())['metrics']
  parameters = [20 * 16, 8 * 36, 4 * 36, 2 * 36]
  assert [t.num_parameters for t in _linear().tiers] == parameters
  for name in ('bytes_down', 'bytes_up'):
    assert metrics[name] * 4 == 8 * sum(parameters)  # float64.
  values = np.linalg.svd(state['weights'][0], compute_uv=False)
  np.testing.assert_allclose(
      metrics['energy_top_rmin'], np.sum(values[:2]**2) / np.sum(values**2),
      rtol=1e-5,
  )
  assert decayed.tier_parameters == dict(
      zip(('1', '0.5', '0.25', '0.125'), parameters)
  )


def test_energy_is_the_mean_over_all_kernels():
  model = zoo.build(
      'mlp', tf.TensorSpec([None, 9], tf.float64), 7, dtype=tf.float64
  )
  tiered = tiered_model.TieredModel(model, (0.5, 0.25), ())
  weights = model.initial_weights(0)
  factors = tiered.decompose(weights, random.key(0))
  shares = []
  for position, rank in tiered.least_ranks.items():
    values = np.linalg.svd(weights[position], compute_uv=False)
    shares.append(np.sum(values[:rank] ** 2) / np.sum(values ** 2))
  assert len(shares) > 1 and np.ptp(shares) > 0.05
  np.testing.assert_allclose(
      tiered.energy(dict(factors=factors, weights=weights)), np.mean(shares),
      rtol=1e-6,
  )


def _attenuated(matrix, shares, ranks=RANKS):
  """Returns U diag(c_i s_i) V^T, and c."""
  left, values, right = np.linalg.svd(matrix, full_matrices=False)
  reached = np.array([
      [rank is None or i < rank for i in range(len(values))] for rank in ranks
  ])
  c = shares @ reached
  return left @ np.diag(c * values) @ right, c, values


def test_round_without_training_attenuates():
  """A6, A9: W+ = U diag(c_i s_i) V^T, c_i the weight of the ranks >= i."""
  process = _tiered_process(tau=0.5, **STILL)
  state = process.initialize_seeded(3)
  matrix = np.asarray(state['weights'][0])
  shares = fedhm_numpy.alphas(RATIOS, 0.5)
  after = _round(process, state, _clients())['state']
  expected, c, values = _attenuated(matrix, shares)
  np.testing.assert_allclose(after['weights'][0], expected, atol=1e-6)
  np.testing.assert_allclose(
      np.sum(np.square(after['weights'][0] - matrix)),
      np.sum((1 - c) ** 2 * values**2), rtol=1e-5,
  )
  # A9: without the largest tier, weights are those of the others.
  two = _round(process, state, _clients()[1::2])['state']
  expected, _, _ = _attenuated(
      matrix, fedhm_numpy.alphas((0.5, 0.125), 0.5), (8, 2)
  )
  np.testing.assert_allclose(two['weights'][0], expected, atol=1e-6)


def test_plateaus_of_equal_tiers():
  """A6: c = 1, 3/4, 1/2, 1/4 with equal weights; a deployed client's model."""
  process = _tiered_process(**STILL)
  state = process.initialize_seeded(3)
  matrix = np.asarray(state['weights'][0])
  after = _round(process, state, _clients())['state']
  expected, c, values = _attenuated(matrix, np.full(4, 0.25))
  np.testing.assert_allclose(
      c, [1] * 2 + [0.75] * 2 + [0.5] * 4 + [0.25] * 8
  )
  np.testing.assert_allclose(after['weights'][0], expected, atol=1e-6)
  np.testing.assert_allclose(
      np.linalg.svd(after['weights'][0], compute_uv=False),
      np.sort(c * values)[::-1], rtol=1e-5,
  )
  for tier, rank in enumerate(RANKS):
    model = process.client_model(state, (), tier)
    (v, u), kernel = model['factors'][0], model['weights'][0]
    if rank is None:
      np.testing.assert_array_equal(kernel, matrix)
      assert v.size == u.size == 0
    else:
      a, b = fedhm_numpy.factors(matrix, rank)
      assert kernel.size == 0 and v.shape == a.shape and u.shape == b.shape
      np.testing.assert_allclose(v @ u, a @ b, atol=1e-10)


@pytest.mark.parametrize('tau, expected', [
    (5.0, (0.2774, 0.2510, 0.2388, 0.2329)),
    (math.inf, (0.25, 0.25, 0.25, 0.25)),
    (0.1, (0.9926, 0.0067, 0.0005, 0.0002)),
])
def test_weights_of_the_tiers(tau, expected):
  """A9."""
  weights = np.array(fedhm.tier_weights(RATIOS, tau))
  np.testing.assert_allclose(weights / weights.sum(), expected, atol=1e-4)


def test_weights_at_the_lowest_temperature_are_not_zero():
  """A client of weight 0 would count as absent."""
  weights = np.float32(fedhm.tier_weights((1.0, 1e-3), 0.02))
  assert weights[1] > 1e-30 and weights[0] == 1


def test_examples_can_count():
  """A9, the option: the weight of a client is multiplied by its examples."""
  process = fedhm.build_fedhm(
      _linear((1.0,)), lambda *where: tf.constant(0),
      fedhm_hp.FedHMHyperparameters(**STEP), client_weighting='examples',
  )
  state, clients = process.initialize_seeded(3), _clients()
  matrix = np.asarray(state['weights'][0])
  expected = sum(
      size * fedhm_numpy.train(
          matrix, None, client, steps=3, rate=0.05, momentum=0, decay=0,
          frobenius=0,
      )
      for size, client in zip(SIZES, clients)
  ) / sum(SIZES)
  after = _round(process, state, clients)['state']
  np.testing.assert_allclose(after['weights'][0], expected, atol=1e-6)


def test_all_of_full_rank_is_fedavg():
  """A7: with equal weights, whatever the local step; metrics but energy."""
  task = tiny.task(client_weighting='uniform')
  values = dict(
      tiny.SMALL, momentum=0.5, weight_decay=0.1, clip_norm=0.5
  )
  processes = [
      methods.get(name).build(
          task, hp.replace(methods.get(name).hyperparameters(), **given)
      )
      for name, given in (
          ('fedhm', dict(values, tiers='1:1')), ('fedavg', values)
      )
  ]
  states = [process.initialize_seeded(3) for process in processes]
  for _ in range(2):
    outputs = [
        _round(process, state, task.train)
        for process, state in zip(processes, states)
    ]
    states = [output['state'] for output in outputs]
  for found, expected in zip(*(
      tf.nest.flatten(state['weights']) for state in states
  )):
    np.testing.assert_allclose(found, expected, atol=1e-6)
  assert 'energy_top_rmin' not in outputs[0]['metrics']
  assert outputs[0]['metrics']['bytes_up'] == outputs[1]['metrics']['bytes_up']


def test_one_step_at_full_rank():
  """A7: M - eta (G (M'M)^1/2 + (MM')^1/2 G) + eta^2 mean_p G_p M' G_p."""
  process = _tiered_process(ratios=(0.999,) * 4, local_steps=1)
  state, clients = process.initialize_seeded(3), _clients()
  matrix, eta = np.asarray(state['weights'][0]), 0.05
  assert _linear((0.999,)).tiers[0].ranks == {0: 16}
  after = _round(process, state, clients)['state']['weights'][0]
  gradients = [fedhm_numpy.gradient(matrix, client) for client in clients]
  left, values, right = np.linalg.svd(matrix, full_matrices=False)
  root_left = left @ np.diag(values) @ left.T
  root_right = right.T @ np.diag(values) @ right
  mean = np.mean(gradients, axis=0)
  second = np.mean([g @ matrix.T @ g for g in gradients], axis=0)
  # Default Frobenius decay: a gradient lambda M of the product.
  mean = mean + 1e-4 * matrix
  expected = (
      matrix - eta * (mean @ root_right + root_left @ mean) + eta**2 * second
  )
  np.testing.assert_allclose(after, expected, atol=1e-5)


# A10, A11: local training by itself.


def _tensors(data):
  return tf.nest.map_structure(tf.constant, data)


def _local(tier, weights, data, steps, rate=0.05, **decays):
  step = frobenius_decay.FactorizedStep(**decays)
  final, _ = local_sgd.train(
      tier.model, weights, _tensors(data), learning_rate=rate,
      seed=random.key(0), local=step, batch_size=0, num_steps=steps,
  )
  return final


def _padded(factors, rank):
  v, u = factors
  missing = rank - v.shape[-1]
  return type(factors)(
      tf.pad(v, [[0, 0], [0, missing]]), tf.pad(u, [[0, missing], [0, 0]])
  )


def test_zeros_in_factors_stay_zeros():
  """A10: padded factors have the products of unpadded ones."""
  tiered, data = _linear(), _clients()[0]
  weights = tiered.base.initial_weights(0)
  small, large = tiered.tiers[2], tiered.tiers[1]
  start = small.factorized(weights, random.key(0))
  found = _local(small, start, data, 5, **DECAYS)[0]
  padded = _local(large, (_padded(start[0], 8),), data, 5, **DECAYS)[0]
  np.testing.assert_allclose(
      factorization.recover(padded), factorization.recover(found), atol=1e-5
  )
  np.testing.assert_array_equal(padded.v[:, 4:], np.zeros((20, 4)))
  np.testing.assert_array_equal(padded.u[4:], np.zeros((4, 16)))


def test_decay_is_in_the_gradient_before_momentum():
  """A5: only pairs of factors have Frobenius decay, only others L2."""
  step = frobenius_decay.FactorizedStep(
      momentum=0.5, weight_decay=0.3, clip_norm=1.0, frobenius_decay=0.2
  )
  factors = factorization.factorize(
      tf.random.stateless_normal([4, 3], [0, 1]), 2
  )
  weights = (tf.constant([1.0, 2.0]), factors)
  gradient = tf.nest.map_structure(lambda w: 0 * w + 3.0, weights)
  clipped = local_step.clip(gradient, 1.0)
  first = step.apply(step.start(weights), gradient, 0.0)
  second = step.apply(first, gradient, 0.1)
  penalty = factorization.squared_norm_gradient(factors)
  expected = [
      clipped[0] + 0.3 * weights[0],
      *(g + 0.2 * p for g, p in zip(clipped[1], penalty)),
  ]
  for found, direction, before in zip(
      tf.nest.flatten(second.weights), expected, tf.nest.flatten(weights)
  ):
    np.testing.assert_allclose(found, before - 0.15 * direction, rtol=1e-5)


def _distance(a, b):
  return sum(np.sum(np.square(x - y)) for x, y in zip(a, b))


def test_factors_of_clients_stay_near_their_mean():
  """A11: Lemma 1 at every step, and the closed forms at the start."""
  ratios, eta, num_steps = (0.999, 0.5, 0.25, 0.125), 0.05, 6
  tiered, clients = _linear(ratios), _clients()
  weights = tiered.base.initial_weights(0)
  ranks = (16, 8, 4, 2)
  starts = [
      tier.factorized(weights, random.key(0)) for tier in tiered.tiers
  ]
  lines, steps = [], []
  for tier, start, client in zip(tiered.tiers, starts, clients):
    line = [start] + [
        _local(tier, start, client, t, eta) for t in range(1, num_steps + 1)
    ]
    lines.append([_padded(weights[0], 16) for weights in line])
    steps += [
        _distance(b, a) / eta**2 for a, b in zip(lines[-1], lines[-1][1:])
    ]
  mean = lambda t: [
      np.mean(part, axis=0) for part in zip(*(line[t] for line in lines))
  ]
  bound = 6 * eta**2 * num_steps**2 * max(steps)
  for t in range(num_steps + 1):
    for line in lines:
      assert _distance(mean(t), line[t]) <= bound + 3 * _distance(
          mean(0), line[0]
      )
  values = np.linalg.svd(weights[0], compute_uv=False)
  c = np.mean([[i < r for i in range(16)] for r in ranks], axis=0)
  v, u = mean(0)
  np.testing.assert_allclose(
      np.sum(np.square(v @ u - weights[0])),
      np.sum((c**2 - 1) ** 2 * values**2), rtol=1e-8,
  )
  for line, rank in zip(lines, ranks):
    np.testing.assert_allclose(
        _distance(mean(0), line[0]),
        2 * np.sum((c - (np.arange(16) < rank)) ** 2 * values), rtol=1e-8,
    )


# A13, on a network.


def test_masked_classes():
  """A13: classes that nobody has keep their rows; others are the owners'."""
  task = _three_classes()
  with_mask, plain = (
      methods.get('fedhm').build(task, fedhm_hp.FedHMHyperparameters(
          tiers='1:0.5', batch_size=4, local_steps=3, masked_loss=on
      ))
      for on in (True, False)
  )
  state = with_mask.initialize_seeded(3)
  after = _round(with_mask, state, task.train)['state']['weights']
  kernel, bias = (np.asarray(leaf) for leaf in after[-2:])
  before, before_bias = (np.asarray(leaf) for leaf in state['weights'][-2:])
  np.testing.assert_array_equal(kernel[:, 2], before[:, 2])
  assert bias[2] == before_bias[2]
  assert np.abs(kernel[:, :2] - before[:, :2]).max() > 1e-3
  without = _round(plain, plain.initialize_seeded(3), task.train)['state']
  assert np.abs(without['weights'][-2][:, 2] - before[:, 2]).max() > 1e-3
  # Only client 0 has class 0: its row is that client's, however many there are.
  alone = _round(with_mask, state, task.train[:1])['state']['weights']
  np.testing.assert_allclose(kernel[:, 0], alone[-2][:, 0], atol=1e-6)


def _three_classes():
  """Returns the tiny task with classes {0, 1}, {1}, {1}, {1} of three."""
  task = tiny.task(client_weighting='uniform')
  train = []
  for client in task.train:
    x, y = client['examples']['x'], client['examples']['y'].copy()
    y[:] = 1
    if client['index'] == 0:
      y[0] = 0
    train.append(client_data.dense(client['index'], x, y))
  model = zoo.build('mlp_20', tf.TensorSpec([None, 3]), 3)
  return dataclasses.replace(task, train=train, model=model, num_classes=3)


def test_logits_of_absent_classes_are_zero():
  """A13: 0, not -infinity."""
  model = zoo.build('mlp_20', tf.TensorSpec([None, 3]), 3)
  weights = model.initial_weights(0)
  arguments = (weights, tf.ones([2, 3]), True, random.key(0))
  logits = model.predict(*arguments).numpy()
  assert np.abs(logits[:, 1]).min() > 0
  found = masked.masked(model, tf.constant([1.0, 0.0, 1.0])).predict(*arguments)
  np.testing.assert_array_equal(found, logits * [[1, 0, 1]])


def test_padding_has_no_classes():
  model = zoo.build('mlp_20', tf.TensorSpec([None, 3]), 4)
  data = client_data.pad(client_data.dense(
      0, np.zeros([2, 3], np.float32), np.array([2, 2], np.int32)
  ), 5)
  data['examples']['y'][2:] = 1
  found = masked.owned(model, masked.head(model), _tensors(data))
  np.testing.assert_array_equal(found, [0, 0, 1, 0])


def test_masked_loss_needs_classes():
  with pytest.raises(ValueError, match='`masked_loss` must be false'):
    _tiered_process(masked_loss=True)


# Tiers.


def test_clients_get_the_model_of_their_tier():
  """By the task's tiers; a client that was never seen has one, too."""
  task = tiny.task(tiers=np.array([3, 0, 1, 1], np.int32))
  process = tiny.build('fedhm', task)
  state = process.initialize_seeded(0)
  ranks = [
      process.client_model(state, (), i)['factors'][0][0].shape[-1]
      for i in range(6)
  ]
  # mlp_20 on 3 inputs: round(20 / 2) and round(20 / 4) are cut to 3.
  assert ranks == [2, 0, 3, 3, 0, 3]


def test_dynamic_tiers_are_drawn_for_every_round():
  assign = tier_assignment.assign(20, 4, assignment='dynamic')
  drawn = np.array([
      [int(assign(7, t, i)) for i in range(20)] for t in range(20)
  ])
  assert [int(assign(7, 3, i)) for i in range(20)] == drawn[3].tolist()
  assert np.any(drawn[0] != drawn[1])
  assert np.any([int(assign(8, 0, i)) for i in range(20)] != drawn[0])
  # 400 draws: each tier has 100 on average, with a deviation of 8.7.
  assert np.all(np.abs(np.bincount(drawn.ravel(), minlength=4) - 100) < 35)


def test_fixed_tiers_are_equal_groups():
  found = tier_assignment.fixed(20, 4)
  assert np.bincount(found).tolist() == [5, 5, 5, 5]
  # Not in the order of the index, with which clusters of clients go.
  assert np.any(found != np.arange(20) % 4)
  assign = tier_assignment.assign(20, 4)
  assert [int(assign(1, t, 7)) for t in range(5)] == [found[7]] * 5
  assert int(assign(1, 0, 22)) == 2  # Held out.


@pytest.mark.parametrize('given, message', [
    (dict(assignment='random'), '`tier_assignment` must be one of fixed, dyn'),
    (
        dict(assignment='dynamic', given=np.array([0, 1])),
        '`tier_assignment` must be fixed where the data say',
    ),
    (dict(given=np.array([0, 4])), '`tiers` must be at least 5, .* found 4'),
])
def test_raises_on_wrong_assignment(given, message):
  with pytest.raises(ValueError, match=message):
    tier_assignment.assign(2, 4, **given)


# Hyperparameters.


@pytest.mark.parametrize('tiers, expected', [
    ('all', (1.0, 0.5, 0.25)), ('all_smallest', (0.25, 0.25, 0.25)),
    ('0.5:0.5:0.1', (0.5, 0.5, 0.1)), ('1', (1.0,)),
])
def test_ratios(tiers, expected):
  own = fedhm_hp.FedHMHyperparameters(tiers=tiers)
  assert own.ratios((1.0, 0.5, 0.25)) == expected


def test_temperature_is_the_papers_by_default():
  own = fedhm_hp.FedHMHyperparameters()
  assert own.temperature('fixed') == math.inf
  assert own.temperature('dynamic') == 5.0
  given = fedhm_hp.FedHMHyperparameters(tau='0.5')
  assert given.temperature('dynamic') == given.temperature('fixed') == 0.5


@pytest.mark.parametrize('values, message', [
    (dict(tiers='1:2'), r'`tiers` must be all, .* in \(0, 1\]'),
    (dict(tiers='0'), '`tiers` must be all'),
    (dict(tiers='1,0.5'), '`tiers` must be all'),
    (dict(tau='0'), '`tau` must be a number >= 0.02'),
    (dict(tau='warm'), '`tau` must be a number >= 0.02'),
    (dict(tau='nan'), '`tau` must be a number >= 0.02'),
])
def test_raises_on_wrong_hyperparameters(values, message):
  with pytest.raises(ValueError, match=message):
    fedhm_hp.FedHMHyperparameters(**values)


@pytest.mark.parametrize('full_rank, layers', [
    ('auto', ['dense_1']), ('none', ['dense_0', 'dense_1', 'dense_2']),
    ('dense_0:dense_1', ['dense_2']),
])
def test_full_rank(full_rank, layers):
  model = zoo.build('mlp', tf.TensorSpec([None, 3]), 2)
  tier = fedhm_hp.FedHMHyperparameters(full_rank=full_rank).tiered(
      model, (0.5,)
  ).tiers[0]
  assert [tier.weights[position].layer for position in tier.ranks] == layers
