"""Joint training of router, base and adaptors on a client."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.algorithms.floral import floral_private
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import router_alone
from tff_pers.client_works import router_training
from tff_pers.config import hyperparameters as hp
from tff_pers.core import random
from tff_pers.data import client_data
from tff_pers.models import adaptors

_C = 3
_ADAPTED = adaptors.floral(problems.tiny_model(), _C, rank=2)
_SEED = tf.constant([1, 2], tf.int64)
_MIX = router_training.build_softmax_mix()
_RATES = router_training.Rates(base=0.1, adaptors=0.2, router=0.3)
_LOGITS = tf.constant([0.3, -0.2, 0.5], tf.float64)


def _data():
  return tf.nest.map_structure(tf.constant, problems.tiny_clients()[4])


def _weights(adapted=_ADAPTED):
  """Returns weights <adaptors, base> whose factors are all nonzero."""
  generator = np.random.default_rng(0)
  return collections.OrderedDict(
      adaptors=tf.nest.map_structure(
          lambda t: tf.constant(generator.normal(size=t.shape, scale=0.5)),
          adapted.initial_adaptors(0),
      ),
      base=adapted.base.initial_weights(0),
  )


def _batch(data):
  x, y = data['examples'].values()
  return client_data.Batch(x, y, tf.ones_like(y, tf.bool), _SEED)


def _assert_close(actual, expected, atol=1e-12):
  actual, expected = tf.nest.flatten(actual), tf.nest.flatten(expected)
  assert len(actual) == len(expected) > 0
  for a, e in zip(actual, expected):
    np.testing.assert_allclose(a, e, rtol=0, atol=atol)


def _losses_at(theta, weights, batch):
  return _ADAPTED.base.batch_loss(_ADAPTED.merge(weights, theta), batch)


def test_gradients_are_those_of_the_merged_model():
  """FLoRAL check 3: base, adaptors and router, at one point."""
  weights, batch = _weights(), _batch(_data())
  loss, g_theta, g = router_training.gradients(
      _ADAPTED, _LOGITS, weights, batch, _MIX
  )
  pi = tf.nn.softmax(_LOGITS)
  merged = _ADAPTED.merge(weights, _LOGITS)
  plain_loss, big_g = _ADAPTED.base.loss_and_gradient(merged, batch)
  _assert_close((loss, g['base']), (plain_loss, big_g))  # Not scaled by pi.
  for c in range(_C):
    only = _ADAPTED.effective(
        weights['base'], weights['adaptors'], tf.one_hot(c, _C, dtype=pi.dtype)
    )
    slope = sum(
        tf.reduce_sum(gradient * (own - mean))
        for gradient, own, mean in zip(big_g, only, merged)
    )
    _assert_close(g_theta[c], pi[c] * slope)
  assert np.abs(g_theta).max() > 1e-3
  _assert_close(tf.reduce_sum(g_theta), 0.0)


@pytest.mark.parametrize('precondition', [True, False])
def test_a_step_moves_all_parts_from_the_old_point(precondition):
  """FLoRAL check 8: joint, not alternating."""
  weights, data = _weights(), _data()
  batch = _batch(data)
  theta, moved, loss = router_training.train(
      _ADAPTED, _LOGITS, weights, data, rates=_RATES, seed=_SEED, mix=_MIX,
      precondition=precondition, num_steps=1, shuffle=False,
  )
  with tf.GradientTape() as tape:
    parts = (_LOGITS, weights)
    tape.watch(parts)
    value = _losses_at(*parts, batch)
  g_theta, g = tape.gradient(value, parts)
  g_adaptors = g['adaptors']
  if precondition:
    g_adaptors = _ADAPTED.bounded(
        weights['adaptors'],
        _ADAPTED.precondition(weights['adaptors'], g_adaptors), rate=0.2,
    )
  descend = local_sgd.descend
  _assert_close(theta, descend(_LOGITS, g_theta, 0.3))
  _assert_close(moved['base'], descend(weights['base'], g['base'], 0.1))
  _assert_close(
      moved['adaptors'], descend(weights['adaptors'], g_adaptors, 0.2)
  )
  _assert_close(loss, value)

  # The router after the other parts have moved would be another one.
  with tf.GradientTape() as tape:
    tape.watch(_LOGITS)
    late = _losses_at(_LOGITS, moved, batch)
  alternating = descend(_LOGITS, tape.gradient(late, _LOGITS), 0.3)
  assert np.abs(theta - alternating).max() > 1e-4


def test_scale_free_direction_is_the_slope_in_the_mixture():
  """g_theta_c = pi_c (s_c - sum_j pi_j s_j) for slopes s."""
  slopes = np.array([3.0, -1.0, 0.5])
  for logits in ([0.0, 0.0, 0.0], [9.0, -9.0, 0.0]):
    pi = tf.nn.softmax(tf.constant(logits, tf.float64))
    h = slopes - np.sum(pi * slopes)
    found = router_training.scale_free(pi * h, pi)
    np.testing.assert_allclose(
        found, h / (np.abs(h).max() + 1e-3), rtol=1e-9
    )
    # Whatever the size of the loss, a step is the same but for the 1e-3.
    larger = router_training.scale_free(100 * pi * h, pi)
    np.testing.assert_allclose(larger, found, rtol=1e-3)
    assert 0.999 < np.abs(larger).max() <= 1


def test_scale_free_direction_of_what_cannot_move_is_zero():
  pi = tf.constant([1.0, 0.0])
  for g_theta, weights in (
      ([0.0, 0.0], [0.5, 0.5]),  # At the start no adaptor has an effect.
      ([0.0, 0.0], pi),  # A weight that has underflowed.
  ):
    found = router_training.scale_free(
        tf.constant(g_theta), tf.constant(weights)
    )
    np.testing.assert_array_equal(found, [0.0, 0.0])
  # A slope that is much less than 1e-3 moves a logit in proportion to it.
  found = router_training.scale_free(
      tf.constant([1e-6, -1e-6]), tf.constant([0.5, 0.5])
  )
  np.testing.assert_allclose(found, [2e-3, -2e-3], rtol=1e-2)


@pytest.mark.parametrize('noise', [0.0, 2.0])
def test_scale_free_step_is_joint_and_with_the_weights_in_use(noise):
  weights, mix = _weights(), router_training.build_softmax_mix(noise)
  data, options = _data(), dict(
      rates=_RATES, seed=_SEED, mix=mix, num_steps=1, shuffle=False
  )
  theta, moved, loss = router_training.train(
      _ADAPTED, _LOGITS, weights, data, router_step='scale_free', **options
  )
  plain_theta, *plain = router_training.train(
      _ADAPTED, _LOGITS, weights, data, **options
  )
  _assert_close((moved, loss), plain)
  seen = []
  spied = lambda logits, seed: seen.append(mix(logits, seed)) or seen[-1]
  router_training.train(
      _ADAPTED, _LOGITS, weights, data, **dict(options, mix=spied)
  )
  h = (_LOGITS - plain_theta) / 0.3 / seen[-1]
  _assert_close(
      theta, _LOGITS - 0.3 * h / (np.abs(h).max() + 1e-3), 1e-9
  )
  assert np.abs(theta - plain_theta).max() > 0.05


def test_router_follows_received_adaptors_where_their_mixture_hurts():
  """<G, L^0_c> takes the place of <G, L_c> if <G, sum_c pi_c L^0_c> > 0."""
  weights, batch = _weights(), _batch(_data())
  pi, base = tf.nn.softmax(_LOGITS), weights['base']
  loss, plain, of_weights = router_training.gradients(
      _ADAPTED, _LOGITS, weights, batch, _MIX
  )
  seen = set()
  for factor in (2, -2):  # Products are linear in one factor.
    received = tuple(
        collections.OrderedDict(a, u=factor * a['u'])
        if isinstance(a, dict) else factor * a for a in weights['adaptors']
    )
    with tf.GradientTape() as tape:
      merged = _ADAPTED.merge(weights, _LOGITS)
      tape.watch(merged)
      value = _ADAPTED.base.batch_loss(merged, batch)
    gradient = tape.gradient(value, merged)
    changed = [
        _ADAPTED.effective(base, received, tf.one_hot(c, _C))
        for c in range(_C)
    ]
    slopes = np.array([
        sum(np.sum(g * (w - u)) for g, w, u in zip(gradient, there, base))
        for there in changed
    ])
    mean = np.sum(pi * slopes)
    seen.add(bool(mean > 0))
    found = router_training.gradients(
        _ADAPTED, _LOGITS, weights, batch, _MIX, received
    )
    _assert_close((found[0], found[2]), (loss, of_weights))
    _assert_close(found[1], pi * (slopes - mean) if mean > 0 else plain)
    # A private adaptor, which changes nothing yet, is not received.
    joint = floral_private.JointModel.of(_ADAPTED, 1)
    own, before = (
        collections.OrderedDict(private=joint.private_adaptor(_SEED), shared=a)
        for a in (weights['adaptors'], received)
    )
    with_own = collections.OrderedDict(weights, adaptors=own)
    _assert_close(router_training.gradients(
        joint, _LOGITS, with_own, batch, _MIX, before
    )[1], found[1])
  assert seen == {True, False}


def _moved(rates=_RATES, router_step='gradient', **step):
  """Returns how far each part is after one step, in units of its rate."""
  weights = _weights()
  theta, moved, _ = router_training.train(
      _ADAPTED, _LOGITS, weights, _data(), rates=rates, seed=_SEED, mix=_MIX,
      local=local_step.LocalStep(**step), router_step=router_step, num_steps=1,
      shuffle=False,
  )
  before = dict(weights, router=_LOGITS)
  return {
      name: tf.nest.map_structure(
          lambda a, b: (a - b) / max(rate, 1e-30),
          before[name], dict(moved, router=theta)[name],
      )
      for name, rate in rates._asdict().items()
  }


def _norm(structure):
  return float(tf.linalg.global_norm(tf.nest.flatten(structure)))


def test_clipping_bounds_all_parts_after_the_preconditioning():
  whole = _moved()
  assert _norm(whole) > 0.02 and _norm(whole['router']) > 1e-3
  clipped = _moved(clip_norm=0.01)
  np.testing.assert_allclose(_norm(clipped), 0.01, rtol=1e-9)
  _assert_close(
      clipped,
      tf.nest.map_structure(lambda d: d * 0.01 / _norm(whole), whole), 1e-9,
  )
  # A frozen part does not count.
  only = _moved(router_training.Rates(0.1, 0.0, 0.0), clip_norm=0.01)
  np.testing.assert_allclose(_norm(only['base']), 0.01, rtol=1e-9)


def test_clipping_leaves_the_scale_free_step_alone():
  plain = _moved(router_step='scale_free')
  clipped = _moved(router_step='scale_free', clip_norm=0.01)
  _assert_close(clipped['router'], plain['router'])
  models = _norm([clipped['base'], clipped['adaptors']])
  np.testing.assert_allclose(models, 0.01, rtol=1e-9)


def test_models_decay_and_routers_do_not():
  weights, plain, decayed = _weights(), _moved(), _moved(weight_decay=0.5)
  _assert_close(decayed['router'], plain['router'])
  for name in ('base', 'adaptors'):
    _assert_close(
        decayed[name],
        tf.nest.map_structure(
            lambda d, w: d + 0.5 * w, plain[name], weights[name]
        ),
    )


@pytest.mark.parametrize('local', [
    dict(), dict(local=local_step.LocalStep(
        0.9, weight_decay=0.1, clip_norm=0.3
    )),
])
def test_without_adaptors_it_is_local_sgd_bit_for_bit(local):
  """FLoRAL check 6, at one client."""
  model, data = problems.tiny_model(), _data()
  adapted = adaptors.floral(model, 0)
  weights = collections.OrderedDict(
      adaptors=adapted.initial_adaptors(0), base=model.initial_weights(0)
  )
  budget = dict(seed=_SEED, batch_size=3, num_epochs=2, **local)
  _, moved, loss = router_training.train(
      adapted, tf.zeros([0], tf.float64), weights, data, rates=_RATES,
      mix=_MIX, **budget,
  )
  plain, plain_loss = local_sgd.train(
      model, weights['base'], data, learning_rate=0.1, **budget
  )
  for a, b in zip((*moved['base'], loss), (*plain, plain_loss)):
    np.testing.assert_array_equal(a, b)


def test_a_rate_of_zero_freezes_its_part():
  weights, data = _weights(), _data()
  for name in _RATES._fields:
    theta, moved, _ = router_training.train(
        _ADAPTED, _LOGITS, weights, data, rates=_RATES._replace(**{name: 0.0}),
        seed=_SEED, mix=_MIX, batch_size=2, num_steps=3,
    )
    change = dict(
        base=local_sgd.difference(weights['base'], moved['base']),
        adaptors=local_sgd.difference(weights['adaptors'], moved['adaptors']),
        router=theta - _LOGITS,
    )
    for part, difference in change.items():
      moves = any(np.any(leaf) for leaf in tf.nest.flatten(difference))
      assert moves == (part != name)


def test_the_schedule_is_that_of_all_rates():
  values = hp.LocalTraining(
      learning_rate_schedule='steps', learning_rate_rounds='2',
      learning_rate_decay=0.25,
  )
  found = _RATES.scheduled(values, dict(round=tf.constant(2)))
  np.testing.assert_allclose(found, [0.025, 0.05, 0.075], rtol=1e-12)


def test_noise_explores_and_a_minimum_bounds_the_mix():
  logits = tf.constant([4.0, 0.0, -4.0], tf.float64)
  pi = tf.nn.softmax(logits)
  noisy = router_training.build_softmax_mix(noise=1.0)
  first, again = noisy(logits, _SEED), noisy(logits, _SEED)
  np.testing.assert_array_equal(first, again)
  other = noisy(logits, _SEED + 1)
  assert np.abs(first - other).max() > 1e-4
  np.testing.assert_allclose(np.sum(first), 1)
  # Noise in [0, 1): a weight changes by a factor below e.
  assert np.all(np.abs(np.log(first / pi)) < 1)
  with tf.GradientTape() as tape:
    tape.watch(logits)
    bounded = router_training.build_softmax_mix(minimum=0.01)(logits, _SEED)
    last = bounded[2]
  np.testing.assert_allclose(bounded, np.maximum(pi, 0.01))
  assert pi[2] < 0.01
  np.testing.assert_array_equal(tape.gradient(last, logits), np.zeros(3))


def test_router_alone_descends_on_all_rows(monkeypatch):
  """Chunks and padding do not change it; nor does the form of the data."""
  monkeypatch.setattr(router_alone, '_CHUNK', 3)
  weights, data = _weights(), _data()
  theta = tf.zeros([_C], tf.float64)
  options = dict(num_steps=4, learning_rate=1.0)
  learned = router_alone.learn_router(
      _ADAPTED, theta, weights, data, **options
  )
  expected = theta
  for _ in range(4):
    with tf.GradientTape() as tape:
      tape.watch(expected)
      loss = _losses_at(expected, weights, _batch(data))
    expected = expected - tape.gradient(loss, expected)
  _assert_close(learned, expected)
  assert np.abs(learned).max() > 1e-2

  padded = client_data.pad(problems.tiny_clients()[4], 10)
  padded['examples']['x'][7:] = 100.0
  dataset = tf.data.Dataset.from_tensor_slices(dict(data['examples'])).batch(4)
  for form in (tf.nest.map_structure(tf.constant, padded), dataset):
    _assert_close(
        router_alone.learn_router(
            _ADAPTED, theta, weights, form, **options
        ),
        expected,
    )


def test_no_steps_and_no_examples_leave_the_router():
  weights, data = _weights(), _data()
  empty = dict(data, num_examples=tf.constant(0))
  for chosen, steps in ((data, tf.constant(0)), (empty, 3)):
    learned = router_alone.learn_router(
        _ADAPTED, _LOGITS, weights, chosen, num_steps=steps, learning_rate=1.0
    )
    np.testing.assert_array_equal(learned, _LOGITS)


def test_initial_adaptors_do_not_move_the_router():
  """FLoRAL check 1: they are of no effect, so its gradient is 0."""
  weights = _weights()
  weights['adaptors'] = _ADAPTED.initial_adaptors(0)
  _, g_theta, g = router_training.gradients(
      _ADAPTED, _LOGITS, weights, _batch(_data()), _MIX
  )
  np.testing.assert_array_equal(g_theta, np.zeros(_C))
  assert any(np.any(leaf) for leaf in tf.nest.flatten(g['adaptors']))


def test_dropout_and_noise_of_a_step_are_different_draws():
  """The mix gets the key of the step, and folds its own use into it."""
  seen = []

  def predict(weights, x, training, seed):
    del training  # Unused.
    seen.append(seed)
    return problems.tiny_model().predict(weights, x, True, seed)

  adapted = dataclasses.replace(
      _ADAPTED, base=dataclasses.replace(_ADAPTED.base, predict=predict)
  )
  noise = router_training.build_softmax_mix(noise=1.0)
  router_training.gradients(
      adapted, _LOGITS, _weights(), _batch(_data()), noise
  )
  pi = noise(_LOGITS, seen[0])
  # A model folds the position of a layer into the key.
  for key in [seen[0], *(random.fold_in(seen[0], k) for k in range(10))]:
    drawn = tf.random.stateless_uniform([_C], key, dtype=tf.float64)
    assert np.abs(pi - tf.nn.softmax(_LOGITS + drawn)).max() > 1e-3


def test_clients_beyond_the_known_groups_mix_alike():
  groups = np.array([1, 0], np.int32)
  for index, expected in ((0, [0, 1]), (1, [1, 0]), (2, [0.5, 0.5])):
    np.testing.assert_array_equal(
        router_training.oracle_mix(groups, tf.constant(index), 2, tf.float32),
        expected,
    )
