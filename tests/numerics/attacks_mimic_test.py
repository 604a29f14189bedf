"""Mimic: its direction, its target, and what it sends."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.core import random
from tff_pers.numerics import attacks_mimic as mimic

KEY = random.key(3)


def _example():
  """Returns (base, rounds) of baselines 10.1: one long axis, 20 clients."""
  rng = np.random.default_rng(2)
  base = rng.standard_normal((20, 8))
  base[:, 0] *= 4
  return base, [base + 0.3 * rng.standard_normal(base.shape) for _ in range(30)]


def _top(base):
  """Returns the eigenvector of the largest variance."""
  centered = base - base.mean(axis=0)
  return np.linalg.eigh(centered.T @ centered)[1][:, -1]


def _learn(rounds, warmup, known=None):
  known = known or mimic.start(rounds[0].shape[1], tf.float64)
  for messages in rounds:
    known = mimic.update(
        known, tf.constant(messages), tf.range(len(messages)), KEY, warmup
    )
  return known


@pytest.mark.parametrize('seed', range(3))
def test_direction_is_that_of_the_largest_variance_by_round_five(seed):
  base, rounds = _example()
  known = mimic.start(8, tf.float64)
  for messages in rounds[:5]:
    known = mimic.update(
        known, tf.constant(messages), tf.range(20), random.key(seed), 30
    )
  cosine = abs(np.dot(known.direction, _top(base)))
  assert cosine >= 0.9
  np.testing.assert_allclose(np.linalg.norm(known.direction), 1)


def test_target_is_that_of_the_exact_direction():
  """Client 7, or the one at the other end: the first z decides on the side."""
  base, rounds = _example()
  known = _learn(rounds[:5], 30)
  projections = rounds[4] @ _top(base)
  assert int(known.target) in (np.argmax(projections), np.argmin(projections))
  assert 7 in (np.argmax(projections), np.argmin(projections))
  later = _learn(rounds[5:10], 30, known=known)
  assert int(later.target) == int(known.target)


def test_the_sheets_numbers():
  """Cosines .32, .95, .989, .998 after 1, 5, 10, 30 rounds; the sheet's z."""
  base, rounds = _example()
  z = np.random.default_rng(0).standard_normal(8)
  mean, cosines = np.zeros(8), []
  known = mimic.start(8, tf.float64)
  for t, messages in enumerate(rounds):
    mean = (t * mean + messages.mean(axis=0)) / (1 + t)
    q = (messages - mean).T @ (messages - mean) @ z
    q /= np.linalg.norm(q)
    z = q if t == 0 else t / (1 + t) * z + q / (1 + t)
    z /= np.linalg.norm(z)
    if t == 0:  # Ours draws another z; from here on both are the same.
      known = known._replace(
          mean=tf.constant(mean), direction=tf.constant(z),
          round=tf.constant(1),
      )
    else:
      known = _learn([messages], 30, known=known)
      np.testing.assert_allclose(known.direction, z, atol=1e-12)
      np.testing.assert_allclose(known.mean, mean, atol=1e-12)
    cosines.append(abs(z @ _top(base)))
  np.testing.assert_allclose(
      np.array(cosines)[[0, 4, 9, 29]], [0.32, 0.95, 0.989, 0.998], atol=6e-3
  )
  assert int(known.target) == 7


def test_target_is_frozen_after_the_warm_up():
  _, rounds = _example()
  known = _learn(rounds[:3], 3)
  moved = [messages[::-1] for messages in rounds[3:6]]
  after = _learn(moved, 3, known=known)
  for old, new in zip(known, after):
    np.testing.assert_array_equal(old, new)
  assert int(_learn(moved, 30, known=known).target) != int(known.target)


def test_copies_the_target_bit_for_bit_wherever_it_stands():
  _, rounds = _example()
  known = _learn(rounds[:5], 5)
  target = int(known.target)
  order = np.random.default_rng(0).permutation(20)
  sent = mimic.follow(
      known, tf.constant(rounds[5][order]), tf.constant(order, tf.int32)
  )
  np.testing.assert_array_equal(sent, rounds[5][target])


def test_without_the_target_the_farthest_is_copied():
  _, rounds = _example()
  known = _learn(rounds[:5], 5)
  others = np.delete(np.arange(20), int(known.target))
  sent = mimic.follow(
      known, tf.constant(rounds[5][others]), tf.constant(others, tf.int32)
  )
  farthest = np.argmax(rounds[5][others] @ known.direction.numpy())
  np.testing.assert_array_equal(sent, rounds[5][others][farthest])


def test_a_fixed_client_is_the_first_that_is_present():
  messages = tf.constant([[1.0], [2.0], [3.0]])
  sent = mimic.follow_first(messages, tf.constant([7, 2, 4]))
  np.testing.assert_array_equal(sent, [2])


def test_nobody_to_copy():
  nobody, indices = tf.zeros([0, 8], tf.float64), tf.zeros([0], tf.int32)
  known = _learn(_example()[1][:2], 5)
  same = mimic.update(known, nobody, indices, KEY, 5)
  assert int(same.round) == 2
  np.testing.assert_array_equal(
      mimic.follow(same, nobody, indices), np.zeros(8)
  )


def test_identical_messages_are_copied():
  messages = np.tile([[1.0, 2.0]], [4, 1])
  known = _learn([messages] * 3, 5)
  np.testing.assert_array_equal(known.direction, [0, 0])
  sent = mimic.follow(known, tf.constant(messages), tf.range(4))
  np.testing.assert_array_equal(sent, [1, 2])
