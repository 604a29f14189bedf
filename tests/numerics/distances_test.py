"""Gradient distances: perm check 4."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.numerics import distances


def _naive(g):
  g = g.astype(np.float64)
  return np.sum((g[:, None] - g[None, :]) ** 2, axis=-1)


def _gram(g):
  return distances.gram_distances(distances.center(tf.constant(g))).numpy()


def test_gram_equals_naive_loop():
  """perm check 4: relative 1e-5 in float32; symmetric, zero diagonal, >= 0."""
  g = np.random.default_rng(0).standard_normal((40, 300)).astype(np.float32)
  actual = _gram(g)
  np.testing.assert_allclose(actual, _naive(g), rtol=1e-5)
  np.testing.assert_allclose(actual, actual.T, rtol=1e-6)
  assert np.all(np.diag(actual) == 0) and np.all(actual >= 0)


def test_common_component_needs_centering():
  """perm check 4: a common vector of norm 1e3 added to gradients of norm 1."""
  rng = np.random.default_rng(1)
  g = rng.standard_normal((30, 200)).astype(np.float32)
  g /= np.linalg.norm(g, axis=1, keepdims=True)
  common = rng.standard_normal(200)
  shifted = g + (1e3 * common / np.linalg.norm(common)).astype(np.float32)
  expected = _naive(shifted)
  np.testing.assert_allclose(_gram(shifted), expected, rtol=1e-5, atol=1e-6)
  plain = distances.gram_distances(tf.constant(shifted)).numpy()
  off = ~np.eye(30, dtype=bool)
  assert np.max(np.abs(plain - expected)[off] / expected[off]) > 1e-2


def test_the_mean_is_of_the_rows_that_count():
  """Rows of zeros, of who is not known, would leave most of what is common."""
  g = np.array([[5.0, 1.0], [0.0, 0.0], [7.0, 3.0]])
  found = distances.center(tf.constant(g), tf.constant([True, False, True]))
  np.testing.assert_array_equal(found.numpy()[[0, 2]], [[-1, -1], [1, 1]])
  nobody = distances.center(tf.constant(g), tf.zeros([3], tf.bool))
  assert np.all(np.isfinite(nobody))


def test_identical_gradients_are_at_distance_near_zero():
  """perm check 4: identical data."""
  g = np.random.default_rng(2).standard_normal((1, 500)).astype(np.float32)
  actual = _gram(np.concatenate([g, g, -g]))
  assert actual[0, 1] <= 1e-5 * actual[0, 2]


def test_some_rows_equal_those_of_the_whole():
  g = tf.constant(np.random.default_rng(3).standard_normal((10, 7)))
  whole = distances.gram_distances(g)
  block = distances.gram_distances(g, tf.constant([6, 4]))
  np.testing.assert_allclose(block, whole.numpy()[[6, 4]], rtol=1e-12)


@pytest.mark.parametrize('owners', [[2, 0, 1], [0, 1, 2]])
def test_rows_in_another_order(owners):
  """They are as many as there are, and known when the graph is made."""
  g = tf.constant(np.random.default_rng(3).standard_normal((3, 7)))
  whole = distances.gram_distances(g)
  found = distances.gram_distances(g, tf.constant(owners))
  np.testing.assert_allclose(found, whole.numpy()[owners], rtol=1e-12)


@pytest.mark.parametrize('owners, is_copied', [
    (None, False), ([0, 1, 2], False), ([0, 2, 1], True), ([0, 1], True),
])
def test_all_rows_are_not_copied(owners, is_copied):
  graph = tf.function(
      lambda g: distances.gram_distances(
          g, None if owners is None else tf.constant(owners)
      ), input_signature=[tf.TensorSpec([3, 7])],
  ).get_concrete_function().graph
  kinds = {op.type for op in graph.get_operations()}
  assert ('GatherV2' in kinds) == is_copied


def test_nobodys_rows_of_an_unknown_number():
  nobody = tf.function(
      lambda g: distances.gram_distances(g, tf.zeros([0], tf.int32)),
      input_signature=[tf.TensorSpec([None, 7])],
  )
  assert nobody(tf.ones([4, 7])).shape == (0, 4)


def test_sketch_keeps_the_norm_of_a_constant_vector():
  """Without random signs the 32 coordinates of a bucket would add up."""
  vector = tf.ones([64 * 32], tf.float64)
  squares = [
      np.sum(distances.sketch(vector, 64, tf.constant([s, 2], tf.int64)) ** 2)
      for s in range(50)
  ]
  # One square has a relative standard deviation of sqrt(2 / 64) = 0.18.
  assert abs(np.mean(squares) / len(vector) - 1) < 4 * 0.18 / np.sqrt(50)


def test_sketch_is_linear_and_moves_a_number_to_one_place():
  key = tf.constant([5, 2], tf.int64)
  a, b = np.random.default_rng(6).standard_normal((2, 300))
  sketch = lambda v: distances.sketch(tf.constant(v), 16, key).numpy()
  np.testing.assert_allclose(sketch(a) + 3 * sketch(b), sketch(a + 3 * b))
  alone = sketch(np.eye(300)[7] * -2.5)
  np.testing.assert_array_equal(np.abs(alone[alone != 0]), [2.5])


def test_sketch_keeps_distances():
  """perm check 4: k = 1024, median relative error < 5 %."""
  g = np.random.default_rng(4).standard_normal((20, 20_000))
  seed = tf.constant([7, 7], tf.int64)
  sketches = tf.stack([distances.sketch(tf.constant(v), 1024, seed) for v in g])
  off = ~np.eye(20, dtype=bool)
  exact = _naive(g)[off]
  error = np.abs(_gram(sketches.numpy())[off] - exact) / exact
  assert np.median(error) < 0.05
  # Unbiased: over sketches the mean error vanishes like 1 / sqrt(their number);
  # one distance has a relative standard deviation of sqrt(2 / 64) = 0.18.
  g = g[:2, :2000]
  ratios = []
  for s in range(400):
    a, b = [
        distances.sketch(tf.constant(v), 64, tf.constant([s, 1], tf.int64))
        for v in g
    ]
    ratios.append(np.sum((a - b) ** 2) / np.sum((g[0] - g[1]) ** 2))
  assert abs(np.mean(ratios) - 1) < 4 * 0.18 / 20


def test_distances_to_points_equal_a_naive_loop():
  rng = np.random.default_rng(2)
  points, vectors = rng.standard_normal((3, 20)), rng.standard_normal((7, 20))
  np.testing.assert_allclose(
      distances.to_points(tf.constant(points), tf.constant(vectors)),
      np.sum((points[:, None] - vectors) ** 2, axis=-1), rtol=1e-10,
  )


def test_cosines_and_their_gradient_are_those_of_numpy_and_of_a_tape():
  rng = np.random.default_rng(4)
  vectors = rng.standard_normal((4, 5))
  vectors[2] = 0.0
  found = distances.cosines(tf.constant(vectors)).numpy()
  for i, j in ((0, 1), (3, 0), (1, 1)):
    a, b = vectors[i], vectors[j]
    expected = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    np.testing.assert_allclose(found[i, j], expected, rtol=1e-12)
  assert not found[2].any()

  theta, c = (
      (tf.constant(row[:2]), tf.constant(row[2:])) for row in vectors[:2]
  )
  with tf.GradientTape() as tape:
    tape.watch(theta)
    a, b = tf.concat(theta, 0), tf.concat(c, 0)
    cosine = tf.tensordot(a, b, 1) / tf.norm(a) / tf.norm(b)
  for leaf, expected in zip(
      distances.cosine_gradient(theta, c), tape.gradient(cosine, theta)
  ):
    np.testing.assert_allclose(leaf, expected, rtol=1e-10)


def test_a_vector_has_all_tensors_of_its_row():
  rng = np.random.default_rng(0)
  kernels, biases = rng.normal(size=[5, 2, 3]), rng.normal(size=[5, 4])
  table = tf.constant(kernels), tf.constant(biases)
  expected = np.concatenate([kernels.reshape(5, 6), biases], axis=1)
  np.testing.assert_array_equal(distances.flatten_rows(table), expected)
  row = tf.constant(kernels[2]), tf.constant(biases[2])
  np.testing.assert_array_equal(distances.flatten(row), expected[2])
