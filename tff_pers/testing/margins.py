"""Margins that keep predicted classes independent of the last bits.

If two classes are equally likely, the order of a sum decides which of them
wins, and thus an accuracy. That order differs between runtimes, graphs and
CPUs. A test that compares accuracies therefore needs a problem with a margin:
in every run, for every model, the two largest logits of every example differ by
at least the margin. A problem states its margin and reports `is_close` as a
metric of its models, so that the runs themselves are checked.
"""

import tensorflow as tf


def is_close(logits: tf.Tensor, margin: float) -> tf.Tensor:
  """Returns 1 if the two largest logits are nearly equal, otherwise 0.

  Args:
    logits: Scores of the classes, [batch, classes]; for two classes also only
      the second one's, [batch, 1], with the first one's 0.
    margin: Logits that differ by at least this are not close.

  Returns:
    Zeros and ones, [batch], of the same dtype; a row of NaN is close.
  """
  if logits.shape[-1] == 1:
    logits = tf.pad(logits, [[0, 0], [1, 0]])
  largest = tf.math.top_k(logits, 2).values
  is_apart = largest[:, 0] - largest[:, 1] >= margin
  return tf.cast(tf.logical_not(is_apart), logits.dtype)
