"""The choice of lambda: against NumPy, once, and as the clients are."""

import functools

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf

from tests import acting
from tests.algorithms.perm import perm_numpy
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.algorithms.perm import perm_lambda
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import zoo

_SIZES = (40, 46, 51, 57, 62, 70)
_L2, _SEED, _ROUND = 1e-3, 5, 2
_OPTIONS = dict(
    warmup_rounds=_ROUND, local_steps=3, batch_size=8, learning_rate=0.1,
)
_MODEL = zoo.build(
    'logistic_regression', tf.TensorSpec([None, 64], tf.float64), 4,
    dtype=tf.float64, l2=_L2,
)
_SOFTMAX = perm_numpy.Softmax(4, _L2)


@functools.lru_cache(maxsize=None)
def _clients(shifts):
  """Returns (x, y) of six clients; client i calls a digit d d + shifts[i]."""
  digits = sklearn.datasets.load_digits(n_class=4)
  order = np.random.default_rng(0).permutation(len(digits.target))
  parts = np.split(order, np.cumsum(_SIZES))[:-1]
  return [
      (digits.data[rows] / 16,
       ((digits.target[rows] + shift) % 4).astype(np.int32))
      for rows, shift in zip(parts, shifts)
  ]


_TWO_GROUPS = (0, 2, 0, 2, 2, 0)


def _hyperparameters(**values):
  return acting.hyperparameters(perm.PermHyperparameters, _OPTIONS, **values)


def _trial(num_clients, hyperparameters):
  return perm_lambda.Trial(
      perm_devices.Devices(_MODEL), hyperparameters, num_clients
  )


def _data(shifts=_TWO_GROUPS):
  return [client_data.dense(i, *c) for i, c in enumerate(_clients(shifts))]


def test_losses_follow_numpy():
  """Held-out losses of all M_i(kappa, s), summed over the clients."""
  rng = np.random.default_rng(1)
  w = [0.1 * rng.standard_normal((64, 4)), 0.1 * rng.standard_normal(4)]
  trial = _trial(6, _hyperparameters())
  message = dict(
      seed=tf.constant(_SEED, tf.int64), round=tf.constant(_ROUND),
      weights=tf.nest.map_structure(tf.constant, tuple(w)),
  )

  # One graph for clients of all sizes.
  @functools.partial(tf.function, reduce_retracing=True)
  def tried(data):
    return trial.alone(message, data)

  @functools.partial(tf.function, reduce_retracing=True)
  def scored(one, table, i, data):
    mixtures = trial.mixtures(table, i)
    return trial.score(message, one, mixtures, data)['losses']

  clients = tf.nest.map_structure(tf.constant, _data())
  trials = [tried(data) for data in clients]
  # In another order: rows come as clients are done.
  table = tf.nest.map_structure(
      lambda *rows: tf.concat(rows[::-1], axis=0),
      *[one['rows'] for one in trials],
  )
  found = [
      scored(one, table, tf.constant(i), data)
      for i, (one, data) in enumerate(zip(trials, clients))
  ]
  for actual, expected in zip(found, _losses_in_numpy(w)):
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


@pytest.mark.parametrize('values', [
    dict(gradient_batch=5), dict(debias='variance'),
])
def test_rows_of_the_choice_are_those_of_the_rounds(values):
  """lambda of gradients of M rows, distances less their noise; own weights."""
  sizes, rows = np.array([20.0, 40.0, 30.0]), np.array([5.0, 5.0, 5.0])
  if 'debias' in values:
    rows = sizes
  variances = np.array([1.0, 4.0, 2.0])
  g, own = np.array([[0.0], [1.0], [2.0]]), np.array([[0.2], [0.9], [1.7]])
  table = dict(
      fingerprints=g, own_fingerprints=own, keys=np.arange(3, dtype=np.int32),
      models=(np.zeros([3, 1]),), own_sizes=np.float32(0.8 * sizes),
      rows=np.float32(rows), sizes=np.float32(sizes),
      variances=np.float32(variances),
  )
  table = tf.nest.map_structure(tf.constant, table)
  v = np.mean(variances * sizes / rows)
  for i in range(3):
    found = _trial(3, _hyperparameters(**values)).mixtures(table, i)
    c = ((own[i] - g) ** 2)[:, 0]
    if 'debias' in values:
      c = np.maximum(c - variances[i] / rows[i] - variances / rows, 0)
    c[i] = 0
    n = sizes.copy()
    n[i] *= 0.8
    expected = [
        perm_numpy.water_level(c, n, kappa * v)[i] for kappa in (3, 10, 30, 1e6)
    ]
    np.testing.assert_allclose(found['own'], expected, rtol=1e-5)


def _losses_in_numpy(w):
  """Yields float[kappa, s] of every client."""
  clients = _clients(_TWO_GROUPS)
  paper = perm_numpy.Perm(_SOFTMAX, clients, _hyperparameters(), _SEED)
  found = [paper._gradient(w, i, _ROUND) for i in range(6)]
  gradients, variances, _ = zip(*found)
  models = [_trained(w, i, x, y, len(y)) for i, (x, y) in enumerate(clients)]
  flat = lambda g: np.concatenate([np.ravel(leaf) for leaf in g])
  for i, (x, y) in enumerate(clients):
    draws = tf.random.stateless_uniform(
        [len(y)], random.key(_SEED, _ROUND, i, 2)
    )
    order = np.argsort(draws)
    num_held = round(0.2 * len(y))
    held, kept = order[:num_held], order[num_held:]
    rows = np.concatenate([kept, held])
    own = _trained(w, i, x[rows], y[rows], len(kept))
    others = list(gradients)
    others[i] = _SOFTMAX.gradient(w, x[kept], y[kept])
    c = [np.sum((flat(others[i]) - flat(g)) ** 2) for g in others]
    sizes = np.array(_SIZES, float)
    sizes[i] = len(kept)
    table = []
    for kappa in (3, 10, 30, 1e6):
      alpha = perm_numpy.water_level(c, sizes, kappa * np.mean(variances))
      mixed = [
          sum(a * (own if j == i else models[j])[leaf]
              for j, a in enumerate(alpha))
          for leaf in range(2)
      ]
      table.append([
          num_held * _SOFTMAX.loss(
              [v + s * (m - v) for v, m in zip(w, mixed)], x[held], y[held]
          )
          for s in (0.5, 1, 2, 4, 8, 16)
      ])
    yield np.array(table)


def _trained(w, client, x, y, size):
  """Ten rounds of three local steps on the first rows."""
  rows, mask = client_data.batch_rows(
      size, len(y), seed=random.key(_SEED, _ROUND, client, 3), batch_size=8,
      num_steps=30,
  )
  for batch in (r[m] for r, m in zip(rows.numpy(), mask.numpy())):
    gradient = _SOFTMAX.gradient(w, x[batch], y[batch])
    w = [leaf - 0.1 * g for leaf, g in zip(w, gradient)]
  return w


@functools.lru_cache(maxsize=None)
def _run(num_rounds, shifts, full_participation=True, cohort=range(6)):
  """Returns the metrics of every round."""
  process = perm.build_perm(
      _MODEL, 6, _hyperparameters(), full_participation=full_participation
  )
  data = [_data(shifts)[i] for i in cohort]
  state, metrics = process.initialize_seeded(_SEED), []
  for _ in range(num_rounds):
    output = process.next(state, [()] * len(data), data)
    state = output['state']
    metrics.append(output['metrics'])
  return metrics


@pytest.mark.slow
def test_kappa_fits_the_clients():
  """All alike: (nearly) one mixture; two groups with other labels: not."""
  assert _run(4, (0,) * 6)[-1]['lambda_scale'] >= 30
  assert _run(4, _TWO_GROUPS)[-1]['lambda_scale'] <= 10


def test_no_choice_is_built_where_kappa_is_given(monkeypatch):
  """It would be two fifths of the building."""
  monkeypatch.delattr(perm_lambda.Trial, 'choose_scale')
  with pytest.raises(AttributeError, match='choose_scale'):
    perm.build_perm(_MODEL, 2, _hyperparameters())
  perm.build_perm(_MODEL, 2, _hyperparameters(lambda_scale=10.0))


def test_kappa_is_chosen_once():
  """It costs four mixtures down, a model and two gradients up, in a round."""
  metrics = _run(4, (0,) * 6)
  scales = [m['lambda_scale'] for m in metrics]
  assert scales[0] == scales[1] == perm_lambda.DEFAULT
  assert scales[2] == scales[3] != perm_lambda.DEFAULT
  d = 64 * 4 + 4
  down = [m['bytes_down'] for m in metrics]
  assert down[2] - down[3] == pytest.approx(8 * 4 * (d + 1))
  up = [m['bytes_up'] for m in metrics]
  # Sizes, rows and the variance, and the table of losses, are float32.
  assert up[2] - up[3] == pytest.approx(8 * 3 * d + 4 * 4 + 4 * 24)


@pytest.mark.slow
def test_a_cohort_chooses_for_all():
  metrics = _run(3, (0,) * 6, False, (4, 1, 3))
  assert metrics[-1]['lambda_scale'] in perm_hyperparameters.kappas(6)[2:]


def test_many_clients_may_have_a_larger_kappa():
  assert perm_hyperparameters.kappas(20) == (3, 10, 30, 1e6)
  assert perm_hyperparameters.kappas(100) == (3, 10, 30, 100, 1e6)
  assert perm_hyperparameters.kappas(1000) == (3, 10, 30, 100, 300, 1e6)
