"""The mixing problem (Eq. 2): perm checks 1, 2, 3, and rows."""

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import tensorflow as tf

from tff_pers.numerics import mixing
from tff_pers.numerics import simplex


def _problem(rng, num_clients=None):
  n = num_clients or rng.integers(2, 61)
  distances = rng.exponential(size=n) * 10 ** rng.uniform(-2, 2)
  distances[rng.integers(n)] = 0.0
  sizes = rng.integers(5, 501, size=n).astype(float)
  return distances, sizes, 10 ** rng.uniform(-2, 3)


def _solve(c, n, lam):
  return mixing.water_filling(tf.constant(c), tf.constant(n), lam).numpy()


def test_water_filling_is_the_quadratic_program():
  """perm check 1: 300 problems against projected-gradient steps, KKT."""
  rng = np.random.default_rng(0)
  problems = [_problem(rng) for _ in range(300)]
  width = 60  # Padded with clients at infinite distance: they get nothing.
  pad = lambda x, value: np.concatenate([x, np.full(width - len(x), value)])
  c = np.stack([pad(p[0], 1e9) for p in problems])
  n = np.stack([pad(p[1], p[1][0]) for p in problems])
  lam = np.array([p[2] for p in problems])[:, None]

  @tf.function
  def descend(alpha):
    # One step of size s = n_min / (2 lambda), all problems at once.
    step = tf.reduce_min(n, axis=1, keepdims=True) / (2 * lam)
    body = lambda a: [simplex.project(a - step * (c + 2 * lam * a / n))]
    return tf.while_loop(
        lambda a: True, body, [alpha], maximum_iterations=4_000
    )[0]

  # From the one-hot on the nearest, so that padding starts at zero.
  start = np.eye(width)[np.argmin(c, axis=1)]
  descended = descend(tf.constant(start)).numpy()
  for i, (distances, sizes, lambda_) in enumerate(problems):
    alpha = _solve(distances, sizes, lambda_)
    size = len(distances)
    # Steps contract by 1 - n_min/n_max <= 1 - 1/100: 4000 of them to 1e-17.
    np.testing.assert_allclose(alpha, descended[i, :size], rtol=0, atol=1e-8)
    assert abs(alpha.sum() - 1) < 1e-12
    active = alpha > 0
    level = distances + 2 * lambda_ * alpha / sizes
    nu = level[active].mean()
    np.testing.assert_allclose(level[active], nu, rtol=1e-9)
    assert np.all(distances[~active] >= nu * (1 - 1e-12))
    # m*, by its definition: the largest m whose level exceeds c_(m).
    order = np.argsort(distances, kind='stable')
    q = np.cumsum((sizes * distances)[order])
    levels = (2 * lambda_ + q) / np.cumsum(sizes[order])
    assert active.sum() == np.flatnonzero(levels > distances[order])[-1] + 1


def test_limits():
  """perm check 2: lambda to infinity and to zero, the switching point, ties."""
  rng = np.random.default_rng(1)
  for _ in range(20):
    c, n, _ = _problem(rng, 12)
    c /= c.max()  # The limit is reached where lambda >> n c.
    i = int(np.argmin(c))
    nearest = np.min(np.delete(c, i))
    np.testing.assert_allclose(_solve(c, n, 1e9), n / n.sum(), atol=1e-5)
    one_hot = np.eye(12)[i]
    np.testing.assert_allclose(_solve(c, n, 1e-9), one_hot, atol=1e-12)
    switch = n[i] * nearest / 2
    np.testing.assert_array_equal(_solve(c, n, 0.999 * switch) > 0, one_hot > 0)
    assert np.sum(_solve(c, n, 1.001 * switch) > 0) == 2
  c = np.array([0.0, 0.0, 3.0])
  alpha = _solve(c, np.array([10.0, 30.0, 50.0]), 1e-3)
  np.testing.assert_allclose(alpha, [0.25, 0.75, 0.0], atol=1e-12)


@hypothesis.settings(derandomize=True, deadline=None, max_examples=30)
@hypothesis.given(
    seed=st.integers(0, 10_000), factor=st.floats(1e-3, 1e3)
)
def test_is_invariant_to_units(seed, factor):
  """perm check 2: (c, lambda) and (n, lambda) may be scaled together."""
  c, n, lam = _problem(np.random.default_rng(seed), 9)
  alpha = _solve(c, n, lam)
  for scaled in ((factor * c, n), (c, factor * n)):
    np.testing.assert_allclose(_solve(*scaled, factor * lam), alpha, atol=1e-9)


def test_group_threshold():
  """perm 2.1: with equal n the far group is out iff lambda <= n G D / 2."""
  group, distance, n = 3, 2.0, 10.0
  c = np.array([0.0] * group + [distance] * 4)
  threshold = n * group * distance / 2
  inside = _solve(c, np.full(7, n), 0.999 * threshold)
  np.testing.assert_allclose(inside, [1 / 3] * 3 + [0] * 4, atol=1e-12)
  assert np.all(_solve(c, np.full(7, n), 1.001 * threshold) > 0)


def test_infinite_distance_excludes():
  c = np.array([0.0, np.inf, 1.0])
  alpha = _solve(c, np.array([5.0, 5.0, 5.0]), 1e6)
  np.testing.assert_allclose(alpha, [0.5, 0.0, 0.5], atol=1e-5)


def test_zero_lambda_and_no_variance_keep_self():
  lam = mixing.auto_lambda(
      tf.constant([0.0, 0.0]), tf.constant([True, True]), 10.0
  )
  alpha = _solve(np.array([0.0, 1.0]), np.array([5.0, 5.0]), lam.numpy())
  np.testing.assert_array_equal(alpha, [1.0, 0.0])


def test_projected_gradient_one_step_is_exact_for_equal_sizes():
  """perm check 3, equal n: one step from a random start."""
  rng = np.random.default_rng(2)
  c, _, lam = _problem(rng, 17)
  n = np.full(17, 42.0)
  start = rng.dirichlet(np.ones(17))
  stepped = mixing.projected_gradient(c, n, lam, start, 1).numpy()
  np.testing.assert_allclose(stepped, _solve(c, n, lam), rtol=0, atol=1e-12)


def test_projected_gradient_contracts():
  """perm check 3, unequal n: error <= (1 - n_min/n_max)^t * initial error."""
  rng = np.random.default_rng(3)
  for _ in range(5):
    c, n, lam = _problem(rng, 11)
    solution, alpha = _solve(c, n, lam), rng.dirichlet(np.ones(11))
    rate = 1 - n.min() / n.max()
    initial = np.linalg.norm(alpha - solution)
    for t in range(1, 40):
      alpha = mixing.projected_gradient(c, n, lam, alpha, 1).numpy()
      error = np.linalg.norm(alpha - solution)
      assert error <= rate**t * initial + 1e-13


@hypothesis.settings(derandomize=True, deadline=None, max_examples=50)
@hypothesis.given(st.lists(
    st.one_of(st.floats(-50, 50), st.floats(-1e12, 1e12)),
    min_size=1, max_size=12,
))
def test_simplex_projection(values):
  v = np.array(values)
  x = simplex.project(tf.constant(v)).numpy()
  assert np.all(x >= 0) and abs(x.sum() - 1) < 1e-9
  # Optimality: <v - x, y - x> <= 0 for every vertex y of the simplex.
  assert np.max((v - x)) - np.dot(v - x, x) <= 1e-9 * (1 + np.abs(v).max())


def test_minimizers_move_as_far_as_lemma_1_says_and_no_farther():
  """perm T3 for Eq. (2), of x = c: L = 1 and mu = 2 lambda / n_max."""
  rng, shares = np.random.default_rng(5), []
  for _ in range(200):
    c, n, lam = _problem(rng, 8)
    moved = np.maximum(c + c.max() * rng.normal(size=8) / 10, 0)
    limit = n.max() / (2 * lam) * np.linalg.norm(moved - c)
    shares.append(
        np.linalg.norm(_solve(moved, n, lam) - _solve(c, n, lam)) / limit
    )
  assert max(shares) < 1
  # Two of the largest clients, one of them nearer and the other farther away.
  n, change = np.array([50.0, 50.0, 20.0]), np.array([0.1, -0.1, 0.0])
  c = np.array([0.0, 1.0, 2.0])
  gap = _solve(c + change, n, 200.0) - _solve(c, n, 200.0)
  np.testing.assert_allclose(gap, -change * 50 / 400, rtol=1e-9, atol=1e-12)


def test_sensitivity_of_alpha():
  """perm check 10, T1 and the Lipschitz bound in the distances."""
  rng = np.random.default_rng(4)
  errors = []
  for _ in range(200):
    d, num_clients = 4, 6
    eigen = rng.uniform(0.5, 2.0, size=(num_clients, d))
    centers = rng.standard_normal((num_clients, d))
    smoothness = eigen.max()
    n = rng.integers(5, 60, num_clients).astype(float)
    lam = 10 ** rng.uniform(1, 3.5)
    star = (eigen * centers).sum(0) / eigen.sum(0)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    def distances(w):
      g = eigen * (w - centers)
      return np.sum((g[0] - g) ** 2, axis=1)
    for r in (1e-4, 1e-1, 1.0):
      moved = distances(star + r * direction)
      error = np.linalg.norm(
          _solve(moved, n, lam) - _solve(distances(star), n, lam)
      )
      zeta = np.sqrt(distances(star))
      bound = n.max() / (2 * lam) * 4 * smoothness * r * np.sqrt(
          np.sum((zeta + smoothness * r) ** 2)
      )
      assert error <= bound + 1e-12
      lipschitz = n.max() / (2 * lam) * np.linalg.norm(moved - distances(star))
      assert error <= lipschitz + 1e-12
    # First order in r: the slope over one decade of small perturbations.
    small = [
        np.linalg.norm(
            _solve(distances(star + r * direction), n, lam)
            - _solve(distances(star), n, lam)
        )
        for r in (1e-6, 1e-5)
    ]
    if small[0] > 1e-12:
      errors.append(np.log10(small[1] / small[0]))
  assert len(errors) >= 100
  assert abs(np.median(errors) - 1.0) < 0.2


def test_sparse_rows_keep_the_largest_and_the_own():
  alpha = tf.constant([[0.5, 0.2, 0.3], [0.6, 0.1, 0.3]], tf.float64)
  columns, values = mixing.sparse_rows(alpha, tf.constant([0, 1]), 2)
  np.testing.assert_array_equal(columns, [[0, 2], [1, 0]])
  np.testing.assert_allclose(values, [[0.625, 0.375], [1 / 7, 6 / 7]])


@pytest.mark.parametrize('k, columns', [(1, [1]), (2, [1, 2])])
def test_sparse_rows_do_without_an_own_weight_of_zero(k, columns):
  """As of a client without a gradient: alone it would be 0 / 0."""
  alpha = tf.constant([[0.0, 0.75, 0.25]], tf.float64)
  found, values = mixing.sparse_rows(alpha, tf.constant([0]), k)
  np.testing.assert_array_equal(found, [columns])
  np.testing.assert_allclose(values, [[[1.0], [0.75, 0.25]][k - 1]])


def test_projected_gradient_leaves_infinite_distances_out():
  c, n = np.array([0.0, np.inf, 1.0]), np.full(3, 5.0)
  alpha = mixing.projected_gradient(c, n, 2.0, np.full(3, 1 / 3), 5).numpy()
  np.testing.assert_allclose(alpha, _solve(c, n, 2.0), atol=1e-12)


@pytest.mark.parametrize('rows, expected', [
    ([[0.5, 0.5], [0.5, 0.5]], 1.0), ([[1.0, 0.0], [0.0, 1.0]], 0.0),
    ([[1.0]], 0.0),
])
def test_entropy_of_uniform_and_one_hot(rows, expected):
  found = mixing.entropy(tf.constant(rows))
  np.testing.assert_allclose(found, expected, atol=1e-12)
  assert not np.signbit(found)  # Which tables would show as -0.00.


@pytest.mark.parametrize('length', [0.2, 3.0])
def test_nearest_combination_of_orthogonal_points_is_a_projection(length):
  target = np.array([0.9, 0.4, -0.7])
  found = simplex.nearest_combination(
      tf.constant(length * np.eye(3)), tf.constant(length * target),
      tf.constant(np.full(3, 1 / 3)),
  )
  # (0.9, 0.4) less 0.15 each sum to 1, and -0.7 is out.
  np.testing.assert_allclose(found, [0.75, 0.25, 0.0], atol=1e-9)


def test_rows_of_a_table_are_solved_as_alone():
  rng = np.random.default_rng(8)
  c, n = rng.exponential(size=(3, 6)), rng.integers(5, 99, 6).astype(float)
  found = mixing.water_filling(tf.constant(c), tf.constant(n), 0.3)
  np.testing.assert_allclose(found, [_solve(row, n, 0.3) for row in c])
  np.testing.assert_allclose(
      simplex.project(tf.constant(c)),
      [simplex.project(tf.constant(row)) for row in c],
  )


def test_automatic_lambda_is_a_multiple_of_the_mean_variance():
  variances = tf.constant([1.0, 5.0, 30.0])
  known = tf.constant([True, True, False])
  assert mixing.auto_lambda(variances, known, 10.0) == 30.0
  assert mixing.auto_lambda(variances, tf.zeros([3], tf.bool), 10.0) == 0.0
