"""What FLoRAL's theory and text claim, measured.

Local SGD with C models and exponential routers (Theorems 4.5, A.9, Lemma A.6)
is that of objective=mfl: every client trains all models, model c is averaged
with the weights phat_c, and pi_c ~ exp(-eta_t f(w_c)).
"""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.algorithms.floral import floral
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.client_works import local_sgd
from tff_pers.client_works import mfl
from tff_pers.client_works import router_training
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors
from tff_pers.models import zoo
from tff_pers.numerics import mismatch

_C = 2


def _share_of_jensen(model, labels):
  """Returns the share of 100 draws with the mixture inside at most outside."""
  adapted = adaptors.full(model, _C)
  rng = np.random.default_rng(0)
  batch = client_data.Batch(
      tf.constant(rng.normal(size=[20, 3])), tf.constant(labels(rng)),
      tf.ones([20], tf.bool), random.key(0),
  )
  start = collections.OrderedDict(
      adaptors=adapted.initial_adaptors(0), base=model.initial_weights(0)
  )

  @tf.function
  def gap(pi, *leaves):
    weights = tf.nest.pack_sequence_as(start, leaves)
    inside = adapted.mixed(pi).batch_loss(weights, batch)
    outside = tf.reduce_sum(pi * mfl.model_losses(adapted, weights, batch))
    return outside - inside

  gaps = []
  for _ in range(100):
    leaves = [rng.normal(size=leaf.shape) for leaf in tf.nest.flatten(start)]
    pi = rng.dirichlet(np.ones(_C))
    gaps.append(gap(*map(tf.constant, (pi, *leaves))).numpy())
  assert np.abs(gaps).max() > 0.1
  return np.mean(np.array(gaps) >= -1e-12)


def test_the_mixture_inside_a_convex_loss_is_the_lower_one():
  """FML <= MFL for linear classifiers; for a network in most draws only."""
  spec = tf.TensorSpec([None, 3], tf.float64)
  classifier = zoo.build('logistic_regression', spec, 2, dtype=tf.float64)
  labels = lambda rng: rng.integers(0, 2, 20).astype(np.int32)
  assert _share_of_jensen(classifier, labels) == 1
  share = _share_of_jensen(problems.tiny_model(), labels)
  np.testing.assert_allclose(share, 0.81, atol=0.05)


def test_the_base_has_c_times_less_noise_than_an_adaptor():
  """Appendix B, balanced clusters: variances 1 / K and C / K of one gradient.

  1,000 numbers of the base: their variance has a deviation of 4.5 %.
  """
  num_clients, num_clusters, dim, rate = 12, 4, 100, 0.5
  rng = np.random.default_rng(0)

  def quadratics():
    # At 0 the gradient of every client is noise of variance 1.
    return problems.Quadratics(
        np.tile(np.eye(dim), [num_clients, 1, 1]),
        rng.normal(size=[num_clients, dim]), [1] * num_clients, np.zeros(dim),
    )

  process = floral.build_floral(
      adaptors.full(quadratics().model, num_clusters),
      floral_hp.FloralHyperparameters(
          router='oracle', local_steps=1, batch_size=1, learning_rate=rate,
          adaptor_learning_rate=rate,
      ),
      groups=np.arange(num_clients) % num_clusters,
  )
  state, moved = process.initialize_seeded(0), []
  for _ in range(10):
    output = process.next(state, [()] * num_clients, quadratics().clients())
    moved.append(output['state']['weights'])
  base, own = (
      np.mean(np.square([weights[part][0] for weights in moved])) / rate ** 2
      for part in ('base', 'adaptors')
  )
  np.testing.assert_allclose(base, 1 / num_clients, rtol=0.15)
  np.testing.assert_allclose(own, num_clusters / num_clients, rtol=0.15)


@pytest.fixture(scope='module', name='shares_of_drift')
def _shares_of_drift():
  """Returns E||w - w_k||^2 / (4 eta_t^2 H^2 G^2) at the steps of a round."""
  model = problems.s2().model
  step = tf.function(lambda w, data, rate: local_sgd.train(
      model, (w,), data, learning_rate=rate, seed=random.key(0), num_steps=1,
  )[0][0])

  def shares(curvatures, centers, rates):
    quadratics = problems.Quadratics(
        np.reshape(curvatures, [-1, 1, 1]), np.reshape(centers, [-1, 1]),
        np.ones(len(centers), int), np.zeros(1),
    )
    data = [
        tf.nest.map_structure(tf.constant, client)
        for client in quadratics.clients()
    ]
    models, drifts, largest = np.zeros([len(centers), 1]), [], 0.0
    for rate in tf.constant(rates):
      drifts.append(np.var(models))
      slopes = np.ravel(curvatures) * (models[:, 0] - np.ravel(centers))
      largest = max(largest, np.square(slopes).max())
      models = np.stack([
          step(tf.constant(w), client, rate) for w, client in zip(models, data)
      ])
    return drifts / (4 * np.square(rates) * len(rates) ** 2 * largest)

  return shares


def test_client_drift_is_below_four_squares(shares_of_drift):
  """Lemma of the client drift, if rates fall to a half within a round."""
  num_steps, rng = 20, np.random.default_rng(0)
  constant = np.full(num_steps, 0.05)
  late = np.append(np.full(num_steps - 1, 0.1), 0.05)
  drawn = rng.uniform(0.5, 2, 6), rng.normal(size=6)
  assert 0 < shares_of_drift(*drawn, constant).max() < 0.25
  # Two clients of opposite, constant gradients: none are farther apart.
  apart = [1e-6, 1e-6], [1e6, -1e6]
  reached = ((num_steps - 1) / num_steps) ** 2
  for rates, factor in ((constant, 0.25), (late, 1.0)):
    np.testing.assert_allclose(
        shares_of_drift(*apart, rates).max(), factor * reached, rtol=1e-3
    )
  # If they fall to a tenth, it does not hold.
  fallen = np.where(late > 0.05, 0.5, 0.05)
  assert shares_of_drift(*apart, fallen).max() > 10


# Two clusters of two clients, f_k(w) = (w - m_k)^2 / 2: mu = L = 1, no noise,
# no loss at the optimum of a cluster. Gradients between -1 and 1 are at most 2.
_CENTERS = np.array([1.0, -1.0, 1.0, -1.0])
_TRUTH = np.eye(2)[[0, 1, 0, 1]]
_SIZES = np.ones(4)
_SQUARED_GRADIENT = 4.0


def _softmax(logits):
  powers = np.exp(logits - logits.max(axis=1, keepdims=True))
  return powers / powers.sum(axis=1, keepdims=True)


def _path(start, rates, shares_at):
  """Yields the C models before each step: one local step per round.

  Args:
    start: w_c, [C].
    rates: eta_t of the steps.
    shares_at: `(t, w) -> phat`, [K, C].
  """
  w = np.array(start)
  for t, rate in enumerate(rates):
    yield w
    w = w - rate * (w - _CENTERS @ shares_at(t, w))


def _exponential(rate_at):
  """Returns phat of the routers pi_c ~ exp(-rate (w_c - m_k)^2 / 2)."""
  def shares_at(t, w):
    routers = _softmax(-rate_at(t) * (w - _CENTERS[:, None]) ** 2 / 2)
    return routers / routers.sum(axis=0)
  return shares_at


def _weighted_losses(path, late):
  """Returns f_c(w_hat_T), the worst c, with the weights (t + s)^2."""
  weights = (np.arange(len(path)) + late) ** 2.0
  mean = np.cumsum(weights[:, None] * path, axis=0)
  mean = mean / np.cumsum(weights)[:, None]
  return np.max((mean - _CENTERS[:2]) ** 2 / 2, axis=1)


def test_the_simulation_is_the_algorithm():
  """`_path` with exponential routers, beside local SGD of C models."""
  quadratics = problems.Quadratics(
      np.ones([4, 1, 1]), _CENTERS[:, None], [1] * 4, np.zeros(1)
  )
  adapted = adaptors.full(quadratics.model, 2)
  rates = 1 / (np.arange(5) + 3)
  expected = list(_path([0.5, -0.2], rates, _exponential(lambda t: rates[t])))
  rows = np.array([[0.5], [-0.2]])
  for rate, models in zip(rates, expected):
    np.testing.assert_allclose(rows[:, 0], models, rtol=1e-12)
    weights = collections.OrderedDict(
        adaptors=(tf.constant(rows),), base=adapted.base.initial_weights(0)
    )
    clients = [
        tf.nest.map_structure(tf.constant, client)
        for client in quadratics.clients()
    ]
    routers = np.stack([
        tf.nn.softmax(mfl.exponential_router(
            adapted, weights, client, rate=rate
        )) for client in clients
    ])
    local = np.stack([
        mfl.train(
            adapted, tf.constant(pi), weights, client, num_steps=1,
            rates=router_training.Rates(base=0.0, adaptors=rate),
            seed=random.key(0),
        )[0]['adaptors'][0] for pi, client in zip(routers, clients)
    ])
    shares = mismatch.cluster_shares(_SIZES, routers).numpy()
    rows = np.einsum('kc,kcd->cd', shares, local)


def test_clusters_collapse_with_the_decaying_router_of_theorem_a9():
  """Started at the optima of both clusters, the models become one.

  pi_c ~ exp(-eta_t f_c) with eta_t = 1 / (t + s) is nearly uniform, so that
  every model goes to the mean of all clients, with a loss of 1/2.
  """
  late = 16 * _SQUARED_GRADIENT * 2  # s, with U_c = 1/2, mu = 1.
  rates = 1 / (np.arange(20_000) + late)
  path = np.stack(list(_path(
      _CENTERS[:2], rates, _exponential(lambda t: rates[t])
  )))
  losses = _weighted_losses(path, late)
  steps = np.arange(len(path)) + 1.0
  bound = (
      32 * _SQUARED_GRADIENT * np.log(8)
      * (1 / steps + (2 * late - 1) / steps ** 2)
      + 18 * _SQUARED_GRADIENT / steps ** 2
      + 24 * (late - 1) * late ** 2 * _SQUARED_GRADIENT / steps ** 3
  )
  np.testing.assert_allclose(
      [losses[-1], bound[-1]], [0.4905, 0.0135], rtol=0.01
  )
  # With a constant rate, as in the options of FLoRAL, they part.
  path = np.stack(list(_path(
      [0.01, -0.01], np.full(400, 0.1), _exponential(lambda t: 10.0)
  )))
  assert np.max((path[-1] - _CENTERS[:2]) ** 2 / 2) < 1e-6


def test_the_loss_falls_as_the_mismatch_and_no_faster():
  """Theorem 4.5 with |delta_t|^2 = (t + s)^-beta |delta_0|^2, beta = 1/2.

  The bound falls as T^-1.5. Averages that are wrong by delta_t move a model by
  that much, and its loss by |delta_t|^2, which falls as T^-0.5.
  """
  beta, late = 0.5, 8.0  # s = 4 kappa / U_c.
  uniform = np.full([4, 2], 0.25)
  truth = mismatch.cluster_shares(_SIZES, _TRUTH).numpy()
  first = mismatch.aggregation_mismatch(
      _SIZES, np.full([4, 2], 0.5), _TRUTH
  ).numpy()
  np.testing.assert_allclose(first, 1.0)

  def shares_at(t, _):
    return truth + (t + late) ** (-beta / 2) * (uniform - truth)

  rates = 1 / (np.arange(50_000) + late)
  path = np.stack(list(_path(_CENTERS[:2], rates, shares_at)))
  losses = _weighted_losses(path, late)
  steps = np.arange(len(path)) + 1.0
  squared = _SQUARED_GRADIENT
  bound = (
      48 * squared / steps ** (1 + beta) + 48 * squared / steps ** 2
      + 24 * squared * (late - 1 + 2 * late ** -beta) * late ** 2 / steps ** 3
  )
  slope = np.log(losses[49_999] / losses[4_999]) / np.log(10)
  np.testing.assert_allclose(slope, -beta, atol=0.05)
  np.testing.assert_allclose(
      [losses[-1], bound[-1]], [4.71e-3, 1.725e-5], rtol=0.01
  )


@pytest.mark.parametrize('num_clients, num_clusters', [(2, 2), (4, 2), (12, 4)])
def test_lemma_a6_bounds_by_more_than_the_largest_mismatch(
    num_clients, num_clusters
):
  """4 log(K C) alone exceeds 2^2, so that the lemma says nothing."""
  truth = np.eye(num_clusters)[np.arange(num_clients) % num_clusters]
  wrong = mismatch.aggregation_mismatch(
      np.ones(num_clients), np.roll(truth, 1, axis=1), truth
  )
  np.testing.assert_allclose(np.square(wrong), 4)
  assert 4 * np.log(num_clients * num_clusters) > 5.5
