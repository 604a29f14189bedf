"""PERM (Algorithms 2 and 3): perm checks 10, 12, 14, and every option."""

import collections
import functools
import types

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf

from baselines import fedavg
from tests import acting
from tests.algorithms import visits
from tff_pers.algorithms import fingerprints
from tff_pers.algorithms import perm
from tff_pers.algorithms import perm_mixing
from tff_pers.client_works import local_gradient
from tff_pers.data import client_data
from tff_pers.models import zoo
from tff_pers.numerics import mixing

_N, _DIM = 4, 3
_PROBLEM = visits.random_quadratics(0, _N, _DIM)
_SIZES = np.asarray(_PROBLEM.num_examples, np.float64)  # 2, 2, 4, 7


@functools.lru_cache(maxsize=None)
def _run(num_rounds, full_participation=True, cohorts=None, **values):
  """Returns (states, metrics), one entry per round, from seed 3."""
  defaults = dict(
      local_steps=2, batch_size=4, learning_rate=0.05, step_cap=0.0,
      global_learning_rate=0.1, warmup_rounds=2, stage1_rounds=2, lambda_=40.0,
      schedule='permutation', warmup='gradient',
  )
  process = perm.build_perm(
      _PROBLEM.model, _N,
      acting.hyperparameters(perm.PermHyperparameters, defaults, **values),
      full_participation=full_participation,
  )
  data = _PROBLEM.clients()
  state, states, metrics = process.initialize_seeded(3), [], []
  for t in range(num_rounds):
    cohort = cohorts[t] if cohorts else range(_N)
    output = process.next(state, [()] * len(cohort), [data[i] for i in cohort])
    state = output['state']
    states.append(state)
    metrics.append(output['metrics'])
  return states, metrics


def _gradients(w):
  return np.einsum(
      'nij,nj->ni', _PROBLEM.curvatures, np.asarray(w) - _PROBLEM.centers
  )


def _distances(w):
  g = _gradients(w)
  return np.sum((g[:, None] - g[None]) ** 2, axis=-1)


def _solution(w):
  return mixing.water_filling(
      tf.constant(_distances(w)), tf.constant(_SIZES), 40.0
  ).numpy()


def _global_path(num_rounds, gamma=0.1):
  """w^0, w^1, ...: one step on the example-weighted mean per round."""
  path, p = [_PROBLEM.start], _SIZES / _SIZES.sum()
  for _ in range(num_rounds):
    path.append(path[-1] - gamma * p @ _gradients(path[-1]))
  return path


def test_single_loop_is_algorithm_2():
  """Lines (a), (b), (c) after warm-up, against NumPy."""
  states, metrics = _run(5)
  path = _global_path(5)
  models = None
  hosts = visits.hosts_of_epochs(3, _N, 1)
  for t, state in enumerate(states):
    np.testing.assert_allclose(state['weights'][0], path[t + 1], rtol=1e-12)
    if t < 2:  # Warm-up: only w; every model is w.
      models = np.tile(path[t + 1], (_N, 1))
      assert metrics[t]['lambda'] == 0  # Not yet.
    else:
      solution = _solution(path[t])
      assert np.max(np.abs(solution - solution.T)) > 0.05  # Else A^T passes.
      np.testing.assert_allclose(state['mixing'], solution, atol=1e-6)
      models = visits.last(visits.run(
          _PROBLEM, state['mixing'], hosts[t - 2 : t - 1], learning_rate=0.05,
          local_steps=2, models=models,
      ))
      assert metrics[t]['lambda'] == 40.0
    np.testing.assert_allclose(state['models'][0], models, rtol=1e-10)
    assert state['round'] == t + 1


def test_two_stage_is_algorithm_3_then_1():
  """Stage 1 equals fedavg bit for bit; A is solved once, at w^R; w rests."""
  states, _ = _run(5, variant='two_stage')
  reference = fedavg.build_fedavg(
      _PROBLEM.model,
      fedavg.FedAvgHyperparameters(
          local_steps=2, batch_size=4, learning_rate=0.1
      ),
  )
  state = reference.initialize_seeded(3)
  data = _PROBLEM.clients()
  for t in range(2):
    state = reference.next(state, [()] * _N, data)['state']
    np.testing.assert_array_equal(
        states[t]['weights'][0], state['weights'][0]
    )
  w = states[1]['weights'][0]
  solution = _solution(w)
  hosts = visits.hosts_of_epochs(3, _N, 1)
  path = visits.run(
      _PROBLEM, states[2]['mixing'], hosts[:3], learning_rate=0.05,
      local_steps=2, models=np.tile(w, (_N, 1)),
  )
  for state, models in zip(states[2:], path):
    np.testing.assert_array_equal(state['weights'][0], w)
    np.testing.assert_allclose(state['mixing'], solution, atol=1e-6)
    np.testing.assert_array_equal(state['mixing'], states[2]['mixing'])
    np.testing.assert_allclose(state['models'][0], models, rtol=1e-10)


_STEP = dict(
    weight_decay=0.3, clip_norm=0.6, momentum=0.9, learning_rate_decay=0.25,
    learning_rate_schedule='exponential', learning_rate_rounds='2',
)


def test_local_step_of_the_single_loop():
  """w descends clipped gradients; those that are compared are whole."""
  states, _ = _run(4, **_STEP)
  w, p = _PROBLEM.start, _SIZES / _SIZES.sum()
  hosts = visits.hosts_of_epochs(3, _N, 1)
  models = None
  for t, state in enumerate(states):
    g, solution = _gradients(w), _solution(w)
    norms = np.linalg.norm(g, axis=1, keepdims=True)
    assert norms.max() > 0.6
    d = p @ (g * np.minimum(1, 0.6 / norms)) + 0.3 * w
    w = w - 0.1 * 0.5**t * d
    np.testing.assert_allclose(state['weights'][0], w, rtol=1e-10)
    if t < 2:
      models = np.tile(w, (_N, 1))
      continue
    np.testing.assert_allclose(state['mixing'], solution, atol=1e-6)
    models = visits.last(visits.run(
        _PROBLEM, state['mixing'], hosts[t - 2 : t - 1],
        learning_rate=0.05 * 0.5**t, local_steps=2, models=models,
        momentum=0.9, weight_decay=0.3, clip_norm=0.6,
    ))
    np.testing.assert_allclose(state['models'][0], models, rtol=1e-10)


def test_local_step_of_stage_1_is_that_of_fedavg():
  states, _ = _run(3, variant='two_stage', **_STEP)
  reference = fedavg.build_fedavg(
      _PROBLEM.model,
      fedavg.FedAvgHyperparameters(
          local_steps=2, batch_size=4, learning_rate=0.1, **_STEP
      ),
  )
  state, data = reference.initialize_seeded(3), _PROBLEM.clients()
  for t in range(2):
    state = reference.next(state, [()] * _N, data)['state']
    np.testing.assert_allclose(
        states[t]['weights'][0], state['weights'][0], rtol=1e-12
    )


def test_alpha_update_per_epoch():
  """w and A move once per epoch of N rounds."""
  states, _ = _run(6, alpha_update='epoch', warmup_rounds=1)
  for name in ('mixing', 'weights'):
    values = [np.asarray(tf.nest.flatten(s[name])[0]) for s in states]
    for t in (2, 3, 4):
      np.testing.assert_array_equal(values[t], values[1])
    assert np.any(values[5] != values[4])


def test_one_trip_visits_with_the_weights_of_the_round_before():
  states, _ = _run(4, one_trip=True)
  path = _global_path(4)
  np.testing.assert_allclose(states[1]['mixing'], _solution(path[1]), atol=1e-6)
  hosts = visits.hosts_of_epochs(3, _N, 1)
  expected = visits.last(visits.run(
      _PROBLEM, states[1]['mixing'], hosts[:1], learning_rate=0.05,
      local_steps=2, models=states[1]['models'][0],
  ))
  np.testing.assert_allclose(states[2]['models'][0], expected, rtol=1e-10)


def test_projected_gradient_is_warm_started():
  states, _ = _run(4, solver='projected_gradient', solver_steps=3)
  w = _global_path(4)
  alpha = np.full((_N, _N), 1 / _N)
  for t in (2, 3):
    alpha = mixing.projected_gradient(
        _distances(w[t]), _SIZES, 40.0, alpha, 3
    ).numpy()
    np.testing.assert_allclose(states[t]['mixing'], alpha, atol=1e-6)


def test_frozen_weights_stay():
  states, _ = _run(5, freeze_after=3)
  np.testing.assert_array_equal(states[4]['mixing'], states[2]['mixing'])
  assert np.any(states[4]['weights'][0] != states[3]['weights'][0])


def test_models_start_from_the_initial_weights():
  states, _ = _run(3, init='initial')
  np.testing.assert_array_equal(
      states[1]['models'][0], np.tile(_PROBLEM.start, (_N, 1))
  )


@pytest.mark.parametrize('k', [
    pytest.param(_N, marks=pytest.mark.slow), 2
])
def test_sparse_rows_keep_the_largest_weights(k):
  """k < N renormalizes; the own entry stays; with k = N nothing is lost."""
  states, _ = _run(4, row_nonzeros=k)
  sparse = states[3]['mixing']
  rows = np.zeros((_N, _N), np.float32)
  np.put_along_axis(rows, sparse['columns'], sparse['values'], axis=1)
  expected = _run(4)[0][3]['mixing'].copy()
  assert np.count_nonzero(expected) > 2 * _N  # Something to cut.
  for i, row in enumerate(expected):
    row[np.argsort(row + np.eye(_N)[i])[: _N - k]] = 0
  expected /= expected.sum(axis=1, keepdims=True)
  np.testing.assert_allclose(rows, expected, atol=1e-6)


def _table(gradients):
  """Returns the table of three clients after a round."""
  return fingerprints.written(
      fingerprints.nobody(3, 1, tf.float32), gradients, 0
  )


def test_debias_subtracts_the_noise_of_both_gradients():
  """perm trap 4: max(0, d_ij - v_i / M_i - v_j / M_j); one row: the mean v."""
  gradients = collections.OrderedDict(
      fingerprints=tf.constant([[0.0], [3.0], [4.0]]),
      keys=tf.constant([0, 1, 2]),
      rows=tf.constant([2.0, 4.0, 1.0]),
      sizes=tf.constant([8.0, 4.0, 1.0]),
      variances=tf.constant([2.0, 8.0, 0.0]),
  )
  hyperparameters = perm.PermHyperparameters(debias='variance', lambda_=40.0)
  new = perm_mixing.solve_all(
      tf.eye(3), _table(gradients), tf.constant(40.0, tf.float64),
      hyperparameters,
  )
  noise = np.array([2 / 2, 8 / 4, 5 / 1])
  plain = np.array([[0.0, 9, 16], [9, 0, 1], [16, 1, 0]])
  c = np.maximum(plain - noise[:, None] - noise, 0) * (1 - np.eye(3))
  expected = mixing.water_filling(c, tf.constant([8.0, 4.0, 1.0]), 40.0)
  np.testing.assert_allclose(new, expected, atol=1e-6)
  by_one = np.maximum(plain - noise, 0) * (1 - np.eye(3))
  other = mixing.water_filling(by_one, tf.constant([8.0, 4.0, 1.0]), 40.0)
  assert np.abs(other - expected).max() > 0.01


def test_client_without_gradient_learns_by_sizes_and_teaches_nobody():
  gradients = collections.OrderedDict(
      fingerprints=tf.constant([[0.0], [3.0]]),
      keys=tf.constant([2, 0]),
      rows=tf.constant([2.0, 6.0]),
      sizes=tf.constant([2.0, 6.0]),
      variances=tf.constant([1.0, 1.0]),
  )
  for solver in ('water_filling', 'projected_gradient'):
    hyperparameters = acting.hyperparameters(
        perm.PermHyperparameters, dict(solver_steps=200), lambda_=30.0,
        solver=solver,
    )
    new = perm_mixing.solve_all(
        tf.fill([3, 3], 1 / 3), _table(gradients), tf.constant(30.0, tf.float64),
        hyperparameters,
    )
    weights = new.numpy()
    np.testing.assert_allclose(weights[1], [0.75, 0, 0.25], atol=1e-6)
    np.testing.assert_array_equal(weights[:, 1], 0)
    expected = mixing.water_filling(
        np.array([[0.0, 9.0], [9.0, 0.0]]), tf.constant([6.0, 2.0]), 30.0
    )
    np.testing.assert_allclose(weights[[0, 2]][:, [0, 2]], expected, atol=1e-6)


def test_matching_visits_the_support():
  """schedule=matching: K steps at the matched hosts, in the owner's weights."""
  states, _ = _run(5, schedule='matching', lambda_=8.0)
  for before, after in zip(states[1:], states[2:]):
    weights = after['mixing']
    pending = np.where(weights > 0, before['pending']['left'], 0)
    done = ~pending.any(axis=1)
    pending[done] = weights[done] > 0
    hosts = pending - after['pending']['left']
    assert hosts.sum(axis=0).max() == 1 and hosts.sum(axis=1).max() == 1
    expected = before['models'][0].copy()
    scale = np.sum(weights > 0, axis=1)
    for owner, host in np.argwhere(hosts):
      for _ in range(2):
        gradient = _PROBLEM.curvatures[host] @ (
            expected[owner] - _PROBLEM.centers[host]
        )
        expected[owner] -= 0.05 * scale[owner] * weights[owner, host] * gradient
    np.testing.assert_allclose(after['models'][0], expected, rtol=1e-6)


def test_sketch_replaces_the_gradient():
  """perm section 6: distances from k numbers; the w-line is unchanged."""
  states, metrics = _run(4, sketch=256)
  np.testing.assert_allclose(
      states[3]['weights'][0], _global_path(4)[4], rtol=1e-12
  )
  # Three coordinates into 256 buckets seldom collide: distances are exact.
  np.testing.assert_allclose(
      states[2]['mixing'], _solution(_global_path(2)[2]), atol=1e-5
  )
  # Gradient for the mean (3), its sketch (256), the model (3), in float64.
  assert metrics[3]['bytes_up'] == 8 * (3 + 256 + 3)


def test_gradients_of_cohorts_are_kept():
  """At the w that rests from the first visit on: all pairs become known."""
  cohorts = ((0, 1), (0, 1), (2, 3), (1, 0), (3, 0))
  states, metrics = _run(
      5, full_participation=False, cohorts=cohorts, warmup_rounds=1
  )
  w = states[0]['weights'][0]
  gradients = _gradients(w)
  known = [(), (0, 1), (0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3)]
  expected = np.eye(_N)
  for t, state in enumerate(states):
    np.testing.assert_array_equal(state['weights'][0], w)
    table = state['table']
    np.testing.assert_array_equal(
        np.flatnonzero(table['dates'] >= 1), known[t]
    )
    np.testing.assert_allclose(
        table['fingerprints'][list(known[t])], gradients[list(known[t])],
        rtol=1e-12,
    )
    if t >= 1:
      distances = np.full((_N, _N), np.inf)
      pairs = np.ix_(known[t], known[t])
      distances[pairs] = _distances(w)[pairs]
      rows = list(cohorts[t])  # Others keep theirs.
      expected[rows] = mixing.water_filling(
          distances[rows], tf.constant(_SIZES), 40.0
      )
    np.testing.assert_allclose(state['mixing'], expected, atol=1e-6)
  # Everybody sends a gradient once, and w is not sent again after that.
  model, gradient = 8 * 3, 8 * 3
  assert metrics[2]['bytes_up'] == gradient + model
  assert metrics[3]['bytes_up'] == metrics[4]['bytes_up'] == model
  assert metrics[3]['bytes_down'] == model + 8  # A model and a factor.


def test_sparse_rows_of_cohorts_are_the_largest_of_dense_ones():
  """perm section 6: top k, renormalized, with partial participation too."""
  cohorts = ((0, 1, 2, 3),) + ((0, 1, 2),) * 2
  run = lambda **values: _run(
      3, full_participation=False, cohorts=cohorts, warmup_rounds=1,
      lambda_=200.0, **values
  )[0]
  dense, sparse = run()[2]['mixing'], run(row_nonzeros=2)[2]['mixing']
  rebuilt = np.zeros((_N, _N))
  np.put_along_axis(rebuilt, sparse['columns'], sparse['values'], axis=1)
  for row, full in zip(rebuilt[:3], dense[:3]):
    kept = np.argsort(-full)[:2]
    np.testing.assert_allclose(
        row[kept], full[kept] / full[kept].sum(), rtol=1e-5
    )
    assert np.sum(row > 0) == 2


def test_many_clients_keep_sparse_rows():
  hyperparameters = perm.PermHyperparameters()
  assert [hyperparameters.kept_per_row(n) for n in (50, 1000, 1001)] == [
      0, 0, 100
  ]
  assert perm.PermHyperparameters(row_nonzeros=7).kept_per_row(50) == 7
  gradient = perm.PermHyperparameters(solver='projected_gradient')
  assert gradient.kept_per_row(2000) == 0


def test_warm_up_is_as_long_for_every_client(caplog):
  """With 10 of 40 clients a round four times as many rounds."""
  task = lambda cohort, rounds=100: types.SimpleNamespace(
      clients_per_round=cohort, num_clients=40, full_participation=not cohort,
      rounds=rounds,
  )
  hyperparameters = perm.PermHyperparameters()
  assert hyperparameters.for_cohorts(task(10)).warmup_rounds == 40
  assert hyperparameters.for_cohorts(task(0)) is hyperparameters
  two_stage = perm.PermHyperparameters(variant='two_stage')
  assert two_stage.for_cohorts(task(10)) is two_stage
  assert not caplog.records
  hyperparameters.for_cohorts(task(10, rounds=40))
  assert 'in 40 of the 40 rounds' in caplog.text


def test_auto_lambda_is_scaled_gradient_variance():
  """perm trap 3: v_i from two halves is unbiased; lambda = kappa_n mean v."""
  rng = np.random.default_rng(0)
  x = rng.standard_normal((40, 5))
  y = rng.integers(0, 2, 40).astype(np.int32)
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 5], tf.float64), 2,
      dtype=tf.float64,
  )
  data = client_data.dense(0, x, y)
  weights = model.init(tf.zeros([2], tf.int64))

  @tf.function
  def variance(seed):
    return local_gradient.compute(
        model, weights, tf.nest.map_structure(tf.constant, data), seed=seed
    )

  found = [variance(tf.constant([s, 0], tf.int64)) for s in range(300)]
  p = np.full(40, 0.5) - y  # At zero weights.
  per_example = np.concatenate([p[:, None] * x, p[:, None]], axis=1)
  expected = np.sum(np.var(per_example, axis=0, ddof=1))
  drawn = np.array([f.variance for f in found])
  error = drawn.std() / np.sqrt(len(drawn))
  assert abs(drawn.mean() - expected) < 4 * error
  gradient = np.concatenate([np.ravel(g) for g in found[0].gradient])
  np.testing.assert_allclose(gradient, per_example.mean(axis=0), rtol=1e-10)
  lambda_ = mixing.auto_lambda(
      tf.constant([2.0, 4.0, 9.0]), tf.constant([True, True, False]), 10.0
  )
  assert lambda_ == 30.0


def test_gradient_batch_takes_that_many_rows():
  data = client_data.dense(0, np.arange(10.0)[:, None], np.zeros(10, np.int32))
  model = zoo.build(
      'linear_regression', tf.TensorSpec([None, 1], tf.float64), 0,
      dtype=tf.float64,
  )
  weights = model.init(tf.zeros([2], tf.int64))
  data['examples']['y'] = np.zeros(10)
  compute = lambda m: local_gradient.compute(
      model, weights, data, seed=tf.constant([1, 1], tf.int64), num_rows=m
  )
  assert compute(4).num_rows == 4
  assert compute(0).num_rows == 10
  assert compute(64).num_rows == 10


def test_polish_inequality():
  """perm check 10, T4, on 200 random quadratics."""
  rng = np.random.default_rng(0)
  for draw in range(200):
    problem = visits.random_quadratics(draw, 5, 3)
    smoothness, mu, n = 2.0, 0.5, 5
    star, hat = rng.dirichlet(np.ones(n), 2)
    w = problem.minimizer(hat)
    w = w + rng.standard_normal(3) * 10 ** rng.uniform(-3, 0)
    phi = lambda alpha, v: sum(
        a * problem.loss(j, v) for j, a in enumerate(alpha)
    )
    gradient = lambda v: np.einsum(
        'nij,nj->ni', problem.curvatures, v - problem.centers
    )
    polished = w - hat @ gradient(w) / smoothness
    v_hat, v_star = problem.minimizer(hat), problem.minimizer(star)
    # G bounds gradients where they are used: at the points of the proof.
    bound = max(
        np.linalg.norm(gradient(v), axis=1).max()
        for v in (w, polished, v_hat, v_star)
    )
    kappa = np.sqrt(n) * bound / mu
    gap = phi(star, polished) - phi(star, v_star)
    limit = smoothness * np.sum((w - v_hat) ** 2) + (
        smoothness * kappa**2 + n * bound**2 / (2 * smoothness)
    ) * np.sum((hat - star) ** 2)
    assert gap <= limit + 1e-12


def _digit_clients(partition):
  """50 clients with all 1797 digits: IID, or label-sorted slices."""
  digits = sklearn.datasets.load_digits()
  x, y = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
  order = np.random.default_rng(0).permutation(len(y))
  x, y = x[order], y[order]
  if partition != 'iid':
    order = np.argsort(y, kind='stable')
    x, y = x[order], y[order]
  num_slices = 100 if partition == 'two_classes' else 50
  slices = np.array_split(np.arange(len(y)), num_slices)
  if partition == 'two_classes':
    slices = [np.concatenate([slices[c], slices[c + 50]]) for c in range(50)]
  clients = [client_data.dense(i, x[s], y[s]) for i, s in enumerate(slices)]
  return clients, [set(y[s]) for s in slices]


@functools.lru_cache(maxsize=None)
def _digits_process():
  model = zoo.build('logistic_regression', tf.TensorSpec([None, 64]), 10)
  return perm.build_perm(
      model, 50,
      perm.PermHyperparameters(
          warmup_rounds=0, local_steps=1, learning_rate=0.1,
          lambda_scale=10.0,
      ),
  )


@pytest.mark.parametrize(
    'partition, low, high, nonzeros, shared',
    [
        pytest.param(
            'iid', 0.75, 1.0, (20, 50), 0.0, marks=pytest.mark.slow
        ),
        ('one_class', 0.0, 0.45, (1, 8), 0.90),
        ('two_classes', 0.45, 0.75, (1, 15), 0.90),
    ],
)
def test_weights_adapt_to_the_partition(partition, low, high, nonzeros, shared):
  """perm check 12: diffuse for IID clients, sparse for one class per client."""
  clients, classes = _digit_clients(partition)
  process = _digits_process()
  state = process.initialize_seeded(0)
  output = process.next(state, [()] * 50, clients)
  weights = output['state']['mixing']
  assert low <= output['metrics']['weights_entropy'] <= high
  assert nonzeros[0] <= output['metrics']['weights_nonzeros'] <= nonzeros[1]
  share = np.array([[bool(a & b) for b in classes] for a in classes])
  mass = np.sum(weights * share, axis=1)
  assert mass.mean() >= shared


def test_cost_is_that_of_the_sheet():
  """perm check 14: stage 2 = FedAvg + 1 scalar; single loop = 2x FedAvg + 1."""
  d, size = _DIM, 8  # float64
  _, metrics = _run(5)
  for t, m in enumerate(metrics):
    visits_now = t >= 2
    assert m['bytes_down'] == size * (d + visits_now * (d + 1))
    assert m['bytes_up'] == size * (d + visits_now * d)
  _, metrics = _run(5, variant='two_stage')
  down = [d, d, 2 * d + 1, d + 1, d + 1]  # Round 3 sends w for the gradients.
  up = [d, d, 2 * d, d, d]
  for m, floats_down, floats_up in zip(metrics, down, up):
    assert m['bytes_down'] == size * floats_down
    assert m['bytes_up'] == size * floats_up


def test_non_finite_client_is_listed_and_dropped():
  """A client of NaN keeps its visitor as it came and gives no gradient."""
  process = perm.build_perm(
      _PROBLEM.model, _N,
      perm.PermHyperparameters(
          local_steps=2, batch_size=4, learning_rate=0.05, warmup_rounds=0
      ),
  )
  data = _PROBLEM.clients()
  data[2]['examples']['x'] = np.full_like(data[2]['examples']['x'], np.nan)
  output = process.next(process.initialize_seeded(0), [()] * _N, data)
  np.testing.assert_array_equal(output['metrics']['non_finite'], [2])
  state = output['state']
  for value in tf.nest.flatten(collections.OrderedDict(
      (k, state[k]) for k in ('weights', 'models', 'mixing')
  )):
    assert np.all(np.isfinite(value))
  assert np.all(state['mixing'][:, 2] == 0)


@pytest.mark.parametrize('values, message', [
    (dict(lambda_=-1.0), '`lambda` must be a number > 0'),
    (dict(lambda_='often'), '`lambda` must be a number > 0'),
    (dict(variant='three_stage'), '`variant` must be one of'),
    (dict(one_trip=True, variant='two_stage'), '`one_trip`'),
    (dict(one_trip=True, warmup_rounds=0), '`one_trip`'),
    (dict(row_nonzeros=3, solver='projected_gradient'), '`solver`'),
    (dict(freeze_after=10), '`freeze_after`'),
    (dict(gradient_batch=1), '`gradient_batch`'),
    (dict(lambda_=float('inf')), '`lambda` must be a number > 0'),
    (dict(local_steps=0), 'local_epochs'),
])
def test_raises_on_bad_hyperparameters(values, message):
  with pytest.raises(ValueError, match=message):
    perm.PermHyperparameters(**values)


@pytest.mark.parametrize('full', [True, False])
def test_raises_on_more_weights_than_clients(full):
  with pytest.raises(ValueError, match='row_nonzeros'):
    perm.build_perm(
        _PROBLEM.model, _N, perm.PermHyperparameters(row_nonzeros=_N + 1),
        full_participation=full,
    )


def test_raises_on_epochs_of_matchings():
  with pytest.raises(ValueError, match='alpha_update'):
    perm.build_perm(
        _PROBLEM.model, _N, perm.PermHyperparameters(alpha_update='epoch'),
        full_participation=False,
    )
