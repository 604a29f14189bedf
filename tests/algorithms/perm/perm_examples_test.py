"""PERM end to end on images of digits: minibatches are not full gradients.

The quadratics of the other tests have the same example in every row of a
client, so that no test of theirs sees which rows make a batch.
"""

import functools
import types

import numpy as np
import pytest
import sklearn.datasets
import tensorflow as tf

from tests import acting
from tests.algorithms.perm import perm_numpy
from tff_pers.algorithms.perm import perm
from tff_pers.config import methods
from tff_pers.data import client_data
from tff_pers.models import zoo

# Images of 0, 1, 2 and 3; clients 1, 3 and 4 call a digit d what the others call
# d + 2 (mod 4).
_NUM_CLASSES = 4
_GROUPS = np.array([0, 1, 0, 1, 1, 0], np.int32)
_SIZES = (40, 46, 51, 57, 62, 70)
_NUM_TESTS = 60
_L2 = 1e-3
_SEED = 5
_NUM_ROUNDS = 20  # Two rounds for w, then three epochs of visits.
_OPTIONS = dict(
    warmup_rounds=2, stage1_rounds=2, local_steps=3, batch_size=8,
    learning_rate=0.1, global_learning_rate=0.5, step_cap=2.0,
    warmup='gradient', lambda_scale=10.0, own_rounds=0,
)


@functools.lru_cache(maxsize=None)
def _clients():
  """Returns (training, test) pairs (x, y) of all clients."""
  digits = sklearn.datasets.load_digits(n_class=_NUM_CLASSES)
  order = np.random.default_rng(0).permutation(len(digits.target))
  clients, start = [], 0
  for size, group in zip(_SIZES, _GROUPS):
    rows = order[start : start + size + _NUM_TESTS]
    start += size + _NUM_TESTS
    x = digits.data[rows] / 16
    y = (digits.target[rows] + 2 * group) % _NUM_CLASSES
    y = y.astype(np.int32)
    clients.append(((x[:size], y[:size]), (x[size:], y[size:])))
  return clients


@functools.lru_cache(maxsize=None)
def _task():
  """Returns the clients as a task, as far as builders of methods look."""
  dense = lambda part: tuple(
      client_data.dense(i, *client[part])
      for i, client in enumerate(_clients())
  )
  return types.SimpleNamespace(
      model=zoo.build(
          'logistic_regression', tf.TensorSpec([None, 64], tf.float64),
          _NUM_CLASSES, dtype=tf.float64, l2=_L2,
      ),
      num_clients=len(_GROUPS), groups=_GROUPS, has_groups=True,
      client_weighting='examples', full_participation=True, clients_per_round=0,
      num_new_clients=0,
      rounds=_NUM_ROUNDS,
      train=dense(0), test=dense(1),
  )


def _states(process, num_rounds=_NUM_ROUNDS):
  """Returns the server states after every round."""
  state, states = process.initialize_seeded(_SEED), []
  for _ in range(num_rounds):
    state = process.next(
        state, [()] * len(_GROUPS), list(_task().train)
    )['state']
    states.append(state)
  return states


@functools.lru_cache(maxsize=None)
def _trained(name, **options):
  """Returns (states, accuracy of every client) of a method."""
  method = methods.get(name)
  defaults = _OPTIONS if name == 'perm' else {
      k: _OPTIONS[k] for k in ('local_steps', 'batch_size', 'learning_rate')
  }
  process = method.build(
      _task(),
      acting.hyperparameters(method.hyperparameters, defaults, **options),
  )
  states = _states(process)
  evaluated = process.evaluate(
      states[-1], [()] * len(_GROUPS),
      [
          dict(adapt=train, test=test)
          for train, test in zip(_task().train, _task().test)
      ],
  )
  return states, np.array([client['accuracy'] for client in evaluated])


def _expected(num_rounds, **options):
  """Returns the NumPy run."""
  return list(perm_numpy.Perm(
      perm_numpy.Softmax(_NUM_CLASSES, _L2), [train for train, _ in _clients()],
      acting.hyperparameters(perm.PermHyperparameters, _OPTIONS, **options),
      _SEED,
  ).run(num_rounds))


def _assert_follows(states, expected):
  # A is kept in float32, and so its rounding is in every visit.
  for state, (w, mixing, models) in zip(states, expected):
    for actual, wanted in zip(state['weights'], w):
      np.testing.assert_allclose(actual, wanted, rtol=1e-9, atol=1e-12)
    if mixing is not None:
      np.testing.assert_allclose(state['mixing'], mixing, atol=1e-6)
    for actual, wanted in zip(state['models'], map(np.stack, zip(*models))):
      np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize('options', [
    dict(variant='single_loop', schedule='permutation'),
    dict(variant='two_stage', schedule='permutation'),
    dict(variant='single_loop', schedule='matching', warmup='fedavg'),
])
def test_follows_the_algorithm_in_numpy(options):
  """Algorithm 2, and Algorithm 3 then 1: w, A and all models, every round."""
  expected = _expected(_NUM_ROUNDS, **options)
  states, accuracies = _trained('perm', **options)
  _assert_follows(states, expected)
  mixing, models = expected[-1][1:]
  assert 0.02 < np.min(mixing.max(axis=1) - mixing.min(axis=1))
  softmax = perm_numpy.Softmax(_NUM_CLASSES, _L2)
  np.testing.assert_allclose(accuracies, [
      softmax.accuracy(model, *test)
      for model, (_, test) in zip(models, _clients())
  ], rtol=1e-6)


def test_gradients_of_few_rows_follow_the_algorithm_in_numpy():
  """Trap 4: M of n_i rows; lambda grows with the variance, by n / M."""
  options = dict(gradient_batch=9)
  process = perm.build_perm(
      _task().model, len(_GROUPS),
      acting.hyperparameters(perm.PermHyperparameters, _OPTIONS, **options),
  )
  _assert_follows(_states(process, 5), _expected(5, **options))


@pytest.mark.parametrize('variant', ['single_loop', 'two_stage'])
def test_is_near_the_oracle_with_another_model_per_client(variant):
  states, accuracies = _trained('perm', variant=variant)
  oracle = _trained('oracle_groups')[1]
  assert oracle.mean() >= 0.85
  assert accuracies.mean() >= oracle.mean() - 0.05
  kernels = states[-1]['models'][0]
  for i, group in enumerate(_GROUPS):
    for j, other in enumerate(_GROUPS):
      distance = np.abs(kernels[i] - kernels[j]).max()
      assert i == j or distance > 1e-3
      assert group == other or distance > 0.1
  mass = np.sum(
      states[-1]['mixing'] * np.equal.outer(_GROUPS, _GROUPS), axis=1
  )
  assert mass.min() >= 0.9


def test_one_model_for_all_is_far_from_the_oracle():
  """Half of the clients call every digit by another name."""
  states, uniform = _trained('uniform_shuffling')
  np.testing.assert_allclose(states[-1]['mixing'], 1 / len(_GROUPS))
  assert uniform.mean() <= _trained('oracle_groups')[1].mean() - 0.2
