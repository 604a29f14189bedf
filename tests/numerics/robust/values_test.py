"""Rules on small matrices: the numbers of papers/baselines.md, section 9."""

import numpy as np
import pytest
import tensorflow as tf

from tff_pers.numerics import robust
from tff_pers.numerics import sorting

POINTS = np.array([
    (0, 0), (1, 0), (0, 1), (1, 1), (0.5, 0.5), (20, 20), (21, 20)
], np.float64)
TRIANGLE = np.array([(0, 0), (4, 0), (0, 3)], np.float64)
MIXED = np.array([(0, 0, 0), (1, 0, 0), (0, 2, 0), (50, 50, 50)], np.float64)
NORMS = np.array([(3, 4), (0, 1), (6, 8)], np.float64)
ZERO = np.zeros(2)
KEY = np.int64([3, 5])


def _close(actual, expected, atol=1e-6):
  np.testing.assert_allclose(actual, expected, atol=atol, rtol=0)


def _mixed(x, f):
  return robust.nearest_neighbour_mixing(tf.constant(x), f)


def test_mixing_counts_a_message_among_its_own_neighbours():
  _close(_mixed(np.array([[0.0], [1.0], [10.0]]), 1), [[0.5], [0.5], [5.5]])


def test_mixing_of_vectors():
  mixed = _mixed(MIXED, 1)
  _close(mixed, 3 * [[1 / 3, 2 / 3, 0]] + [[17, 52 / 3, 50 / 3]])
  _close(robust.median(mixed), [1 / 3, 2 / 3, 0])
  _close(robust.mean(mixed), [4.5, 4.833333, 4.166667])
  _close(robust.median(tf.constant(MIXED)), [0.5, 1, 0])
  _close(robust.mean(tf.constant(MIXED)), [12.75, 13, 12.5])


def test_mixing_breaks_ties_by_the_smaller_index():
  x = np.arange(1.0, 10).reshape(3, 3)
  _close(_mixed(x, 1), [[2.5, 3.5, 4.5], [2.5, 3.5, 4.5], [5.5, 6.5, 7.5]])


def test_krum_scores():
  scores = robust.krum_scores(tf.constant(POINTS), 2)
  _close(scores, [2.5, 2.5, 2.5, 2.5, 1.5, 1483.5, 1562], atol=1e-9)
  _close(robust.krum(tf.constant(POINTS), 2), [0.5, 0.5])


@pytest.mark.parametrize('m, expected', [
    (1, [0.5, 0.5]), (2, [0.25, 0.25]), (5, [0.5, 0.5])
])
def test_multi_krum_is_a_mean_of_the_best(m, expected):
  _close(robust.multi_krum(tf.constant(POINTS), 2, m), expected, atol=1e-12)


def test_clipping_of_norms():
  x = tf.constant(NORMS)
  for bound in (5.0, robust.median_norm(x), robust.adaptive_norm(x, 1)):
    _close(bound, 5, atol=1e-12)
    _close(robust.clip_norms(x, bound), [(3, 4), (0, 1), (3, 4)], atol=1e-12)
    _close(robust.mean(robust.clip_norms(x, bound)), [2, 3], atol=1e-12)


@pytest.mark.parametrize('n, f, k', [(7, 2, 2), (25, 5, 8)])
def test_adaptive_clipping_shortens_k_messages(n, f, k):
  x = np.arange(1.0, n + 1)[:, None]
  assert robust.adaptive_norm(tf.constant(x), f) == n - k


def test_a_message_of_zeros_is_not_clipped():
  x = tf.constant([[0.0, 0.0], [3.0, 4.0]])
  np.testing.assert_array_equal(robust.clip_norms(x, 0.0), np.zeros([2, 2]))


@pytest.mark.parametrize('radius, steps, expected', [
    (1.0, 1, (0.519764, 0.514838)), (1.0, 3, (0.764559, 0.757691)),
    (1.0, 50, (0.805344, 0.798101)), (None, 1, (0.519764, 0.514838)),
    (None, 3, (0.713558, 0.708260)), (None, 50, (0.770374, 0.764363)),
])
def test_centered_clipping_from_zero(radius, steps, expected):
  _close(
      robust.centered_clipping(
          tf.constant(POINTS), steps=steps, start=ZERO, radius=radius
      ), expected,
  )


def test_centered_clipping_from_the_median():
  _close(robust.centered_clipping(tf.constant(POINTS)), (0.800799, 0.794462))


def test_clipping_with_a_fixed_radius_does_not_scale():
  """Everything is within the radius: it is the mean."""
  x = tf.constant(1e-6 * POINTS)
  _close(
      1e6 * robust.centered_clipping(x, start=ZERO, radius=1.0),
      (6.214286, 6.071429),
  )
  adaptive = robust.centered_clipping(tf.constant(POINTS), start=ZERO)
  _close(1e6 * robust.centered_clipping(x, start=ZERO), adaptive, atol=1e-12)


def test_clipping_stays_where_more_than_half_are():
  x = tf.constant([[1.0, 2.0]] * 3 + [[9.0, 9.0]] * 2)
  np.testing.assert_array_equal(robust.centered_clipping(x), [1, 2])


@pytest.mark.parametrize('passes, expected', [
    (3, (0.791736, 0.839334)), (8, (0.706281, 0.764805)),
    (300, (0.695789, 0.751176)),
])
def test_geometric_median_of_a_triangle(passes, expected):
  x = tf.constant(TRIANGLE)
  _close(
      robust.geometric_median(
          x, passes=passes, start=robust.mean(x), smoothing=1e-9
      ), expected,
  )


@pytest.mark.parametrize('passes, smoothing, start, expected', [
    (8, 0.1, 'zero', (0.730610, 0.725734)),
    (4, 1e-5, 'mean', (0.942858, 0.939301)),
    (500, 1e-9, 'mean', (0.790969, 0.786107)),
])
def test_geometric_median_of_points(passes, smoothing, start, expected):
  x = tf.constant(POINTS)
  start = ZERO if start == 'zero' else robust.mean(x)
  _close(
      robust.geometric_median(
          x, passes=passes, start=start, smoothing=smoothing
      ), expected,
  )


def test_geometric_median_leaves_a_message():
  """Where the start, the median of the columns, is a message."""
  corner = [[0.0, 0], [1, 0], [0, 1]]
  expected = [(3 - 3**0.5) / 6] * 2  # All three sides are seen under 120 degrees.
  _close(robust.geometric_median(tf.constant(corner), passes=40), expected)
  # Two messages hold it: the others pull with 2^.5 together.
  _close(robust.geometric_median(tf.constant(corner + [[0.0, 0]])), (0, 0))


def test_no_pass_increases_the_smoothed_objective():
  rng = np.random.default_rng(0)
  x, nu = rng.standard_normal((9, 3)), 0.3

  def objective(z):
    r = np.linalg.norm(x - z, axis=1)
    return np.where(r >= nu, r, r**2 / (2 * nu) + nu / 2).sum()

  z = 3 * rng.standard_normal(3)
  for _ in range(20):
    following = robust.geometric_median(
        tf.constant(x), passes=1, start=z, smoothing=nu
    ).numpy()
    assert objective(following) <= objective(z) + 1e-12
    z = following


def test_reductions():
  """B5."""
  x = tf.constant(np.random.default_rng(1).standard_normal((9, 4)))
  mean = robust.mean(x)
  for rule in (robust.median, robust.mean, lambda y: robust.krum(y, 0)):
    _close(rule(_mixed(x, 0)), mean, atol=1e-12)
  _close(robust.trimmed_mean(x, 0), mean, atol=1e-12)
  _close(robust.multi_krum(x, 0, 9), mean, atol=1e-12)
  _close(robust.multi_krum(x, 2, 1), robust.krum(x, 2), atol=0)
  start = tf.constant([1.0, 2, 3, 4], tf.float64)
  _close(robust.geometric_median(x, passes=0, start=start), start, atol=0)
  _close(robust.centered_clipping(x, steps=0), robust.median(x), atol=0)


@pytest.mark.parametrize('s', [1, 2, 3, 4, 9])
def test_a_bucket_is_divided_by_its_own_size(s):
  """Every message is in one bucket; the last one may be short."""
  x = np.float64([[1], [10], [100], [1000], [10000]])
  means = robust.bucketing(tf.constant(x), s, KEY).numpy()[:, 0]
  sizes = [min(s, 5 - start) for start in range(0, 5, s)]
  assert len(means) == len(sizes)
  members = [f'{round(m * k):05d}' for m, k in zip(means, sizes)]
  assert [text.count('1') for text in members] == sizes
  assert sum(map(int, members)) == 11111


def test_buckets_follow_the_key():
  x = tf.constant(np.arange(40.0)[:, None])
  first = robust.bucketing(x, 2, KEY)
  np.testing.assert_array_equal(first, robust.bucketing(x, 2, KEY))
  assert np.any(first != robust.bucketing(x, 2, KEY + 1))


# Columns enough for the network, in one block and a part of another.
@pytest.mark.parametrize('n', [1, 2, 3, 5, 8, 13])
def test_network_sorts(n, monkeypatch):
  monkeypatch.setattr(sorting, '_SMALL', 0)
  monkeypatch.setattr(sorting, '_BLOCK', 64)
  x = np.random.default_rng(n).integers(-9, 9, (n, 100)).astype(np.float32)
  spec = [tf.TensorSpec([n, 100], tf.float32)]
  b = (n - 1) // 2
  median = tf.function(robust.median, spec)
  trimmed = tf.function(lambda x: robust.trimmed_mean(x, b), spec)
  np.testing.assert_array_equal(median(x), np.median(x, axis=0))
  np.testing.assert_allclose(
      trimmed(x), np.sort(x, axis=0)[b : n - b].mean(axis=0), rtol=1e-6
  )


def test_network_of_an_unknown_number_of_rows_sorts(monkeypatch):
  """A sum with growing weights is largest if the rows are sorted."""
  monkeypatch.setattr(sorting, '_SMALL', 0)
  monkeypatch.setattr(sorting, '_LOOP_BLOCK', 64)

  @tf.function(input_signature=[tf.TensorSpec([None, 100], tf.float64)])
  def weighted_sum(x):
    n = tf.shape(x)[0]
    weights = tf.range(1, tf.cast(n + 1, x.dtype), dtype=x.dtype)
    return sorting.reduce_sorted(
        x, lambda rows: tf.linalg.matvec(rows(0, n), weights, transpose_a=True)
    )

  for n in (*range(1, 18), 32, 33, 100, 200):
    x = np.random.default_rng(n).standard_normal((n, 100))
    np.testing.assert_allclose(
        weighted_sum(x), np.arange(1, n + 1) @ np.sort(x, axis=0), rtol=1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize('rule', ['krum', 'multi_krum', 'nnm'])
def test_far_messages_drown_no_distance_of_the_others(rule):
  """One is far away, another where the mean is then, a third a bit apart."""
  rng = np.random.default_rng(0)
  honest = rng.standard_normal((10, 6)).astype(np.float32)
  far = np.full([1, 6], 1e8, np.float32)
  x = np.concatenate([far / 13, honest + 3, far, np.full([1, 6], 60)])
  x = tf.constant(x.astype(np.float32))
  if rule == 'nnm':
    result = robust.mean(robust.nearest_neighbour_mixing(x, 3)[1:11])
  else:
    result = robust.multi_krum(x, 3, 1 if rule == 'krum' else 10)
  assert np.linalg.norm(result - honest.mean(0) - 3) < (
      4 if rule == 'krum' else 1e-3
  )
  if rule == 'krum':
    expected = robust.krum(tf.constant(x.numpy().astype(np.float64)), 3)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize('dtype, long', [
    (np.float32, 1e17), (np.float64, 1e152)
])
def test_what_overflows_is_not_finite(dtype, long):
  x = dtype([[1, 2], [np.nan, 0], [0, np.inf], [long, 0], [long / 1e3, 0]])
  np.testing.assert_array_equal(
      robust.are_finite(tf.constant(x)), [True, False, False, False, True]
  )
