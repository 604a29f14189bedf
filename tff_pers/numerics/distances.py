"""Squared distances between client gradients, and cheap approximations."""

from typing import Any, Optional

import numpy as np
import tensorflow as tf


def center(vectors: tf.Tensor, counts: Optional[tf.Tensor] = None) -> tf.Tensor:
  """Subtracts the mean row of `vectors` [N, d].

  Distances do not change, but without centering, the common component that all
  gradients share causes catastrophic cancellation in float32.

  Args:
    vectors: Gradients, floats [N, d].
    counts: bool[N], the rows to average; None for all.
  """
  if counts is None:
    return vectors - tf.reduce_mean(vectors, axis=0, keepdims=True)
  counted = tf.where(counts[:, None], vectors, tf.zeros_like(vectors))
  number = tf.reduce_sum(tf.cast(counts, vectors.dtype))
  return vectors - tf.math.divide_no_nan(
      tf.reduce_sum(counted, axis=0, keepdims=True), number
  )


def gram_distances(
    vectors: tf.Tensor, owners: Optional[tf.Tensor] = None
) -> tf.Tensor:
  """Returns ||g_i - g_j||^2 through one Gram matrix: q_i + q_j - 2 <g_i, g_j>.

  Args:
    vectors: Centered gradients (see `center`), floats [N, d].
    owners: int32[M], the rows i to compute; None for all.

  Returns:
    Distances, [M, N], >= 0, with exact zeros at d_ii.
  """
  clients = tf.range(tf.shape(vectors)[0])
  points = vectors
  if owners is None:
    owners = clients
  elif not _is_everybody(owners, vectors.shape[0]):
    points = tf.gather(vectors, owners)
  squared = to_points(points, vectors)
  # Rounding leaves a small number where the distance to oneself is 0.
  own = tf.equal(owners[:, None], clients)
  return tf.where(own, tf.zeros_like(squared), squared)


def _is_everybody(owners, number: Optional[int]) -> bool:
  """Whether `owners` are known to be 0 to number - 1, so no copy is needed."""
  known = tf.get_static_value(owners)
  if known is None or number is None:
    return False
  return np.array_equal(known, np.arange(number))


def to_points(points: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
  """Returns ||p_c - g_j||^2 >= 0, [C, N].

  Args:
    points: Floats [C, d], centered with the vectors.
    vectors: Floats [N, d].
  """
  # One matrix product instead of the differences of all pairs, [C, N, d].
  squared = (
      tf.reduce_sum(tf.square(points), axis=1)[:, None]
      + tf.reduce_sum(tf.square(vectors), axis=1)
      - 2 * tf.matmul(points, vectors, transpose_b=True)
  )
  return tf.maximum(squared, 0)  # Rounding may go below 0.


def cosines(vectors: tf.Tensor) -> tf.Tensor:
  """Returns cos(v_i, v_j), [N, N]; 0 if a vector is 0.

  Args:
    vectors: Floats [N, d].
  """
  units = tf.math.divide_no_nan(
      vectors, tf.norm(vectors, axis=1, keepdims=True)
  )
  return tf.matmul(units, units, transpose_b=True)


def cosine_gradient(theta: Any, c: Any) -> Any:
  """Returns the gradient of cos(theta, c) in theta; 0 if either is 0.

  Args:
    theta: A structure of tensors.
    c: Another like it.
  """
  norm, other = (tf.linalg.global_norm(tf.nest.flatten(x)) for x in (theta, c))
  product = tf.add_n([
      tf.reduce_sum(x * y)
      for x, y in zip(tf.nest.flatten(theta), tf.nest.flatten(c))
  ])
  toward = tf.math.divide_no_nan(tf.ones_like(norm), norm * other)
  back = toward * tf.math.divide_no_nan(product, norm**2)
  return tf.nest.map_structure(lambda x, y: toward * y - back * x, theta, c)


def sketch(vector: tf.Tensor, dimension: int, seed: tf.Tensor) -> tf.Tensor:
  """Returns a count-sketch of `vector`: E ||S g - S h||^2 = ||g - h||^2.

  Every coordinate is added with a random sign to one of `dimension` random
  buckets; the relative standard deviation of a distance is about
  sqrt(2 / dimension). All clients use the same `seed`.

  Args:
    vector: Floats [d].
    dimension: k, length of the sketch.
    seed: int64[2].

  Returns:
    Floats [k].
  """
  # A number below 2 k encodes a sign (its parity) and a bucket (its half),
  # which are independent, so one draw gives both.
  drawn = tf.random.stateless_uniform(
      tf.shape(vector), seed, 0, 2 * dimension, tf.int32
  )
  signs = tf.cast(1 - 2 * (drawn % 2), vector.dtype)
  return tf.math.unsorted_segment_sum(
      signs * vector, drawn // 2, num_segments=dimension
  )


def flatten(structure: Any) -> tf.Tensor:
  """Returns all leaves of a structure of tensors as one vector [d]."""
  return tf.concat(
      [tf.reshape(leaf, [-1]) for leaf in tf.nest.flatten(structure)], axis=0
  )


def flatten_rows(table: Any) -> tf.Tensor:
  """Returns a table, leaves [N, ...], as vectors [N, d]."""
  return tf.concat(
      [
          tf.reshape(leaf, [-1, leaf.shape[1:].num_elements()])
          for leaf in tf.nest.flatten(table)
      ], axis=1,
  )
