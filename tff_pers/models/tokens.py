"""Numbers of tokens, and losses and metrics that skip padding.

Tokens are numbered as in TFF's Shakespeare and Stack Overflow: 0 is padding,
followed by the V words (or characters) of the vocabulary, the out-of-vocabulary
word, and the marks of the beginning and the end of a text. Padding comes last.

Labels y are int[batch, length], logits [batch, length, number of tokens], and
`vocabulary` is V. Losses and metrics are [batch].
"""

from typing import Optional

import tensorflow as tf

PAD = 0
# In addition to the vocabulary: padding, out of vocabulary, beginning, end.
NUM_SPECIAL = 4


def out_of_vocabulary(vocabulary: int) -> int:
  """Returns the token of words outside a vocabulary of that size."""
  return vocabulary + 1


def beginning(vocabulary: int) -> int:
  """Returns the token before a text."""
  return vocabulary + 2


def end(vocabulary: int) -> int:
  """Returns the token after a text that was not cut."""
  return vocabulary + 3


def num_real(y: tf.Tensor, vocabulary: Optional[int] = None) -> tf.Tensor:
  """Returns the number of tokens per example without padding, float32.

  With a vocabulary, special tokens do not count either.
  """
  return _count(_is_real(y, vocabulary))


def crossentropy(y: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Returns the mean cross-entropy over an example's tokens.

  Padding is skipped; the mean is 0 without any other token.
  """
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
  return _mean(losses, _is_real(y))


def accuracy(
    y: tf.Tensor, logits: tf.Tensor, vocabulary: Optional[int] = None
) -> tf.Tensor:
  """Returns the share of an example's tokens guessed right, float32.

  Padding is skipped; the end mark counts, as in TFF's Shakespeare. With a
  vocabulary only its tokens count, but the guess may be any token.
  (papers/partial_personalization.md 5.2: top-1 accuracy over proper words,
  without special tokens.)
  """
  guess = tf.argmax(logits, axis=-1, output_type=tf.int32)
  is_hit = tf.cast(tf.equal(guess, tf.cast(y, tf.int32)), tf.float32)
  return _mean(is_hit, _is_real(y, vocabulary))


def _is_real(y, vocabulary: Optional[int] = None):
  is_real = tf.not_equal(y, PAD)
  return is_real if vocabulary is None else is_real & (y <= vocabulary)


def _count(chosen):
  return tf.reduce_sum(tf.cast(chosen, tf.float32), axis=1)


def _mean(values, chosen):
  """Returns the mean over the chosen tokens of each row, 0 without any."""
  count = tf.maximum(_count(chosen), 1)
  kept = tf.where(chosen, values, tf.zeros_like(values))
  return tf.reduce_sum(kept, axis=1) / tf.cast(count, values.dtype)
