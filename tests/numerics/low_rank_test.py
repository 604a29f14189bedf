"""Low-rank products: floral checks 2 (dense), 7 and 11."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.numerics import low_rank


def _factors(seed, num_products=3, rank=2, n=7, m=5):
  rng = np.random.default_rng(seed)
  return (
      rng.standard_normal((num_products, rank, n)),
      rng.standard_normal((num_products, rank, m)),
  )


def _products(v, u):
  return np.einsum('crn,crm->cnm', v, u)


@pytest.mark.parametrize('n, m', [(7, 5), (5, 7)])
def test_products_are_mixed_not_factors(n, m):
  """floral check 2, its negative part too."""
  v, u = _factors(0, n=n, m=m)
  mix = np.array([0.2, 0.5, 0.3])
  mixed = low_rank.mixed_product(v, u, tf.constant(mix))
  np.testing.assert_allclose(
      mixed, np.einsum('c,cnm->nm', mix, _products(v, u)), rtol=1e-10
  )
  mean_v, mean_u = (np.einsum('c,crn->rn', mix, f) for f in (v, u))
  assert np.abs(mixed - mean_v.T @ mean_u).max() > 0.1


def test_updated_matrix_multiplies_like_the_matrix():
  """floral check 2: values, and gradients of factors and mixture."""
  v, u = (tf.constant(f) for f in _factors(1))
  rng = np.random.default_rng(2)
  x, matrix, out = (
      tf.constant(rng.standard_normal(s)) for s in ((4, 7), (7, 5), (4, 5))
  )
  mix = tf.constant([0.2, 0.5, 0.3], tf.float64)
  results = []
  for update in (
      lambda: low_rank.mixed_update(matrix, v, u, mix),
      lambda: matrix + low_rank.mixed_product(v, u, mix),
  ):
    with tf.GradientTape() as tape:
      tape.watch((x, matrix, v, u, mix))
      loss = tf.reduce_sum(out * tf.tanh(low_rank.matmul(x, update())))
    results.append([loss, *tape.gradient(loss, (x, matrix, v, u, mix))])
  for factorised, merged in zip(*results):
    np.testing.assert_allclose(factorised, merged, rtol=1e-10, atol=1e-12)


def _projection(columns):
  return columns @ np.linalg.pinv(columns)


def _step(v, u, gradient, eta, eps=1e-10):
  """One preconditioned step of both factors; `gradient` is of v^T u."""
  g_v = np.einsum('nm,crm->crn', gradient, u)
  g_u = np.einsum('nm,crn->crm', gradient, v)
  return (
      v - eta * low_rank.solve_gram(tf.constant(u), g_v, eps).numpy(),
      u - eta * low_rank.solve_gram(tf.constant(v), g_u, eps).numpy(),
  )


@pytest.mark.parametrize('rank', [1, 2, 4])
def test_preconditioned_step_projects_the_gradient(rank):
  """floral check 7: Delta(UV^T) = -eta (P_U G + G P_V) + O(eta^2)."""
  v, u = _factors(3, num_products=1, rank=rank)
  gradient = np.random.default_rng(4).standard_normal((7, 5))
  # Here K = v^T u = V U^T, so P_V acts from the left.
  direction = (
      _projection(v[0].T) @ gradient + gradient @ _projection(u[0].T)
  )
  def error(eta):
    after = _products(*_step(v, u, gradient, eta))[0]
    return np.linalg.norm(after - _products(v, u)[0] + eta * direction)
  # Halving eta quarters it; eps = 1e-10 leaves a first-order part of 1e-10.
  np.testing.assert_allclose(error(1e-2) / error(5e-3), 4, rtol=1e-4)


def test_preconditioned_step_is_invariant_to_the_factorisation():
  """floral check 7: U -> U A, V -> V A^-T changes no product."""
  v, u = _factors(5, num_products=2)
  gradient = np.random.default_rng(6).standard_normal((7, 5))
  a = np.array([[2.0, 1.0], [0.5, -1.0]])
  turned = np.einsum('qr,crn->cqn', np.linalg.inv(a), v), np.einsum(
      'rq,crm->cqm', a, u
  )
  np.testing.assert_allclose(_products(*turned), _products(v, u), rtol=1e-10)
  np.testing.assert_allclose(
      _products(*_step(*turned, gradient, 0.1)),
      _products(*_step(v, u, gradient, 0.1)), rtol=1e-7,  # eps = 1e-10.
  )


def test_preconditioner_amplifies_at_most_by_half_over_sqrt_eps():
  """floral check 7: |v| / (|v|^2 + eps) <= 1 / (2 sqrt(eps)), at |v|^2 = eps."""
  eps = 1e-5
  bound = 1 / (2 * np.sqrt(eps))
  direction = np.array([0.6, 0.8, 0.0])
  def gain(norm):
    v = norm * direction[None, None]
    g_u = np.einsum('nm,crn->crm', direction[:, None], v)  # G v, ||G|| = 1.
    return np.abs(low_rank.solve_gram(tf.constant(v), g_u, eps)).max()
  gains = [gain(norm) for norm in np.geomspace(1e-6, 1e3, 200)]
  assert max(gains) <= bound * (1 + 1e-12)
  np.testing.assert_allclose(gain(np.sqrt(eps)), bound, rtol=1e-10)
  assert gain(0.0) == 0


@pytest.mark.parametrize('row, expected', [
    ([1e9, 2e9], 'finite'), ([np.inf, 1], 'nan'), ([np.nan, 1], 'nan'),
])
def test_a_run_that_diverges_is_no_error_of_the_solver(row, expected):
  """Equal rows have a singular Gram matrix, in which eps is lost."""
  factor = tf.constant([[row, row]], tf.float32)
  found = low_rank.solve_gram(factor, tf.ones([1, 2, 3]), 1e-5).numpy()
  assert np.isfinite(found).all() if expected == 'finite' else (
      np.isnan(found).all()
  )


def test_step_of_both_factors_is_no_longer_than_the_two_together():
  """Closed form, multiplied out; c = 1 has a near-zero factor."""
  v, u = _factors(1)
  u[1] *= 1e-3
  slope = np.random.default_rng(2).standard_normal((3, 7, 5))
  dv, du = (
      np.asarray(low_rank.solve_gram(*pair, 1e-9)) for pair in (
          (u, np.einsum('cnm,crm->crn', slope, u)),
          (v, np.einsum('cnm,crn->crm', slope, v)),
      )
  )
  for rate, kept in ((-0.01, [True, False, True]), (-1e-9, [True] * 3)):
    steps = rate * dv, rate * du
    share = low_rank.step_share(*map(tf.constant, (v, u, *steps)))
    longest = np.linalg.norm(_products(v, steps[1]), axis=(1, 2))
    longest += np.linalg.norm(_products(steps[0], u), axis=(1, 2))
    change = np.linalg.norm(
        _products(v + steps[0], u + steps[1]) - _products(v, u), axis=(1, 2)
    )
    np.testing.assert_allclose(
        share, np.minimum(1, longest / change), rtol=1e-6
    )
    # Exactly: others keep their bits.
    np.testing.assert_array_equal(np.equal(share, 1), kept)
  nothing = np.zeros_like(u)
  np.testing.assert_allclose(
      low_rank.step_share(v, nothing, np.zeros_like(v), -du), np.ones(3),
      rtol=1e-12,  # The first step moves only the zero factor.
  )


def test_gram_norm_keeps_positions_apart():
  """By hand: Gram[p, q, s] = sum_n F[p, s, n] F[q, s, n], then its norm."""
  factor = np.random.default_rng(7).standard_normal((2, 3, 4, 5))
  norms = [
      np.sqrt(sum(
          (f[p, s] @ f[q, s]) ** 2
          for p in range(3) for q in range(3) for s in range(4)
      ))
      for f in factor
  ]
  scaled = low_rank.divide_by_gram_norm(
      tf.constant(factor), tf.ones([2, 3, 6], tf.float64), 0.5
  )
  expected = np.broadcast_to(
      [[[1 / (norm + 0.5)]] for norm in norms], [2, 3, 6]
  )
  np.testing.assert_allclose(scaled, expected, rtol=1e-10)


@pytest.mark.parametrize('num_products, rank', [(3, 2), (2, 4), (4, 5)])
def test_centering_truncates_as_a_full_svd(num_products, rank):
  """floral check 11: also where C r exceeds the sides of the matrix."""
  v, u = (tf.constant(f) for f in _factors(8, num_products, rank))
  p = np.random.default_rng(9).dirichlet(np.ones(num_products))
  mean, new_v, new_u = low_rank.centered(v, u, tf.constant(p))
  expected_mean = np.einsum('c,cnm->nm', p, _products(v, u))
  np.testing.assert_allclose(mean, expected_mean, rtol=1e-10)
  left, values, right = np.linalg.svd(_products(v, u) - expected_mean)
  best = np.einsum(
      'cnr,cr,crm->cnm', left[..., :rank], values[:, :rank], right[:, :rank]
  )
  np.testing.assert_allclose(_products(new_v, new_u), best, atol=1e-12)
  # The factors share the singular values evenly.
  np.testing.assert_allclose(
      np.sum(np.square(new_v), -1), np.sum(np.square(new_u), -1), rtol=1e-10
  )


def test_centered_zeros_can_still_learn():
  """Two zero factors would always have zero gradients."""
  p = tf.constant([0.2, 0.5, 0.3], tf.float64)
  v, u = (tf.constant(f) for f in _factors(10))
  mean, new_v, new_u = low_rank.centered(v, tf.zeros_like(u), p)
  np.testing.assert_array_equal(mean, np.zeros([7, 5]))
  np.testing.assert_array_equal(new_u, np.zeros_like(u))
  np.testing.assert_array_equal(new_v, v)
  # Three times the same product, up to rounding: nothing is left either.
  same_v, same_u = (tf.repeat(f[:1], 3, axis=0) for f in (v, u))
  mean, new_v, new_u = low_rank.centered(same_v, same_u, p)
  np.testing.assert_allclose(mean, _products(same_v, same_u)[0], rtol=1e-10)
  np.testing.assert_array_equal(new_u, np.zeros_like(u))
  np.testing.assert_array_equal(new_v, same_v)


def test_direction_without_rest_keeps_a_unit_input():
  """The second product of both adaptors is the same, and cancels."""
  v, u = _factors(11, num_products=2)
  v[1], u[1, 0], u[1, 1] = v[0], u[1, 0], u[0, 1]
  p = tf.constant([0.5, 0.5], tf.float64)
  mean, new_v, new_u = low_rank.centered(tf.constant(v), tf.constant(u), p)
  np.testing.assert_allclose(
      _products(new_v, new_u), _products(v, u) - mean, atol=1e-12
  )
  np.testing.assert_array_equal(new_u[:, 1], np.zeros([2, 5]))
  np.testing.assert_allclose(np.linalg.norm(new_v[:, 1], axis=-1), 1)
