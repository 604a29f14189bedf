"""A few robust rules for attacks to look at, in the form they know them.

Plain and slow: from the definitions (baselines 9), for small messages.
"""

import dataclasses
from typing import Callable

import tensorflow as tf

from tff_pers.core import random


@dataclasses.dataclass(frozen=True)
class Rule:
  """A rule `fn(x, f, key) -> float[d]`."""

  fn: Callable
  f: int = -1
  is_random: bool = False

  def __call__(self, x, num_byzantine, key):
    return self.fn(x, num_byzantine, key)

  def is_possible(self, num_messages, num_byzantine):
    return num_messages > 2 * num_byzantine


def _median(x, f, key):
  del f, key
  n, ordered = tf.shape(x)[0], tf.sort(x, axis=0)
  return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _trimmed_mean(x, f, key):
  del key
  return tf.reduce_mean(tf.sort(x, axis=0)[f : tf.shape(x)[0] - f], axis=0)


def _distances(x):
  return tf.reduce_sum(tf.square(x[:, None] - x[None]), axis=-1)


def _krum(x, f, key):
  del key
  nearest = tf.sort(_distances(x), axis=1)[:, 1 : tf.shape(x)[0] - f - 1]
  return x[tf.argmin(tf.reduce_sum(nearest, axis=1))]


def nnm(rule):
  """Nearest-neighbour mixing, then `rule`."""
  def mixed(x, f, key):
    count = tf.shape(x)[0] - f
    neighbours = tf.argsort(_distances(x), axis=1, stable=True)[:, :count]
    return rule(tf.reduce_mean(tf.gather(x, neighbours), axis=1), f, key)
  return Rule(mixed)


def bucketing(rule):
  """Means of pairs in an order drawn from the key, then `rule`; n is even."""
  def bucketed(x, f, key):
    drawn = tf.random.stateless_uniform([tf.shape(x)[0]], random.fold_in(key, 0))
    pairs = tf.reshape(tf.gather(x, tf.argsort(drawn)), [-1, 2, x.shape[1]])
    return rule(tf.reduce_mean(pairs, axis=1), f, key)
  return Rule(bucketed, is_random=True)


MEDIAN = Rule(_median)
TRIMMED_MEAN = Rule(_trimmed_mean)
KRUM = Rule(_krum)
