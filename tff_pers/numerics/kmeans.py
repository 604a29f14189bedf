"""Weighted k-means that continues from an assignment.

    minimize  sum_j s_j ||g_j - mu_a(j)||^2,   mu_c = weighted mean of a(j) = c

Lloyd's steps keep the labels of clusters, but do not escape from a bad start,
such as one from few of the vectors. So before them clusters move: the cluster
whose removal costs least goes to a vector where this gains much. An empty
cluster costs nothing to remove, so this is also the initialization: greedy
k-means++.

A Better k-means++ Algorithm via Local Search
    Silvio Lattanzi, Christian Sohler. ICML 2019.
"""

import tensorflow as tf

from tff_pers.core import random
from tff_pers.numerics import distances

_CANDIDATES = 16
_LLOYD_STEPS = 10
# A cluster with members only moves if the gain is this multiple of the loss,
# because the users of its model would have to restart.
_WORTH = 2.0
# Share of the possible gain below which changes are rounding errors.
_LEAST = 1e-6


def assign(
    vectors: tf.Tensor, weights: tf.Tensor, assignment: tf.Tensor,
    num_clusters: int, seed: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (assignment int32[N], distances to the centers [C, N]).

  Cost: O(C N p) per step of Lloyd, O(N p) per move; no [N, N] matrix.

  Args:
    vectors: Centered (see `distances.center`), floats [N, p].
    weights: s >= 0, floats [N]; vectors of weight 0 are ignored, and their
      entries of the result are meaningless.
    assignment: Initial assignment, int32[N]; -1: in no cluster.
    num_clusters: C.
    seed: int64[2] key of the draws.

  Returns:
    Distances are squared, those to an empty cluster infinite.
  """
  weights = tf.cast(weights, vectors.dtype)

  def apart_from(assignment):
    points, is_used = centers(vectors, weights, assignment, num_clusters)
    return tf.where(
        is_used[:, None], distances.to_points(points, vectors), float('inf')
    )

  def changes(apart, assignment):
    moved = tf.not_equal(_nearest(apart), assignment)
    return tf.reduce_any(tf.logical_and(moved, weights > 0))

  def step(i, apart, assignment):
    assignment = _nearest(apart)
    return i + 1, apart_from(assignment), assignment

  apart = _moved(vectors, weights, apart_from(assignment), seed)
  found = step(0, apart, assignment)
  _, apart, assignment = tf.while_loop(
      lambda i, apart, assignment: tf.logical_and(
          i < _LLOYD_STEPS, changes(apart, assignment)
      ),
      step, (tf.constant(1), *found[1:]),
  )
  return assignment, apart


def centers(
    vectors: tf.Tensor, weights: tf.Tensor, assignment: tf.Tensor,
    num_clusters: int,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (weighted means [C, p], whether a cluster has members bool[C])."""
  members = tf.one_hot(  # -1 gives a zero row.
      assignment, num_clusters, dtype=vectors.dtype, axis=0
  ) * tf.cast(weights, vectors.dtype)
  total = tf.reduce_sum(members, axis=1, keepdims=True)
  shares = tf.math.divide_no_nan(members, total)
  return tf.matmul(shares, vectors), total[:, 0] > 0


def _nearest(apart):
  return tf.argmin(apart, axis=0, output_type=tf.int32)


def _moved(vectors, weights, apart, seed):
  """Moves clusters while this lowers the cost; returns distances [C, N]."""
  num_clusters = apart.shape[0]
  squares = tf.reduce_sum(tf.square(vectors), axis=1)
  # An upper bound on distances, used if there is no center at all.
  bound = 4 * tf.reduce_max(squares)
  least = _LEAST * tf.reduce_sum(weights * squares)

  def move(i, apart, _):
    near, missed = _missed(weights, tf.minimum(apart, bound), bound)
    new, gains = _candidates(
        vectors, weights, near, random.fold_in(seed, i)
    )
    best, worst = tf.argmax(gains), tf.argmin(missed)
    is_better = gains[best] > _WORTH * missed[worst] + least
    moved = tf.tensor_scatter_nd_update(
        apart, worst[None, None], new[best][None]
    )
    return i + 1, tf.where(is_better, moved, apart), is_better

  return tf.while_loop(
      lambda i, apart, goes_on: tf.logical_and(i < 2 * num_clusters, goes_on),
      move, (tf.constant(0), apart, tf.constant(True)),
  )[1]


def _missed(weights, apart, bound):
  """Returns (distances to the nearest [N], savings of clusters [C]).

  The savings of a cluster are its members' extra distances to the second
  nearest.
  """
  none = tf.fill([1, apart.shape[1]], bound)
  nearest, second = tf.unstack(
      -tf.math.top_k(-tf.transpose(tf.concat([apart, none], axis=0)), 2)[0],
      axis=1,
  )
  saved = tf.math.unsorted_segment_sum(
      weights * (second - nearest), _nearest(apart), apart.shape[0]
  )
  return nearest, saved


def _candidates(vectors, weights, near, seed):
  """Returns (distances to candidate vectors [L, N], their savings [L]).

  Vectors are drawn in proportion to their current cost.
  """
  uniform = tf.random.stateless_uniform(
      tf.shape(near), seed, 1e-7, dtype=near.dtype
  )
  gumbel = -tf.math.log(-tf.math.log(uniform))
  _, drawn = tf.math.top_k(
      tf.math.log(weights * near) + gumbel, min(_CANDIDATES, near.shape[0])
  )
  apart = distances.to_points(tf.gather(vectors, drawn), vectors)
  return apart, tf.reduce_sum(weights * tf.maximum(near - apart, 0), axis=1)
