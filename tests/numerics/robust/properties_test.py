"""Rules under attack, and their equivariances: PPFL check 13, baselines 9.1."""

import functools
import zlib

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tests import slow
from tff_pers.aggregators import robust as rules
from tff_pers.numerics import robust

HONEST, BYZANTINE = 20, 5
KEY = np.int64([0, 0])
ALIE_Z = 0.2533  # Phi^-1(0.6), for 25 clients of which 5 are Byzantine.
ATTACKS = {
    'ipm': lambda x, rng: np.tile(-10 * x.mean(0), (BYZANTINE, 1)),
    'flip': lambda x, rng: -x[:BYZANTINE],
    'noise': lambda x, rng: 10 * rng.standard_normal((BYZANTINE, x.shape[1])),
    'alie': lambda x, rng: np.tile(
        x.mean(0) - ALIE_Z * x.std(0, ddof=1), (BYZANTINE, 1)
    ),
    'mimic': lambda x, rng: np.tile(x[0], (BYZANTINE, 1)),
}


@functools.lru_cache(maxsize=None)
def _compiled(text):
  rule = rules.parse(text)
  return tf.function(
      lambda x, key: rule(x, BYZANTINE, key),
      [tf.TensorSpec([None, None], tf.float64), tf.TensorSpec([2], tf.int64)],
  )


def _kappa(apply, attack, rng):
  """Returns the empirical coefficient of baselines 9.1."""
  errors, spreads = [], []
  for _ in range(200):
    x = rng.standard_normal((HONEST, 20))
    bad = ATTACKS[attack](x, rng)
    out = apply(np.concatenate([x, bad]), KEY)
    errors.append(np.sum((out - x.mean(0)) ** 2))
    spreads.append(np.mean(np.sum((x - x.mean(0)) ** 2, axis=1)))
  return np.mean(errors) / np.mean(spreads)


RFA_100 = tf.function(
    lambda x, key: robust.geometric_median(x, passes=100),
    [tf.TensorSpec([None, None], tf.float64), tf.TensorSpec([2], tf.int64)],
)
TABLE = {  # ipm, flip, noise.
    'median': (0.123, 0.035, 0.047),
    'trimmed_mean': (0.127, 0.019, 0.032),
    'krum': (0.507, 0.512, 0.506),
    'geometric_median': (0.070, 0.016, 0.014),
    'centered_clipping': (0.080, 0.015, 0.015),
    'caf': (0.002, 0.017, 0.003),
    'nnm(median)': (0.0, 0.018, 0.0),
    'nnm(trimmed_mean)': (0.0, 0.017, 0.0),
    'nnm(krum)': (0.0, 0.027, 0.0),
    'mean': (0.270, 0.015, 0.828),
}


@functools.lru_cache(maxsize=None)
def _row(text):
  apply = RFA_100 if text == 'geometric_median' else _compiled(text)
  rng = np.random.default_rng(1)  # One for all attacks, in this order.
  return tuple(_kappa(apply, name, rng) for name in ('ipm', 'flip', 'noise'))


@pytest.mark.parametrize('text', TABLE)
def test_coefficient_is_that_of_the_table(text):
  np.testing.assert_allclose(_row(text), TABLE[text], atol=1e-3)


@pytest.mark.parametrize('text', ['median', 'trimmed_mean', 'krum'])
def test_mixing_does_not_hurt(text):
  assert np.all(np.array(_row(f'nnm({text})')) <= np.array(_row(text)) + 0.005)


@pytest.mark.parametrize('dtype', ['float32', 'float64'])
def test_far_messages_do_not_enter_the_filtered_mean(dtype):
  """Whatever their length: they are the first to lose all weight."""
  x = np.random.default_rng(0).standard_normal((9, 4))
  means = []
  for length in (1e5, 1e15):
    x[:3] = length * np.array([[1, 0, 0, 0], [0, 1, 2, 0], [-3, 0, 0, 1]])
    means.append(robust.filtered_mean(tf.constant(x, dtype), 3))
  np.testing.assert_allclose(means[0], means[1], atol=1e-4)
  assert np.abs(means[1]).max() < 1


def test_mean_does_not_survive_noise():
  assert _row('mean')[2] >= 0.5


def _c_hat(text, attack, d):
  """Returns E ||out - xbar||^2 / (delta sigma^2) of check 13."""
  rng = np.random.default_rng([d, zlib.crc32(attack.encode())])
  apply = {
      'rfa': lambda x, key: RFA_100(robust.bucketing(x, 2, key), key)
  }.get(text) or _compiled(text)
  errors = []
  for trial in range(200):
    x = rng.standard_normal((HONEST, d)) + 1
    out = apply(
        np.concatenate([x, ATTACKS[attack](x, rng)]), np.int64([1, trial])
    )
    errors.append(np.sum((out - x.mean(0)) ** 2))
  return np.mean(errors) / (0.2 * 2 * d)  # sigma^2 = E ||x_m - x_n||^2 = 2 d.


@pytest.mark.parametrize('d', slow.beyond(1, [10, 200]))
@pytest.mark.parametrize('text, bar', [
    ('bucketing(median)', 2), ('trimmed_mean', 2),
    pytest.param('caf', 2, marks=pytest.mark.slow),
    pytest.param('rfa', 2, marks=pytest.mark.slow),
    ('bucketing(krum)', 3),
])
def test_rules_are_robust_aggregators(text, bar, d):
  """Check 13: measured at most 0.95 and, for Krum, 1.3."""
  if text == 'bucketing(krum)':  # 13 buckets must be more than 2 f + 2.
    assert rules.parse('bucketing[f=5](krum)').is_possible(25, 5)
  for attack in ATTACKS:
    assert _c_hat(text, attack, d) <= bar, attack


def test_mean_is_no_robust_aggregator():
  assert _c_hat('mean', 'ipm', 10) == pytest.approx(12.8, abs=1.0)


EQUIVARIANT = (
    'mean', 'median', 'trimmed_mean', 'krum', 'multi_krum', 'multi_krum[m=2]',
    'geometric_median', 'centered_clipping', 'caf', 'nnm(median)', 'nnm(krum)',
)
MATRICES = st.integers(0, 10**6).map(
    lambda seed: np.random.default_rng(seed).standard_normal((25, 3)) + 1
)
SETTINGS = hypothesis.settings(
    derandomize=True, deadline=None, max_examples=10
)


@pytest.mark.parametrize('text', EQUIVARIANT)
@SETTINGS
@hypothesis.given(x=MATRICES, shift=st.floats(-100, 100))
def test_translation(text, x, shift):
  apply = _compiled(text)
  np.testing.assert_allclose(
      apply(x + shift, KEY), apply(x, KEY) + shift, atol=1e-10
  )


@pytest.mark.parametrize('text', EQUIVARIANT + (
    'bucketing(median)', 'norm_clipping', 'norm_clipping[radius=arc](median)',
))
@SETTINGS
@hypothesis.given(x=MATRICES, power=st.integers(-20, 20))
def test_scale(text, x, power):
  apply = _compiled(text)
  np.testing.assert_allclose(
      apply(x * 2.0**power, KEY), apply(x, KEY) * 2.0**power, rtol=1e-9
  )


@pytest.mark.parametrize('text', EQUIVARIANT + ('norm_clipping',))
@SETTINGS
@hypothesis.given(x=MATRICES, seed=st.integers(0, 100))
def test_order_of_messages_is_irrelevant(text, x, seed):
  apply = _compiled(text)
  order = np.random.default_rng(seed).permutation(len(x))
  np.testing.assert_allclose(
      apply(x[order], KEY), apply(x, KEY), rtol=1e-10, atol=1e-12
  )


@pytest.mark.parametrize('text', EQUIVARIANT + ('bucketing(median)',))
def test_equal_messages_are_returned(text):
  x = np.tile([1.5, -2.25, 1e-7], (25, 1))
  np.testing.assert_allclose(_compiled(text)(x, KEY), x[0], rtol=1e-14)
