"""Losses and metrics of sequences: padding and special tokens."""

import numpy as np
import tensorflow as tf

from tff_pers.models import tokens

VOCABULARY = 3  # Words 1 to 3; 4 is unknown, 5 and 6 are the marks.
Y = tf.constant([[1, 4, 3, 6, 0], [2, 6, 0, 0, 0], [0, 0, 0, 0, 0],
                 [4, 6, 0, 0, 0]])


def _logits(guesses):
  """Returns logits with these largest, [batch, length, 7]."""
  return 5.0 * tf.one_hot(guesses, VOCABULARY + tokens.NUM_SPECIAL)


def test_cross_entropy_is_the_mean_over_what_is_no_padding():
  logits = np.random.default_rng(0).normal(size=[4, 5, 7])
  found = tokens.crossentropy(Y, tf.constant(logits))
  for row, (y, own) in enumerate(zip(Y.numpy(), logits)):
    log_p = own - np.log(np.exp(own).sum(axis=-1, keepdims=True))
    expected = [-log_p[t, token] for t, token in enumerate(y) if token]
    np.testing.assert_allclose(
        found[row], np.mean(expected) if expected else 0.0, rtol=1e-12
    )
  # What is predicted behind the end does not matter.
  logits[0, 4] += np.arange(7)
  np.testing.assert_array_equal(found, tokens.crossentropy(Y, logits))


def test_accuracies():
  guesses = [[1, 4, 2, 6, 0], [2, 1, 0, 0, 0], [0, 0, 0, 0, 0],
             [4, 6, 0, 0, 0]]
  # Right: 1, 4 and 6 of the first text, 2 of the second.
  np.testing.assert_allclose(
      tokens.accuracy(Y, _logits(guesses)), [3 / 4, 1 / 2, 0, 1]
  )
  # Of words: 1 but not 3; 2; none at all in the others.
  np.testing.assert_allclose(
      tokens.accuracy(Y, _logits(guesses), VOCABULARY), [1 / 2, 1, 0, 0]
  )
