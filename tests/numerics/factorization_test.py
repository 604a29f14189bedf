"""Factors of kernels: checks A3, A4 and A5 of FedHM."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.numerics import factorization
from tff_pers.numerics import low_rank

SHAPES = ((7, 5), (5, 7), (3, 3, 4, 6), (1, 5, 6, 4), (5, 5, 2, 3))


def _normal(shape, seed=0):
  return tf.constant(np.random.default_rng(seed).standard_normal(shape))


def _largest(shape):
  return min(factorization.unrolled_shape(shape))


def _norm(x):
  return np.sqrt(np.sum(np.square(x)))


# A3.


@pytest.mark.parametrize(
    'size, stride, side', itertools.product((1, 3, 5), (1, 2), (8, 9))
)
def test_two_thin_convolutions_are_one(size, stride, side):
  """A3: at full rank the kernel itself, truncated the recovered one."""
  x = _normal((2, side, side + 1, 3))
  kernel = _normal((size, size, 3, 4), seed=1)
  half = size // 2
  paddings = ('SAME', 'VALID', [[0, 0], [half, half], [half, half], [0, 0]])
  for rank, padding in itertools.product((2, _largest(kernel.shape)), paddings):
    factors = factorization.factorize(kernel, rank)
    assert factors.v.shape == [size, 1, 3, rank]
    assert factors.u.shape == [1, size, rank, 4]
    whole = factorization.recover(factors)
    expected = tf.nn.conv2d(x, whole, stride, padding)
    found = low_rank.conv2d(x, factors, stride, padding)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    distance = _norm(whole - kernel)
    if rank == 2:
      assert distance > 0.1
    else:
      np.testing.assert_allclose(distance, 0, atol=1e-10)


def test_strides_and_paddings_of_the_axes_are_apart():
  """A3: also where height and width differ in everything."""
  x, kernel = _normal((1, 9, 11, 2)), _normal((3, 5, 2, 3), seed=1)
  factors = factorization.factorize(kernel, _largest(kernel.shape))
  for strides, padding in (
      ((2, 1), 'SAME'), ((1, 3), [[0, 0], [2, 0], [1, 3], [0, 0]]),
  ):
    np.testing.assert_allclose(
        low_rank.conv2d(x, factors, strides, padding),
        tf.nn.conv2d(x, kernel, strides, padding), atol=1e-10,
    )


def test_gradients_of_thin_convolutions_are_those_of_the_product():
  """The chain rule through `recover` gives the same numbers."""
  x = _normal((2, 7, 6, 3))
  factors = factorization.factorize(_normal((3, 3, 3, 4), seed=1), 2)
  gradients = []
  for convolve in (
      lambda: low_rank.conv2d(x, factors, 2, 'SAME'),
      lambda: tf.nn.conv2d(x, factorization.recover(factors), 2, 'SAME'),
  ):
    with tf.GradientTape() as tape:
      tape.watch(factors)
      loss = tf.reduce_sum(tf.tanh(convolve()))
    gradients.append(tape.gradient(loss, factors))
  for found, expected in zip(*gradients):
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_rows_are_inputs_and_vertical_taps():
  """A3: M[i kh + a, o kw + b] = K[a, b, i, o], entry by entry."""
  kernel = _normal((3, 2, 4, 5)).numpy()
  matrix = factorization.unroll(tf.constant(kernel)).numpy()
  assert matrix.shape == factorization.unrolled_shape(kernel.shape) == (12, 10)
  for a, b, i, o in np.ndindex(*kernel.shape):
    assert matrix[i * 3 + a, o * 2 + b] == kernel[a, b, i, o]


def test_dense_factors_multiply_like_their_product():
  x, factors = _normal((4, 7)), factorization.factorize(_normal((7, 5)), 2)
  np.testing.assert_allclose(
      low_rank.matmul(x, factors), x @ factorization.recover(factors),
      atol=1e-12,
  )


# A4.


@pytest.mark.parametrize('shape', SHAPES)
def test_truncation_is_the_best_approximation(shape):
  """A4: ||M - v u||_F^2 = sum of the squares left out; 2-norm the next one."""
  kernel = _normal(shape)
  matrix = factorization.unroll(kernel).numpy()
  values = np.linalg.svd(matrix, compute_uv=False)
  rng = np.random.default_rng(1)
  for rank in range(1, _largest(shape)):
    factors = factorization.factorize(kernel, rank)
    v, u = factorization.as_matrices(factors)
    rest = matrix - v @ u
    np.testing.assert_allclose(
        np.sum(np.square(rest)), np.sum(values[rank:] ** 2), rtol=1e-8
    )
    np.testing.assert_allclose(np.linalg.norm(rest, 2), values[rank], rtol=1e-8)
    # The best right factor for a random left one is still worse.
    left = rng.standard_normal((matrix.shape[0], rank))
    other = left @ np.linalg.lstsq(left, matrix, rcond=None)[0]
    assert _norm(matrix - other) > _norm(rest)
    np.testing.assert_allclose(
        factorization.unroll(factorization.recover(factors)), v @ u, atol=1e-12
    )


@pytest.mark.parametrize('shape', SHAPES)
def test_both_factors_get_the_root_of_the_spectrum(shape):
  """A4: v^T v = u u^T = S, and so both have the squared norm sum_i s_i."""
  rank = _largest(shape) - 1
  v, u = factorization.as_matrices(
      factorization.factorize(_normal(shape), rank)
  )
  values = np.linalg.svd(
      factorization.unroll(_normal(shape)), compute_uv=False
  )[:rank]
  for gram in (tf.transpose(v) @ v, u @ tf.transpose(u)):
    np.testing.assert_allclose(gram, np.diag(values), atol=1e-10)


@pytest.mark.parametrize('shape', SHAPES)
def test_one_decomposition_serves_all_ranks(shape):
  """A4: the factors of a small rank lead those of a large one."""
  kernel = _normal(shape)
  large = factorization.factorize(kernel, _largest(shape))
  for rank in range(1, _largest(shape)):
    small = factorization.factorize(kernel, rank)
    for found, expected in zip(factorization.cut(large, rank), small):
      assert found.shape == expected.shape
      np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize('shape', [(4, 6), (3, 3, 2, 5)])
def test_rank_zero_stands_for_zeros(shape):
  factors = factorization.factorize(_normal(shape), 0)
  assert sum(map(tf.size, factors)) == 0
  np.testing.assert_array_equal(factorization.recover(factors), np.zeros(shape))


@pytest.mark.parametrize('shape', SHAPES)
@pytest.mark.parametrize('true_rank', [0, 1])
def test_directions_without_energy_can_learn(shape, true_rank):
  """Unit columns of v, zeros in u; the product and what lives stay."""
  kernel = true_rank * factorization.recover(
      factorization.factorize(_normal(shape), 1)
  )
  plain = factorization.factorize(kernel, 3)
  revived = factorization.revive(plain, tf.constant([1, 2], tf.int64))
  assert [part.shape for part in revived] == [part.shape for part in plain]
  np.testing.assert_allclose(
      factorization.recover(revived), kernel, atol=1e-12
  )
  v, u = factorization.as_matrices(revived)
  live, _ = factorization.as_matrices(plain)
  np.testing.assert_array_equal(v[:, :true_rank], live[:, :true_rank])
  np.testing.assert_allclose(np.linalg.norm(v[:, true_rank:], axis=0), 1.0)
  np.testing.assert_array_equal(u[true_rank:], 0 * u[true_rank:])
  other, _ = factorization.as_matrices(
      factorization.revive(plain, tf.constant([1, 3], tf.int64))
  )
  assert np.all(other[:, true_rank:] != v[:, true_rank:])


def test_factors_that_are_not_finite_stay_so():
  broken = low_rank.Factors(_normal((4, 2)) * np.nan, _normal((2, 3)))
  revived = factorization.revive(broken, tf.constant([1, 2], tf.int64))
  assert np.all(np.isnan(factorization.recover(revived)))


# A5.


@pytest.mark.parametrize('shape', SHAPES)
def test_gradient_of_the_squared_norm(shape):
  """A5: autodiff of ||v u||^2 / 2, and the trace form of the norm."""
  factors = factorization.factorize(_normal(shape), 2)
  factors = low_rank.Factors(factors.v + 0.1, factors.u - 0.2)  # Unbalanced.
  with tf.GradientTape() as tape:
    tape.watch(factors)
    half = tf.reduce_sum(tf.square(factorization.recover(factors))) / 2
  np.testing.assert_allclose(
      factorization.squared_norm(factors), 2 * half, rtol=1e-10
  )
  for found, expected in zip(
      factorization.squared_norm_gradient(factors), tape.gradient(half, factors)
  ):
    np.testing.assert_allclose(found, expected, atol=1e-10)
