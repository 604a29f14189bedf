"""Loss and metrics of several labels per example, e.g. tags of a question.

y is zeros and ones, [batch, number of labels]; each label has one logit.
"""

import tensorflow as tf


def multilabel_crossentropy(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Cross-entropy per example, float[batch]: the mean over its labels."""
  return tf.reduce_mean(
      tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(y, logits.dtype), logits),
      axis=1,
  )


def recall_at_5(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Share of an example's labels among its 5 largest logits: float32[batch].

  It is 0 without labels. Weighted by `num_labels` it is TFF's recall of tags.
  """
  _, guesses = tf.math.top_k(logits, min(5, logits.shape[-1]))
  hits = tf.reduce_sum(tf.gather(y, guesses, axis=1, batch_dims=1), axis=1)
  return tf.math.divide_no_nan(tf.cast(hits, tf.float32), num_labels(y))


def num_labels(y: tf.Tensor) -> tf.Tensor:
  """Number of an example's labels, float32[batch]: y in {0, 1}, [batch, C]."""
  return tf.reduce_sum(tf.cast(y, tf.float32), axis=1)
