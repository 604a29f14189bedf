"""Margins that keep predicted classes independent of the last bits.

Where two classes are equally likely, the order of a sum decides which of them
wins, and with it an accuracy.  That order differs between runtimes, graphs and
CPUs.  A test that compares accuracies therefore needs a problem that keeps a
margin: in every run, at every model, the two largest logits of every example
are at least that far apart.  A problem states its margin and reports `is_close`
as a metric of its models, so that the runs themselves are what is checked.
"""

import tensorflow as tf


def is_close(logits: tf.Tensor, margin: float) -> tf.Tensor:
  """Returns 1 where the two largest logits are nearly equal, otherwise 0.

  Args:
    logits: Scores of the classes, [batch, classes]; of two classes also the
      second one's alone, [batch, 1], the first one's being 0.
    margin: Logits that are at least this far apart are not close.

  Returns:
    Zeros and ones, [batch], of the same dtype; a row of NaN is close.
  """
  if logits.shape[-1] == 1:
    logits = tf.pad(logits, [[0, 0], [1, 0]])
  largest = tf.math.top_k(logits, 2).values
  is_apart = largest[:, 0] - largest[:, 1] >= margin
  return tf.cast(tf.logical_not(is_apart), logits.dtype)
