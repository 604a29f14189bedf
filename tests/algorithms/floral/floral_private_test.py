"""Private adaptors beside the shared ones of FLoRAL."""

import numpy as np
import pytest
import tensorflow as tf

from baselines import local_adaptor
from tests import problems
from tests.baselines import rounds
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.models import functional
from tff_pers.models import zoo

_LOCAL = dict(local_steps=5, batch_size=2, learning_rate=0.1)


def _build(num_adaptors, adapted=None, **options):
  return floral.build_floral(
      adapted or adaptors.floral(problems.tiny_model(), num_adaptors, rank=1),
      floral_hp.FloralHyperparameters(**{**_LOCAL, **options}), num_clients=5,
  )


class _OtherFactors(adaptors.AdaptedModel):
  """Adaptors of a local adaptor that start as private ones do."""

  def initial_adaptors(self, seed):
    return self.drawn(random.fold_in(functional.init_key(seed), -3))


def _own(rank):
  adapted = adaptors.floral(problems.tiny_model(), 1, rank=rank)
  return _OtherFactors(adapted.base, 1, adapted.plan)


def test_without_shared_adaptors_it_is_local_adaptor():
  """Training, and a client that never trains."""
  process = _build(0, private_rank=1)
  states, clients, _ = rounds.train(process)
  own = local_adaptor.build_local_adaptor(
      _own(1), local_adaptor.LocalAdaptorHyperparameters(**_LOCAL),
      num_clients=5,
  )
  own_states, own_clients, _ = rounds.train(own)
  rounds.assert_close(states[-1]['weights']['base'], own_states[-1]['weights'])
  for client, adaptor in own_clients.items():
    rounds.assert_close(clients[client]['private'], adaptor)
  data = dict(problems.tiny_clients()[4], index=np.int32(5))
  new, expected = (
      each.evaluate(
          state, [each.initialize_client(state, 5)],
          [dict(adapt=data, test=data)],
      )[0]
      for each, state in ((process, states[-1]), (own, own_states[-1]))
  )
  np.testing.assert_allclose(new['loss'], expected['loss'], rtol=1e-9)


def test_it_is_never_sent():
  process = _build(2, private_rank=3)
  start = process.initialize_seeded(0)
  state = process.initialize_client(start, 0)
  assert set(state) == {'router', 'private'}
  messages = process.parts.dispatch(start, [0])
  output = process.parts.work(messages, [state], problems.tiny_clients()[:1])[0]
  # What is sent, and what the server has, is of the shared adaptors' rank 1.
  for sent, own in zip(*map(
      tf.nest.flatten, (output['update'], start['weights'])
  )):
    assert sent.shape == own.shape
  assert start['weights']['adaptors'][0]['u'].shape == (2, 1, 4)
  kernel = output['client_state']['private'][0]
  assert kernel['u'].shape == (1, 3, 4) and np.any(kernel['u'])
  # Its random factor is none of those that are shared.
  assert np.any(
      state['private'][0]['v'][0, :1] != start['weights']['adaptors'][0]['v'][0]
  )


def _solved(factor, gradient):
  return np.linalg.solve(
      factor @ factor.T + 1e-5 * np.eye(len(factor)), gradient
  )


def _step(v, u, slope, rate):
  """The preconditioned, bounded step of v^T u, for the slope of the kernel."""
  dv = -rate * _solved(u, u @ slope.T)
  du = -rate * _solved(v, v @ slope)
  norm = np.linalg.norm
  longest = norm(v.T @ du) + norm(dv.T @ u)
  share = longest / max(longest, norm((v + dv).T @ (u + du) - v.T @ u))
  return v + share * dv, u + share * du


def test_a_round_is_that_of_numpy():
  """A softmax, one adaptor that all share, full batches: pi is 1."""
  rng = np.random.default_rng(0)
  model = zoo.build(
      'logistic_regression', tf.TensorSpec([None, 6], tf.float64), 4,
      dtype=tf.float64,
  )
  process = _build(
      1, adaptors.floral(model, 1, rank=2), private_rank=3, local_steps=4,
      batch_size=0, learning_rate=0.4, adaptor_learning_rate=0.7,
  )
  data = [
      client_data.dense(
          k, rng.standard_normal([n, 6]), rng.integers(0, 4, n).astype(np.int32)
      )
      for k, n in enumerate((5, 9, 3))
  ]
  state = process.initialize_seeded(3)
  own = [process.initialize_client(state, k) for k in range(3)]
  after = process.next(state, own, data)
  kernel, bias = _base(state['weights'])
  shared = _factors(state['weights']['adaptors'])
  found, sizes = [], []
  for client, one in zip(own, data):
    x, y = one['examples']['x'], np.eye(4)[one['examples']['y']]
    w, b = kernel, bias
    (v, u, c), (q, p, a) = shared, _factors(client['private'])
    for _ in range(4):
      z = x @ (w + v.T @ u + q.T @ p) + b + c + a
      e = np.exp(z - z.max(1, keepdims=True))
      e = (e / e.sum(1, keepdims=True) - y) / len(x)
      slope, bias_slope = x.T @ e, e.sum(0)
      w, b = w - 0.4 * slope, b - 0.4 * bias_slope
      c, a = c - 0.7 * bias_slope, a - 0.7 * bias_slope
      v, u = _step(v, u, slope, 0.7)
      q, p = _step(q, p, slope, 0.7)
    found.append((w, b, v, u, c, q, p, a))
    sizes.append(len(x))
  weights = after['state']['weights']
  for actual, own in zip(
      (*_base(weights), *_factors(weights['adaptors'])), zip(*found)
  ):
    # Weights of clients are float32.
    expected = np.average(np.stack(own), axis=0, weights=sizes)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8)
  for client, one in zip(after['client_states'], found):
    for actual, expected in zip(_factors(client['private']), one[-3:]):
      np.testing.assert_allclose(actual, expected, atol=1e-8)


def _base(weights):
  """Returns the kernel and the bias."""
  return sorted(tf.nest.flatten(weights['base']), key=np.ndim, reverse=True)


def _factors(own):
  """Returns v, u and the bias of the only adaptor."""
  pair, bias = sorted(own, key=lambda x: not isinstance(x, dict))
  return pair['v'][0], pair['u'][0], bias[0]


@pytest.mark.parametrize('options', [
    dict(router_state='stateless'), dict(objective='mfl'),
])
def test_it_needs_clients_with_a_state_and_one_loss(options):
  with pytest.raises(ValueError, match='`private_rank` must be left at 0'):
    floral_hp.FloralHyperparameters(private_rank=1, **options)
