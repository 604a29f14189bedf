"""Distance of router-weighted averages from those of the true clusters.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    FLoRAL, Section 4 (aggregation mismatch, Lemma 15).
"""

from typing import Any

import tensorflow as tf


def cluster_shares(num_examples: tf.Tensor, routers: tf.Tensor) -> tf.Tensor:
  """Returns p_c^k = pi_kc n_k / sum_k pi_kc n_k, [K, C].

  Args:
    num_examples: n_k, floats [K].
    routers: pi_k, floats [K, C]; every column has a positive entry.
  """
  used = tf.expand_dims(num_examples, 1) * routers
  return used / tf.reduce_sum(used, axis=0)


def aggregation_mismatch(
    num_examples: tf.Tensor, routers: tf.Tensor, true_routers: tf.Tensor
) -> tf.Tensor:
  """Returns ||delta_c||_1 = sum_k |p_c^k(routers) - p_c^k(true)|, [C].

  At most 2. Balanced clusters and uniform routers: 2 (C - 1) / C.

  Args:
    num_examples: n_k, floats [K].
    routers: Learned pi_k, floats [K, C].
    true_routers: Routers of the true clusters, floats [K, C].
  """
  difference = cluster_shares(num_examples, routers) - cluster_shares(
      num_examples, true_routers
  )
  return tf.reduce_sum(tf.abs(difference), axis=0)


def gradient_error_bound(
    num_examples: tf.Tensor, routers: tf.Tensor, true_routers: tf.Tensor, *,
    noise: Any, largest: Any,
) -> tf.Tensor:
  """Returns 2 sigma^2 ||p_c||_2^2 + 2 G^2 ||delta_c||_1^2, [C] (Lemma 15).

  It bounds the mean of ||sum_k p_c^k grad f_c - sum_k phat_c^k g_k||^2, where
  g_k are the clients' stochastic gradients.

  Args:
    num_examples: n_k, floats [K].
    routers: Learned pi_k, floats [K, C].
    true_routers: Routers of the true clusters, floats [K, C].
    noise: sigma^2, bound of E||g_k - grad f_c||^2 within a cluster.
    largest: G^2, bound of E||g_k||^2.
  """
  shares = cluster_shares(num_examples, true_routers)
  delta = aggregation_mismatch(num_examples, routers, true_routers)
  return (
      2 * noise * tf.reduce_sum(tf.square(shares), axis=0)
      + 2 * largest * tf.square(delta)
  )
