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
_KAPPAS = (0.1, 1, 3, 10, 30, 1e6)


def _hyperparameters(**values):
  return acting.hyperparameters(perm.PermHyperparameters, _OPTIONS, **values)


def _trial(num_clients, hyperparameters, num_visits=None):
  return perm_lambda.Trial(
      perm_devices.Devices(_MODEL), hyperparameters, num_clients,
      num_visits=num_visits,
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
      lambda *rows: tf.concat(rows[::-1], axis=0), *trials
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
  """lambda of gradients of M rows, distances less their noise."""
  sizes, rows = np.array([20.0, 40.0, 30.0]), np.array([5.0, 5.0, 5.0])
  if 'debias' in values:
    rows = sizes
  variances, g = np.array([1.0, 4.0, 2.0]), np.array([[0.0], [1.0], [2.0]])
  v = np.mean(variances * sizes / rows)
  trial = _trial(3, _hyperparameters(**values))
  for i in range(3):
    found = trial.mixtures(_table(g, sizes, rows, variances), i)
    c = ((g[i] - g) ** 2)[:, 0]
    if 'debias' in values:
      c = np.maximum(c - variances[i] / rows[i] - variances / rows, 0)
    c[i] = 0
    expected = [
        perm_numpy.water_level(c, sizes, kappa * v) for kappa in _KAPPAS
    ]
    np.testing.assert_allclose(found['models'][0], expected, rtol=1e-5)


def _table(gradients, sizes, rows, variances):
  """What clients sent whose models make the mixtures their own weights."""
  n = len(sizes)
  return tf.nest.map_structure(tf.constant, dict(
      fingerprints=gradients, keys=np.arange(n, dtype=np.int32),
      models=(np.eye(n),), rows=np.float32(rows), sizes=np.float32(sizes),
      variances=np.float32(variances),
  ))


def test_of_too_few_visits_a_model_remembers_two_hosts():
  """Of clients who are alike but for one, whose own model is all its row."""
  n = 40
  gradients = np.zeros([n, 1])
  gradients[0] = 1e3
  table = _table(gradients, np.full(n, 20.0), np.full(n, 20.0), np.ones(n))

  def rows(num_visits):
    trial = _trial(n, _hyperparameters(), num_visits)
    mixtures = tf.function(trial.mixtures)
    return np.stack([mixtures(table, i)['models'][0] for i in tf.range(n)])

  whole, few = rows(2 * n), rows(10)
  np.testing.assert_allclose(whole[1:, -1, 1:], 1 / (n - 1), rtol=1e-4)
  np.testing.assert_array_equal(few[0], whole[0])
  np.testing.assert_allclose(np.sum(few, axis=2), 1, rtol=1e-6)
  hosts = np.count_nonzero(few[1:, -1], axis=1)
  # Of 39 hosts each is drawn with probability 2 / 39, the mean of 39 such draws
  # has a deviation of .22; a draw of nobody leaves the row as it is.
  assert np.mean(hosts[hosts < n - 1]) == pytest.approx(2.3, abs=0.9)


def _losses_in_numpy(w):
  """Yields float[kappa, s] of every client."""
  flat = lambda g: np.concatenate([np.ravel(leaf) for leaf in g])
  held_out, kept, models = [], [], []
  for i, (x, y) in enumerate(_clients(_TWO_GROUPS)):
    order = np.argsort(tf.random.stateless_uniform(
        [len(y)], random.key(_SEED, _ROUND, i, 2)
    ))
    num_held = round(0.2 * len(y))
    held, rest = order[:num_held], order[num_held:]
    rows = np.concatenate([rest, held])
    models.append(_trained(w, i, x[rows], y[rows], len(rest)))
    held_out.append((x[held], y[held]))
    kept.append((x[rest], y[rest]))
  paper = perm_numpy.Perm(_SOFTMAX, kept, _hyperparameters(), _SEED)
  found = [paper._gradient(w, i, _ROUND) for i in range(6)]
  gradients, variances, _ = zip(*found)
  sizes = np.array([len(y) for _, y in kept], float)
  for i, (x, y) in enumerate(held_out):
    c = [np.sum((flat(gradients[i]) - flat(g)) ** 2) for g in gradients]
    table = []
    for kappa in _KAPPAS:
      alpha = perm_numpy.water_level(c, sizes, kappa * np.mean(variances))
      mixed = [
          sum(a * models[j][leaf] for j, a in enumerate(alpha))
          for leaf in range(2)
      ]
      table.append([
          len(y) * _SOFTMAX.loss(
              [v + s * (m - v) for v, m in zip(w, mixed)], x, y
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
  monkeypatch.delattr(perm_lambda.Trial, 'choose_kappa')
  with pytest.raises(AttributeError, match='choose_kappa'):
    perm.build_perm(_MODEL, 2, _hyperparameters())
  perm.build_perm(_MODEL, 2, _hyperparameters(lambda_scale=10.0))


def test_kappa_is_chosen_once():
  """It costs six mixtures down, a model and a gradient up, in a round."""
  metrics = _run(4, (0,) * 6)
  scales = [m['lambda_scale'] for m in metrics]
  assert scales[0] == scales[1] == perm_lambda.DEFAULT
  assert scales[2] == scales[3] != perm_lambda.DEFAULT
  d = 64 * 4 + 4
  down = [m['bytes_down'] for m in metrics]
  assert down[2] - down[3] == pytest.approx(8 * 6 * d)
  up = [m['bytes_up'] for m in metrics]
  # Sizes, rows and the variance, and the table of losses, are float32.
  assert up[2] - up[3] == pytest.approx(8 * 2 * d + 4 * 3 + 4 * 36)


@pytest.mark.slow
def test_a_cohort_chooses_for_all():
  metrics = _run(3, (0,) * 6, False, (4, 1, 3))
  assert metrics[-1]['lambda_scale'] in perm_hyperparameters.kappas(6)[4:]


def test_the_kappa_whose_best_scale_has_the_smallest_loss_is_chosen():
  """Its mean over the scales may be large; without losses it stays."""
  losses = np.full([6, 6], 5.0, np.float32)
  losses[2, 4], losses[4] = 1.0, 2.0
  best = _trial(6, _hyperparameters())._best
  assert best(tf.constant(10.0), tf.constant(losses)) == _KAPPAS[2]
  assert best(tf.constant(10.0), tf.constant(0 * losses)) == 10


def test_many_clients_may_have_a_larger_kappa():
  assert perm_hyperparameters.kappas(20) == (0.1, 1, 3, 10, 30, 1e6)
  assert perm_hyperparameters.kappas(100) == (0.1, 1, 3, 10, 30, 100, 1e6)
  assert perm_hyperparameters.kappas(1000) == (0.1, 1, 3, 10, 30, 100, 300, 1e6)
