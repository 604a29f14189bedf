"""The mixture outside the loss: local SGD of C models, exponential routers."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.client_works import local_step
from tff_pers.client_works import mfl
from tff_pers.client_works import router_alone
from tff_pers.client_works import router_training
from tff_pers.models import adaptors
from tff_pers.numerics import mismatch

_SEED = tf.constant([1, 2], tf.int64)
_RATES = router_training.Rates(base=0.1, adaptors=0.2)


def _tensors(data):
  return tf.nest.map_structure(tf.constant, data)


def _weights(adapted, adaptor_rows):
  """Returns <adaptors, base> of full adaptors over weights `(w,)`."""
  return collections.OrderedDict(
      adaptors=(tf.convert_to_tensor(adaptor_rows, tf.float64),),
      base=adapted.base.initial_weights(0),
  )


def test_a_step_is_clipped_decays_and_has_momentum():
  quadratics = problems.q6()
  adapted = adaptors.full(quadratics.model, 2)
  weights = _weights(adapted, np.random.default_rng(1).normal(size=[2, 5]))
  pi = tf.constant([0.3, 0.7], tf.float64)
  step = local_step.LocalStep(0.9, weight_decay=0.2, clip_norm=0.5)
  moved, _ = mfl.train(
      adapted, pi, weights, _tensors(quadratics.clients()[2]), rates=_RATES,
      seed=_SEED, local=step, precondition=False, num_steps=4,
  )
  u, a = weights['base'][0].numpy(), weights['adaptors'][0].numpy()
  m = np.zeros([3, 5])  # Of the base, and of the adaptors.
  for _ in range(4):
    slopes = (u + a - quadratics.centers[2]) @ quadratics.curvatures[2]
    gradient = np.concatenate([pi.numpy()[None] @ slopes, slopes])
    clipped = 0.5 * gradient / np.linalg.norm(gradient)
    m = 0.9 * m + clipped + 0.2 * np.concatenate([u[None], a])
    u, a = u - 0.1 * m[0], a - 0.2 * m[1:]
  np.testing.assert_allclose(moved['base'][0], u, rtol=1e-10)
  np.testing.assert_allclose(moved['adaptors'][0], a, rtol=1e-10)


def test_exponential_router_minimizes_its_objective():
  """Eq. 34: sum_c pi_c f_c + sum_c pi_c log(pi_c) / rate over the simplex."""
  quadratics = problems.q6()
  adapted = adaptors.full(quadratics.model, 3)
  rows = np.random.default_rng(1).normal(size=[3, 5])
  rate = 0.7
  logits = mfl.exponential_router(
      adapted, _weights(adapted, rows), _tensors(quadratics.clients()[2]),
      rate=rate,
  )
  losses = np.array([quadratics.loss(2, quadratics.start + r) for r in rows])
  np.testing.assert_allclose(logits, -rate * losses)
  def objective(pi):
    return pi @ losses + pi @ np.log(pi) / rate
  best = tf.nn.softmax(logits).numpy()
  for other in np.random.default_rng(2).dirichlet(np.ones(3), size=20):
    assert objective(best) < objective(other)


@pytest.mark.parametrize('num_steps', [1, 5])
def test_fixed_point_of_frozen_routers(num_steps):
  """FLoRAL check 9: w_c = sum_k phat_c^k m_k exactly, for every H.

  And its error is below ||delta_c||_1 max_k ||m_k||.
  """
  centers = np.random.default_rng(3).normal(size=[6, 4])
  sizes = np.array([3, 5, 4, 8, 2, 6])
  quadratics = problems.Quadratics(
      np.tile(np.eye(4), [6, 1, 1]), centers, [1] * 6, np.zeros(4)
  )
  routers = np.random.default_rng(4).dirichlet(np.ones(2), size=6)
  truth = np.eye(2)[np.arange(6) % 2]
  shares = mismatch.cluster_shares(sizes.astype(float), routers).numpy()
  adapted = adaptors.full(quadratics.model, 2)
  clients = [_tensors(client) for client in quadratics.clients()]

  @tf.function
  def local_models(rows, pi, client):
    weights, _ = mfl.train(
        adapted, pi, _weights(adapted, rows), client,
        rates=router_training.Rates(base=0.0, adaptors=0.5), seed=_SEED,
        num_steps=num_steps,
    )
    return weights['base'][0] + weights['adaptors'][0]

  rows = np.ones([2, 4])
  for _ in range(60 // num_steps):  # 2^-60 of the start is left.
    local = np.stack([
        local_models(tf.constant(rows), tf.constant(pi), client)
        for pi, client in zip(routers, clients)
    ])
    rows = np.einsum('kc,kcd->cd', shares, local)
  np.testing.assert_allclose(rows, shares.T @ centers, rtol=0, atol=1e-12)
  best = mismatch.cluster_shares(sizes.astype(float), truth).numpy().T @ centers
  delta = mismatch.aggregation_mismatch(sizes.astype(float), routers, truth)
  errors = np.linalg.norm(rows - best, axis=1)
  assert np.all(errors <= delta * np.linalg.norm(centers, axis=1).max())
  assert np.all(errors > 1e-3)


def test_a_softmax_step_is_an_exponential_step_to_second_order():
  """FLoRAL check 10: the difference falls as the square of the offsets."""
  num_adaptors, rate = 4, 0.5
  quadratics = problems.q6()
  adapted = adaptors.full(quadratics.model, num_adaptors)
  offsets = np.random.default_rng(5).normal(size=[num_adaptors, 5])
  client = _tensors(quadratics.clients()[0])
  gaps = []
  for size in (1.0, 0.1, 0.01):
    weights = _weights(adapted, size * offsets)
    theta = router_alone.learn_router(
        adapted, tf.zeros([num_adaptors], tf.float64), weights, client,
        num_steps=1, learning_rate=rate,
    )
    exponential = mfl.exponential_router(
        adapted, weights, client, rate=rate / num_adaptors
    )
    gaps.append(
        np.abs(tf.nn.softmax(theta) - tf.nn.softmax(exponential)).max()
    )
  np.testing.assert_allclose(gaps[1] / gaps[2], 100, rtol=0.1)
  assert gaps[0] > 10 * gaps[1]
