"""The adaptive attack finds what is known to be there (baselines 10.2)."""

import numpy as np
import pytest
import tensorflow as tf

from tests.numerics import rules
from tff_pers.core import random
from tff_pers.numerics import attacks
from tff_pers.numerics import attacks_adaptive as adaptive
from tff_pers.numerics import robust

F = 5
KEY = random.key(1)
RULES = dict(
    median=rules.MEDIAN, trimmed_mean=rules.TRIMMED_MEAN, krum=rules.KRUM,
    nnm_median=rules.nnm(rules.MEDIAN),
    nnm_trimmed_mean=rules.nnm(rules.TRIMMED_MEAN),
    nnm_krum=rules.nnm(rules.KRUM),
    geometric_median=rules.Rule(
        lambda x, f, key: robust.geometric_median(x, passes=100, smoothing=1e-8)
    ),
    centered_clipping=rules.Rule(
        lambda x, f, key: robust.centered_clipping(x, steps=3)
    ),
)
# F for seeds 0, 1, 2: the search alone, the best honest message, both.
TABLE = dict(
    median=([1.225, 1.127, 1.244], [1.405, 1.184, 1.414]),
    trimmed_mean=([1.231, 1.187, 1.251], [1.114, 0.939, 1.017]),
    krum=([3.373, 2.348, 3.435], [2.891, 2.195, 3.237]),
    nnm_median=([1.150, 1.095, 1.225], [0.959, 1.020, 1.041]),
    nnm_trimmed_mean=([0.979, 0.986, 0.975], [0.923, 0.906, 0.917]),
    nnm_krum=([1.262, 1.261, 1.314], [1.175, 1.023, 1.293]),
    geometric_median=([0.953, 0.836, 0.909], [0.982, 0.916, 0.992]),
    centered_clipping=([0.923, 0.893, 0.986], [0.852, 0.925, 0.909]),
)


def honest(seed):
  return np.random.default_rng(seed).standard_normal((20, 10)) + 2


def searcher(rule, num_attackers=F):
  """Returns the search against `rule`, one function for all data."""
  @tf.function(reduce_retracing=True)
  def search(messages, others):
    return adaptive.search(messages, num_attackers, rule, F, KEY, others)
  return search


def damage(rule, messages, vector, key=KEY):
  x = np.concatenate([messages, np.tile(vector, (F, 1))])
  return np.linalg.norm(rule(tf.constant(x), F, key) - messages.mean(axis=0))


def easy(messages):
  """Returns the messages of alie, ipm and sign_flip."""
  x = tf.constant(messages)
  return np.stack([
      attacks.alie(x, attacks.alie_z(25, 5)), attacks.ipm(x, 10.0),
      attacks.sign_flip(x),
  ])


@pytest.mark.parametrize('name', sorted(RULES))
def test_damage_is_that_of_the_table(name):
  rule = RULES[name]
  search = searcher(rule)
  alone, best_mimic = TABLE[name]
  for seed in range(3):
    x = honest(seed)
    mean = x.mean(axis=0)[None]  # A message without effect.
    found = search(x, mean)
    np.testing.assert_allclose(found.damage, alone[seed], atol=2e-3)
    others = np.concatenate([x, easy(x)])
    full = search(x, others)
    expected = max(alone[seed], best_mimic[seed])
    np.testing.assert_allclose(full.damage, expected, atol=2e-3)
    # The damage is that of the message, and no other attack does more.
    np.testing.assert_allclose(
        damage(rule, x, full.message), full.damage, rtol=1e-9
    )
    assert full.damage >= max(damage(rule, x, v) for v in others) - 1e-12
    # A clipped message keeps turning towards its direction.
    assert name == 'centered_clipping' or not full.is_capped


@pytest.mark.parametrize('seed', range(2))
def test_search_is_close_to_a_dense_grid(seed):
  """On every direction, though selection rules jump."""
  x = honest(seed)
  mean, along = x.mean(axis=0), adaptive.directions(tf.constant(x)).numpy()
  dense = max(
      damage(rules.KRUM, x, mean + t * direction)
      for direction in along for t in np.arange(0, 6, 0.05)
  )
  found = searcher(rules.KRUM)(x, mean[None])
  assert found.damage >= 0.95 * dense


def test_finer_steps_lie_between_the_neighbours_of_the_best():
  found = np.zeros([4, 27])
  found[range(4), [5, 0, 26, 13]] = 1.0
  steps = adaptive._refined(tf.constant(found)).numpy().reshape(4, 13)  # pylint: disable=protected-access
  for own, first, last in zip(steps, (4, 0, 25, 12), (6, 1, 26, 14)):
    np.testing.assert_allclose(
        own, np.linspace(adaptive.GRID[first], adaptive.GRID[last], 13)
    )


def test_directions():
  x = honest(0)
  std, mean, up, down = adaptive.directions(tf.constant(x)).numpy()
  np.testing.assert_allclose(std, -x.std(axis=0, ddof=1))
  np.testing.assert_allclose(mean, -x.mean(axis=0))
  values, vectors = np.linalg.eigh(np.cov(x, rowvar=False))
  top = vectors[:, -1] * np.sqrt(values[-1])
  np.testing.assert_allclose(up * np.sign(up[0]), top * np.sign(top[0]))
  np.testing.assert_array_equal(down, -up)


def test_the_plain_mean_has_no_bound():
  x = honest(0)
  found = searcher(adaptive.Mean())(x, easy(x))
  assert found.is_capped
  longest = max(np.linalg.norm(adaptive.directions(tf.constant(x)), axis=1))
  np.testing.assert_allclose(found.damage, 1000 * longest * F / 25, rtol=1e-9)


def test_equal_damage_takes_the_smallest_step():
  """The median does not move any more once the attackers are outside."""
  x = np.random.default_rng(0).standard_normal((9, 1))
  found = searcher(rules.MEDIAN)(x, x.mean(axis=0)[None])
  step = np.abs(found.message - x.mean(axis=0))
  assert step < 3  # Not 1000.
  again = damage(rules.MEDIAN, x, x.mean(axis=0) + 1000)
  other = damage(rules.MEDIAN, x, x.mean(axis=0) - 1000)
  np.testing.assert_allclose(found.damage, max(again, other))


def test_a_random_rule_counts_with_the_mean_over_four_draws():
  rule = rules.bucketing(rules.MEDIAN)
  x = np.random.default_rng(3).standard_normal((15, 4))
  found = searcher(rule)(x, x)
  draws = [
      damage(rule, x, found.message, random.fold_in(KEY, draw))
      for draw in range(4)
  ]
  assert np.ptp(draws) > 1e-3
  np.testing.assert_allclose(found.damage, np.mean(draws), rtol=1e-9)


def test_float32():
  x = honest(0).astype(np.float32)
  found = searcher(rules.TRIMMED_MEAN)(x, x)
  assert found.message.dtype == tf.float32
  np.testing.assert_allclose(found.damage, 1.231, atol=2e-3)
