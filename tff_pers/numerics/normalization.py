"""Adaptors of a batch normalization with running statistics (Batch-NorA).

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    Almansoori, Horvath, Takac. CPAL 2025. https://arxiv.org/abs/2410.03497
"""

import tensorflow as tf


def reparameterize(
    scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, std: tf.Tensor,
    own_mean: tf.Tensor, own_std: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns parameters of an adaptor that normalizes by its own statistics.

    gamma'_c = sigma_c / sigma * gamma_c
    beta'_c = beta_c + (mu_c - mu) / sigma * stop_gradient(gamma_c)

  so that the outputs of the layer and of its adaptor add up to
  (x - mu) / sigma * (gamma + gamma_c) + beta + beta_c. The preceding line in
  the paper has a wrong sign. A model that normalizes only by the main
  statistics does not need this: gamma + gamma_c and beta + beta_c give the same
  function.

  Args:
    scale: gamma_c, the adaptor's, [channels].
    offset: beta_c, the adaptor's, [channels].
    mean: mu of the layer, [channels].
    std: sigma of the layer, including epsilon, > 0.
    own_mean: mu_c of the adaptor.
    own_std: sigma_c of the adaptor, including epsilon, > 0.

  Returns:
    (gamma'_c, beta'_c).
  """
  shift = (own_mean - mean) / std
  return own_std / std * scale, offset + shift * tf.stop_gradient(scale)
