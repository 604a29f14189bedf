"""FedALA (papers/neighbours.md 4)."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from baselines import fedala
from tests import problems
from tests.baselines import rounds
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import local_aggregation
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import loss_functions
from tff_pers.models import partition
from tff_pers.models import zoo


def test_mixing_of_zero_is_a_local_head():
  """FedPer with that split; W = 0 stays because it is not learned."""
  process, _, _, _ = rounds.run('fedala', mixing_learning_rate=0.0)
  local = rounds.run('fedper')[0]
  clients = problems.tiny_clients()[:2]

  def trained(process, change):
    state = process.initialize_seeded(rounds.SEED)
    own = [change(process.initialize_client(state, i)) for i in (0, 1)]
    for _ in range(2):
      output = process.next(state, own, clients)
      state, own = output['state'], output['client_states']
    return state, own

  def without_mixing(own):
    return collections.OrderedDict(
        own, mixing=tf.nest.map_structure(np.zeros_like, own['mixing'])
    )

  state, own = trained(process, without_mixing)
  expected, heads = trained(local, lambda own: own)
  rounds.assert_close(state['weights'][:2], expected['weights'])
  for mine, head in zip(own, heads):
    rounds.assert_close(mine['weights'][2:], head)
  # The body is FedAvg's start, not the client's own.
  assert not np.allclose(own[0]['weights'][0], own[1]['weights'][0])


def _head():
  """Returns (the model of the last layer, v, w, a batch)."""
  model = problems.tiny_model()
  parts = partition.last_layers(model, 1)
  body, own = parts.split(model.init(tf.constant([1, 2], tf.int64)))
  received = parts.split(model.init(tf.constant([3, 4], tf.int64)))[1]
  batch = rounds.whole_batch(problems.tiny_clients()[4])
  return parts.private_model(body), own, received, batch


def test_the_gradient_of_the_mixing_is_that_of_the_loss():
  """By central differences."""
  head, own, received, batch = _head()
  mixing = tf.nest.map_structure(lambda v: 0.2 + 0.6 * tf.sigmoid(v), own)
  mixed = local_aggregation.mix(own, received, mixing)
  _, gradient = head.loss_and_gradient(mixed, batch)
  gap = tf.nest.map_structure(tf.subtract, received, own)
  moved = local_aggregation.next_mixing(mixing, gradient, gap, 1e-3)
  for leaf, shape in enumerate(v.shape for v in own):
    for place in np.ndindex(*shape):
      step = [np.zeros(v.shape) for v in own]
      step[leaf][place] = 1e-5
      loss = lambda sign, step=step: head.batch_loss(
          local_aggregation.mix(own, received, tf.nest.map_structure(
              lambda w, s: w + sign * s, mixing, tuple(step)
          )), batch,
      )
      np.testing.assert_allclose(
          (mixing[leaf][place] - moved[leaf][place]) / 1e-3,
          (loss(1) - loss(-1)) / 2e-5, rtol=0, atol=1e-8,
      )


def test_mixing_is_clipped_at_both_ends():
  mixing, gradient, gap = (
      (tf.constant(values, tf.float64),)
      for values in ([0.1, 0.9, 0.5], [1.0, -1.0, 0.3], [0.5, 0.5, 1.0])
  )
  found = local_aggregation.next_mixing(mixing, gradient, gap, 1.0)
  np.testing.assert_allclose(found[0], [0.0, 1.0, 0.2], rtol=1e-12)


_SPEC = tf.TensorSpec([None, 2], tf.float64)
_VALUES = dict(
    batch_size=0, local_steps=2, learning_rate=0.05, mixing_learning_rate=0.4,
    share=0.6,
)


def _clients():
  rng = np.random.default_rng(0)
  return [
      client_data.dense(i, x, x @ [1.0 + i, -i] + rng.normal(size=len(x)) / 9)
      for i, x in enumerate(rng.normal(size=[3, 10, 2]))
  ]


def _gradient(w, data):
  """Returns (mean of (x a + b - y)^2, its gradient), w = (a, b)."""
  x, y = (np.asarray(data['examples'][name]) for name in ('x', 'y'))
  size = int(data['num_examples'])
  x, y = np.c_[x[:size], np.ones(size)], y[:size]
  return np.mean((x @ w - y) ** 2), 2 * x.T @ (x @ w - y) / size


def _numpy_client(theta, own, mixing, passes, data, round_num):
  """Returns (theta_i, W_i, passes) after a round, by the paper's box."""
  message = rounds.message((), rounds.SEED, round_num)
  sample = held_out.split(
      data, _VALUES['share'], client_work.key(message, data, use=1)
  )[1]
  losses, most = [], 0
  if np.any(theta != own):
    most = 1 if passes else 100
  while len(losses) < most and (
      len(losses) < 10 or np.std(losses[-10:]) >= 0.01
  ):
    loss, gradient = _gradient(own + (theta - own) * mixing, sample)
    losses.append(loss)
    mixing = np.clip(mixing - 0.4 * gradient * (theta - own), 0, 1)
  u = own + (theta - own) * mixing
  for _ in range(2):
    u = u - 0.05 * _gradient(u, data)[1]
  return u, mixing, passes + len(losses)


def test_rounds_are_those_of_numpy():
  """Linear regression, all gradients of all examples; 1e-10."""
  model = zoo.build('linear_regression', _SPEC, 0, dtype=tf.float64)
  process = fedala.build_fedala(model, fedala.FedALAHyperparameters(**_VALUES))
  clients = _clients()
  cohorts = [(0, 1, 2), (2, 0), (1, 2, 0)]
  states, own, _ = rounds.train(process, cohorts, clients)
  theta = np.zeros(3)
  expected = {i: (np.zeros(3), np.ones(3), 0) for i in range(3)}
  for round_num, cohort in enumerate(cohorts):
    for i in cohort:
      expected[i] = _numpy_client(
          theta, *expected[i], rounds.tensors(clients[i]), round_num
      )
    theta = np.mean([expected[i][0] for i in cohort], axis=0)
    flat = np.concatenate([a.ravel() for a in states[round_num]['weights']])
    np.testing.assert_allclose(flat, theta, rtol=0, atol=1e-10)
  for i, (v, mixing, passes) in expected.items():
    for found, value in ((own[i]['weights'], v), (own[i]['mixing'], mixing)):
      np.testing.assert_allclose(
          np.concatenate([a.ravel() for a in found]), value, rtol=0, atol=1e-10
      )
    assert own[i]['passes'] == passes
  passes = [passes for _, _, passes in expected.values()]
  # Settled before the last pass, and after the first ten; one more later.
  assert 11 < passes[2] < 101 and np.any(expected[0][1] < 0.99)


def test_last_layers():
  model = problems.tiny_model()
  for count, expected in ((0, []), (1, [2, 3]), (5, [0, 1, 2, 3])):
    private = partition.last_layers(model, count).is_private
    assert [i for i, own in enumerate(private) if own] == expected
  mapping = functional.FunctionalModel(
      init=lambda seed: dict(head=tf.zeros([2, 1]), hidden=tf.zeros([3, 2])),
      predict=lambda w, x, training, seed: x @ w['hidden'] @ w['head'],
      example_loss=loss_functions.squared_error,
      x_spec=tf.TensorSpec([None, 3]),
      y_spec=tf.TensorSpec([None]),
  )
  with pytest.raises(ValueError, match='in which order its layers'):
    partition.last_layers(mapping, 1)
