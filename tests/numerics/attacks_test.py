"""Messages of attackers in closed form."""

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tff_pers.numerics import attacks

HONEST = np.array([[1.0, -2.0], [3.0, 0.0], [8.0, 5.0]])
MU, STD = HONEST.mean(axis=0), HONEST.std(axis=0, ddof=1)


@pytest.mark.parametrize(
    'n, f, z',
    [
        (25, 5, 0.2533),  # Phi^{-1}(0.6), partial personalization 3.4.
        # s = floor(n / 2 + 1) - f: 3, 3, and 4 of an even n.
        (10, 3, scipy.stats.norm.ppf(4 / 7)),
        (9, 2, scipy.stats.norm.ppf(4 / 7)),
        (8, 1, scipy.stats.norm.ppf(3 / 7)),
    ],
)
def test_z_of_alie(n, f, z):
  np.testing.assert_allclose(attacks.alie_z(n, f), z, atol=1e-4)
  # Numbers that are known only when it runs.
  at_run_time = tf.function(attacks.alie_z)(tf.constant(n), tf.constant(f))
  np.testing.assert_allclose(at_run_time, z, atol=1e-4)


def test_z_of_alie_stays_finite_where_attackers_need_none():
  for n, f in ((2, 1), (10, 6), (10, 9), (1, 0), (1, 1)):
    assert np.isfinite(attacks.alie_z(n, f)), (n, f)
  # One supporter of one honest client would be all of them: half of it.
  assert attacks.alie_z(2, 1) == 0


def test_messages():
  honest = tf.constant(HONEST)
  np.testing.assert_allclose(attacks.mean(honest), MU)
  np.testing.assert_allclose(attacks.std(honest), STD)
  np.testing.assert_allclose(attacks.sign_flip(honest), -MU)
  np.testing.assert_allclose(attacks.ipm(honest, 0.1), -0.1 * MU)
  np.testing.assert_allclose(attacks.alie(honest, 0.25), MU - 0.25 * STD)
  np.testing.assert_allclose(
      attacks.noise_scale(honest, 10.0), 10 * np.sqrt(np.mean(STD**2))
  )


def test_without_honest_messages_all_is_zero():
  for rows in (0, 1):
    honest = tf.constant(HONEST[:rows])
    np.testing.assert_array_equal(attacks.std(honest), [0, 0])
    assert attacks.noise_scale(honest, 10.0) == 0
  nobody = tf.constant(HONEST[:0])
  np.testing.assert_array_equal(attacks.mean(nobody), [0, 0])
  np.testing.assert_array_equal(
      attacks.alie(nobody, attacks.alie_z(2, 2)), [0, 0]
  )
