"""Clients that PERM meets after training."""

import collections
import functools

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tests import acting
from tests.algorithms.perm import visits
from tff_pers.algorithms.perm import perm
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_new_clients
from tff_pers.numerics import mixing

_N, _LAMBDA = 4, 50.0
# Those that train, and two that do not.
_PROBLEM = visits.random_quadratics(10, _N + 2, 3)
_SIZES = np.asarray(_PROBLEM.num_examples, np.float64)


@functools.lru_cache(maxsize=None)
def _trained(full=True, **values):
  """Returns (hyperparameters, process, w compared at, S after two rounds)."""
  hyperparameters = acting.hyperparameters(
      perm.PermHyperparameters,
      dict(
          local_steps=2, batch_size=4, learning_rate=0.05, warmup_rounds=1,
          global_learning_rate=0.1, warmup='gradient', lambda_=_LAMBDA,
          # So that they deploy the row or the mixture itself.
          own_rounds=0, adapt_epochs=0,
      ),
      **values,
  )
  process = perm.build_perm(
      _PROBLEM.model, _N, hyperparameters, full_participation=full,
      num_new_clients=3,
  )
  state = process.initialize_seeded(3)
  for _ in range(3):
    anchor = state['weights'][0]
    state = process.next(state, [()] * _N, _PROBLEM.clients()[:_N])['state']
  return hyperparameters, process, anchor, state


def _new(client, index):
  """A new client with the data of another."""
  return collections.OrderedDict(
      _PROBLEM.clients()[client], index=np.int32(index)
  )


@functools.lru_cache(maxsize=None)
def _dispatch(process, hyperparameters):
  state_type = process.initialize_seeded.type_signature.result.member
  client = perm_client.Client(
      perm_devices.Devices(_PROBLEM.model), hyperparameters, _N
  )
  return perm_new_clients.build_dispatch(client, state_type, 3)


def _deployed(process, hyperparameters, state, data):
  dispatch = _dispatch(process, hyperparameters)
  return [np.asarray(w[0]) for w in dispatch(state, data)]


def _row_of_new(gradients, client):
  """Eq. (2) over those that trained and `client`, less its own weight."""
  some = [*range(_N), client]
  distances = np.sum((gradients[some] - gradients[client]) ** 2, axis=-1)
  alpha = mixing.water_filling(
      distances, tf.constant(_SIZES[some]), _LAMBDA
  ).numpy()
  return alpha[:_N] / np.sum(alpha[:_N])


def _nearest_combination(mixing_weights, row):
  """Non-negative least squares, with a heavy row for the sum of 1."""
  heavy = 1e4
  beta, _ = scipy.optimize.nnls(
      np.vstack([mixing_weights.T, heavy * np.ones([1, len(mixing_weights)])]),
      np.append(row, heavy),
  )
  return beta


@pytest.mark.parametrize('full', [True, False])
def test_a_new_client_gets_the_models_whose_mixtures_make_up_its_row(full):
  """At the w that the others compared, against SciPy."""
  hyperparameters, process, anchor, state = _trained(full)
  gradients = np.einsum(
      'nij,nj->ni', _PROBLEM.curvatures, anchor - _PROBLEM.centers
  )
  found = _deployed(
      process, hyperparameters, state,
      [_PROBLEM.clients()[2], _new(5, 6), _new(4, 4)],
  )
  np.testing.assert_array_equal(found[0], state['models'][0][2])
  for client, weights in ((5, found[1]), (4, found[2])):
    row = _row_of_new(gradients, client)
    beta = _nearest_combination(state['mixing'], row)
    assert np.max(beta) < 0.9
    np.testing.assert_allclose(weights, beta @ state['models'][0], rtol=1e-3)


def test_who_trained_deploys_after_own_steps_and_the_table_stays():
  """Two rounds' worth of full batches, w <- w - eta A_i (w - c_i)."""
  _, process, _, state = _trained(batch_size=0, own_rounds=2)
  data = _PROBLEM.clients()[2]
  found = process.deploy(state, [()], [data])[0]['weights'][0]
  w = stored = state['models'][0][2]
  for _ in range(2 * 2):
    w = w - 0.05 * _PROBLEM.curvatures[2] @ (w - _PROBLEM.centers[2])
  np.testing.assert_allclose(found, w, rtol=1e-5)
  assert np.max(np.abs(w - stored)) > 1e-3
  np.testing.assert_array_equal(process.client_model(state, (), 2)[0], stored)


def test_combinations_are_the_least_squares():
  rng = np.random.default_rng(0)
  rows = rng.dirichlet(np.full(6, 0.5), 6).astype(np.float32)
  targets = rng.dirichlet(np.full(6, 0.5), 3)
  found = perm_new_clients.combinations(
      tf.constant(rows), tf.constant(targets)
  )
  expected = [_nearest_combination(rows, target) for target in targets]
  assert np.sum(np.max(expected, axis=1) < 0.9) > 1
  np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize('sparse', [False, True])
def test_a_row_of_a_client_that_trained_gets_its_model(sparse):
  """beta is one-hot, if no other clients' rows make up the same mixture."""
  rng = np.random.default_rng(0)
  rows = rng.dirichlet(np.full(6, 0.5), 6).astype(np.float32)
  columns = np.tile(np.arange(6, dtype=np.int32)[::-1], [6, 1])
  found = perm_new_clients.combinations(
      dict(columns=tf.constant(columns), values=tf.constant(rows[:, ::-1]))
      if sparse else tf.constant(rows),
      tf.constant(rows[[4, 1]], tf.float64),
  )
  np.testing.assert_allclose(found, np.eye(6)[[4, 1]], atol=0.02)


def test_combinations_of_many_clients_are_of_those_with_weight():
  """150 clients in three groups that do not share; a row of the third."""
  groups = np.repeat(np.arange(3), 50)
  rows = (groups[:, None] == groups) / 50
  found = perm_new_clients.combinations(
      tf.constant(rows, tf.float32), tf.constant(rows[-1:])
  ).numpy()[0]
  np.testing.assert_allclose(np.sum(found), 1)
  np.testing.assert_allclose(np.sum(found[100:]), 1, atol=1e-4)


def _spoiled(data):
  """A client whose features are not numbers."""
  x = np.full_like(data['examples']['x'], np.nan)
  return collections.OrderedDict(data, examples=dict(data['examples'], x=x))


def test_a_new_client_without_a_gradient_deploys_the_shared_model():
  """Without examples, or with features that are not numbers."""
  hyperparameters, process, _, state = _trained()
  [clean] = _deployed(process, hyperparameters, state, [_new(1, 4)])
  assert np.any(clean != state['weights'][0])
  empty = collections.OrderedDict(_new(1, 5), num_examples=np.int32(0))
  for data in (empty, _spoiled(_new(2, 5))):
    found = _deployed(process, hyperparameters, state, [_new(1, 4), data])
    np.testing.assert_array_equal(found, [clean, state['weights'][0]])


def test_new_clients_are_compared_at_one_w():
  """Who sent no gradient in the last round is not there with an older one."""
  _, process, _, state = _trained()
  assert np.all(state['table']['sizes'] > 0)
  data = _PROBLEM.clients()[:_N]
  data[2] = _spoiled(data[2])
  anchor = state['weights'][0]
  table = process.next(state, [()] * _N, data)['state']['table']
  np.testing.assert_array_equal(table['dates'], [3, 3, -1, 3])
  np.testing.assert_array_equal(table['sizes'] > 0, np.arange(_N) != 2)
  gradients = np.einsum(
      'nij,nj->ni', _PROBLEM.curvatures, anchor - _PROBLEM.centers
  )
  gradients[2] = 0
  np.testing.assert_allclose(
      table['fingerprints'], gradients[:_N], rtol=1e-10
  )


@pytest.mark.parametrize('values', [dict(), dict(adapt_epochs=3)])
def test_only_new_clients_adapt(values):
  """Local epochs from the mixture; clients that trained deploy their model."""
  hyperparameters, process, _, state = _trained(**values)
  data = [_PROBLEM.clients()[1], _new(1, 4)]
  deployed = _deployed(process, hyperparameters, state, data)
  losses = [
      m['loss'] for m in process.evaluate(
          state, [()] * 2,
          [collections.OrderedDict(adapt=d, test=d) for d in data],
      )
  ]
  offsets = np.stack(deployed) - _PROBLEM.centers[1]
  before = np.einsum('ki,ij,kj->k', offsets, _PROBLEM.curvatures[1], offsets)
  np.testing.assert_allclose(losses[0], before[0] / 2, rtol=1e-5)
  if values:
    assert losses[1] < 0.95 * before[1] / 2
  else:
    np.testing.assert_allclose(losses[1], before[1] / 2, rtol=1e-5)
