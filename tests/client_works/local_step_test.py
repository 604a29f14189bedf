"""The local step in closed form, and in local SGD."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tests import problems
from tff_pers.client_works import joint_step
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.config import hyperparameters as hp
from tff_pers.core import random


def _tensor(*values):
  return tf.constant(values, tf.float64)


def _descend(step, gradient, start, rate, num_steps):
  """Returns w after `num_steps` steps with `gradient(w)`."""
  sgd = step.start(start)
  for _ in range(num_steps):
    sgd = step.apply(sgd, gradient(sgd.weights), rate)
  return sgd.weights.numpy()


def test_without_arguments_it_is_gradient_descent_bit_for_bit():
  w, g = tf.random.normal([7], seed=1), tf.random.normal([7], seed=2)
  sgd = local_step.PLAIN.apply(local_step.PLAIN.start(w), g, 0.3)
  np.testing.assert_array_equal(sgd.weights, w - 0.3 * g)
  assert sgd.momentum == ()


@pytest.mark.parametrize('momentum', [0.5, 0.9])
def test_momentum_is_the_heavy_ball(momentum):
  """On a w^2 / 2 a step is linear in (w, m): its power is known."""
  a, rate = 2.0, 0.05
  matrix = np.array([
      [1 - rate * a, -rate * momentum],
      [a, momentum],
  ])
  expected = (np.linalg.matrix_power(matrix, 25) @ [3.0, 0.0])[0]
  found = _descend(
      local_step.LocalStep(momentum), lambda w: a * w, _tensor(3.0), rate, 25
  )
  np.testing.assert_allclose(found, [expected], rtol=1e-12)


@pytest.mark.parametrize('momentum', [0.0, 0.8])
def test_weight_decay_is_an_l2_penalty(momentum):
  """a (w - c)^2 / 2 + lambda w^2 / 2 is smallest at a c / (a + lambda)."""
  a, c, decay = 2.0, 3.0, 0.5
  found = _descend(
      local_step.LocalStep(momentum, weight_decay=decay),
      lambda w: a * (w - c), _tensor(0.0), 0.1, 500,
  )
  np.testing.assert_allclose(found, [a * c / (a + decay)], rtol=1e-12)


def test_clipping_bounds_the_norm_over_all_tensors():
  gradient = [_tensor(3.0, 0.0), _tensor(4.0)]
  clipped = local_step.clip(gradient, 2.0)
  np.testing.assert_allclose(clipped[0], [1.2, 0.0], rtol=1e-15)
  np.testing.assert_allclose(clipped[1], [1.6], rtol=1e-15)
  for limit in (5.0, 7.0):  # Not longer than that: not a bit changes.
    kept = local_step.clip(gradient, limit)
    np.testing.assert_array_equal(kept[0], gradient[0])
    np.testing.assert_array_equal(kept[1], gradient[1])


def test_the_penalty_is_added_after_clipping():
  step = local_step.LocalStep(weight_decay=10.0, clip_norm=1.0)
  direction = step.direction(_tensor(2.0), _tensor(-50.0))
  np.testing.assert_allclose(direction, [-1.0 + 20.0])


@pytest.mark.parametrize('bad', [np.nan, np.inf])
def test_clipping_does_not_hide_what_is_not_finite(bad):
  assert np.all(np.isnan(local_step.clip(_tensor(1.0, bad), 1.0)))
  assert np.all(np.isnan(local_step.clip(tf.constant([3e38, 3e38]), 1.0)))


def _parts(**rates):
  parts = collections.OrderedDict(
      adaptors=_tensor(1.0), base=_tensor(2.0), router=_tensor(5.0)
  )
  gradients = dict(
      adaptors=_tensor(3.0), base=_tensor(4.0), router=_tensor(12.0)
  )
  ones = dict(adaptors=1.0, base=1.0, router=1.0)
  return parts, gradients, dict(ones, **rates)


def _joint(step, num_steps=1, unclipped=(), **rates):
  parts, gradients, rates = _parts(**rates)
  states = joint_step.start(step, parts, rates)
  for _ in range(num_steps):
    states = joint_step.apply(
        step, states, gradients, rates, undecayed=('router',),
        unclipped=unclipped,
    )
  moved = {
      name: float(parts[name][0] - sgd.weights[0])
      for name, sgd in states.items()
  }
  return moved, states


def test_parts_share_one_norm_and_have_their_own_rates():
  moved, _ = _joint(local_step.LocalStep(clip_norm=1.3), base=0.1)
  assert moved == pytest.approx(dict(adaptors=0.3, base=0.04, router=1.2))


def test_an_unclipped_part_keeps_its_length_and_does_not_count():
  step = local_step.LocalStep(clip_norm=0.5)  # Adaptors and base have 5.
  moved, _ = _joint(step, unclipped=('router',))
  assert moved == pytest.approx(dict(adaptors=0.3, base=0.4, router=12.0))


def test_a_frozen_part_has_no_gradient_no_momentum_and_no_decay():
  step = local_step.LocalStep(0.9, weight_decay=1.0, clip_norm=1.0)
  moved, states = _joint(step, num_steps=3, router=0.0, adaptors=0.0)
  assert moved['router'] == moved['adaptors'] == 0.0
  assert states['router'].momentum == states['adaptors'].momentum == ()
  # The base alone has the norm 4.
  np.testing.assert_allclose(
      states['base'].weights, _descend(
          step, lambda w: _tensor(4.0), _tensor(2.0), 1.0, 3
      )
  )


def test_a_part_that_is_no_weight_of_a_model_does_not_decay():
  moved, _ = _joint(local_step.LocalStep(weight_decay=0.5))
  assert moved == pytest.approx(dict(adaptors=3.5, base=5.0, router=12.0))


def _rate(round_num, **options):
  hyperparameters = hp.LocalTraining(**options)
  message = dict(round=tf.constant(round_num))
  rate = local_step.scheduled(hyperparameters, message, 0.2)
  return float(rate) / 0.2


@pytest.mark.parametrize(
    'kind, rounds, decay, expected',
    [
        ('exponential', '2', 0.25, [1, 0.5, 0.25, 0.125, 0.0625]),
        ('cosine', '2', 0.2, [1, 0.6, 0.2, 0.2, 0.2]),
        ('steps', '2:3', 0.1, [1, 1, 0.1, 0.01, 0.01]),
        ('steps', '1', 0.5, [1, 0.5, 0.5, 0.5, 0.5]),
        ('linear', '3', 0.1, [1, 2 / 2.7, 1 / 2.7, 1 / 2.7, 1 / 2.7]),
    ],
)
def test_schedule(kind, rounds, decay, expected):
  found = [
      _rate(
          t, learning_rate_schedule=kind, learning_rate_rounds=rounds,
          learning_rate_decay=decay,
      )
      for t in range(5)
  ]
  np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_the_linear_schedule_warms_up_for_a_tenth_of_its_rounds():
  """Partial personalization, table 2, with rounds counted from 1 on the rise."""
  found = [
      _rate(t, learning_rate_schedule='linear', learning_rate_rounds='40')
      for t in range(40)
  ]
  np.testing.assert_allclose(found[:5], [0.25, 0.5, 0.75, 1, 1], rtol=1e-14)
  np.testing.assert_allclose(found[4:], np.arange(36, 0, -1) / 36, rtol=1e-14)


def test_schedule_leaves_constants_and_frozen_parts_as_they_are():
  message = dict(round=tf.constant(3))
  rate = tf.constant(0.1)
  assert local_step.scheduled(hp.LocalTraining(), message, rate) is rate
  falling = hp.LocalTraining(
      learning_rate_schedule='cosine', learning_rate_rounds='4'
  )
  assert local_step.scheduled(falling, message, 0.0) == 0.0
  assert local_step.moves(local_step.scheduled(falling, message, 0.1))


def test_local_sgd_matches_numpy():
  """Everything at once, over minibatches of which the last is short."""
  q = problems.q6()
  data = q.clients()[0]
  step = local_step.LocalStep(0.9, weight_decay=0.3, clip_norm=2.0)
  start = (_tensor(3.0, -1.0, 0.5, 2.0, -2.0),)
  found, _ = local_sgd.train(
      q.model, start, data, learning_rate=0.1, seed=random.key(1), local=step,
      num_steps=12, batch_size=4,
  )
  w, m = start[0].numpy(), np.zeros(5)
  norms = []
  for _ in range(12):
    gradient = q.curvatures[0] @ (w - q.centers[0])
    norms.append(np.linalg.norm(gradient))
    m = 0.9 * m + gradient * min(1, 2.0 / norms[-1]) + 0.3 * w
    w = w - 0.1 * m
  assert min(norms) < 2.0 < max(norms)
  np.testing.assert_allclose(found[0], w, rtol=1e-12)


def test_what_hyperparameters_say():
  training = hp.LocalTraining(momentum=0.5, weight_decay=0.25, clip_norm=2.0)
  assert local_step.build(training) == local_step.LocalStep(0.5, 0.25, 2.0)
  assert local_step.build(hp.LocalTraining()) == local_step.PLAIN
