"""Mixing weights of PERM: sparse rows, lambda, noise, perm checks 10 and 12."""

import collections
import functools

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf

from tests import acting
from tests.algorithms.perm import perm_runs
from tests.algorithms.perm import visits
from tff_pers.algorithms.perm import fingerprints
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting
from tff_pers.client_works import local_gradient
from tff_pers.data import client_data
from tff_pers.models import zoo
from tff_pers.numerics import mixing
from tff_pers.numerics import mixing_rows

_N = perm_runs.N


@pytest.mark.parametrize('k', [_N, 2])
def test_sparse_rows_keep_the_largest_weights(k):
  """k < N renormalizes; the own entry stays; with k = N nothing is lost."""
  states, _ = perm_runs.run(4, row_nonzeros=k)
  sparse = states[3]['mixing']
  rows = np.zeros((_N, _N), np.float32)
  np.put_along_axis(rows, sparse['columns'], sparse['values'], axis=1)
  expected = perm_runs.run(4)[0][3]['mixing'].copy()
  assert np.count_nonzero(expected) > 2 * _N  # Something to cut.
  for i, row in enumerate(expected):
    row[np.argsort(row + np.eye(_N)[i])[: _N - k]] = 0
  expected /= expected.sum(axis=1, keepdims=True)
  np.testing.assert_allclose(rows, expected, atol=1e-6)


def _problem(gradients, hyperparameters, lambda_):
  """Returns that of three clients after a round; all have whole gradients."""
  table = fingerprints.written(
      fingerprints.empty_table(3, 1, tf.float32), gradients, 0
  )
  return perm_mixing.Problem(
      setting.PermSetting(perm_devices.Devices(None), hyperparameters, 3),
      table, tf.constant(lambda_, tf.float64),
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
  new = _problem(gradients, hyperparameters, 40.0).all_rows(tf.eye(3))
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
    new = _problem(gradients, hyperparameters, 30.0).all_rows(
        tf.fill([3, 3], 1 / 3)
    )
    weights = new.numpy()
    np.testing.assert_allclose(weights[1], [0.75, 0, 0.25], atol=1e-6)
    np.testing.assert_array_equal(weights[:, 1], 0)
    expected = mixing.water_filling(
        np.array([[0.0, 9.0], [9.0, 0.0]]), tf.constant([6.0, 2.0]), 30.0
    )
    np.testing.assert_allclose(weights[[0, 2]][:, [0, 2]], expected, atol=1e-6)


@pytest.mark.parametrize('sparse', [False, True])
def test_health_of_the_weights(sparse):
  """Who fell back to itself, own weights, how many teach, entropy."""
  rows = np.array([
      [1.0, 0, 0, 0], [0.005, 0.995, 0, 0], [0.5, 0, 0.5, 0],
      [0.25, 0.25, 0.25, 0.25],
  ], np.float32)
  weights = tf.constant(rows)
  if sparse:
    weights = mixing_rows.kept(weights, tf.range(4), 4)
  found = perm_mixing.measurements(weights, tf.constant(3.0))
  assert found['weights_alone'] == 0.5
  np.testing.assert_allclose(found['weights_self'], (1.995 + 0.75) / 4)
  assert found['weights_nonzeros'] == 9 / 4 and found['lambda'] == 3.0
  own = -0.005 * np.log(0.005) - 0.995 * np.log(0.995)
  np.testing.assert_allclose(
      found['weights_entropy'],
      (own + np.log(2) + np.log(4)) / (4 * np.log(4)), rtol=1e-5,
  )


def test_visits_in_vain_are_idle():
  """Permutations send models to clients that do not teach them."""
  states, metrics = perm_runs.run(5)
  hosts = visits.hosts_of_epochs(3, _N, 1)
  shares = []
  for state, measured, host in zip(states[2:], metrics[2:], hosts):
    weights = state['mixing'][np.arange(_N), host]
    shares.append(np.mean(weights == 0))
    assert measured['visits_idle'] == shares[-1]
  assert 0 < np.mean(shares) < 1


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
