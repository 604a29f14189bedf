"""Robust rules on a matrix of messages, for `benchmark_rules`."""

import functools
from typing import Any, Callable

import numpy as np
import tensorflow as tf


def messages(number: int, length: int) -> np.ndarray:
  """Returns random messages, one per row."""
  rng = np.random.default_rng(0)
  return rng.standard_normal((number, length), np.float32)


def aggregation(
    rule: Callable[..., Any], x: np.ndarray
) -> Callable[[], Any]:
  """Returns a call that aggregates the rows of x, a tenth of them Byzantine."""
  number, key = len(x) // 10, tf.zeros([2], tf.int64)
  # Within TFF, too, the number of messages is unknown when a rule is traced.
  aggregate = tf.function(
      lambda stacked: rule(stacked, number, key),
      [tf.TensorSpec([None, x.shape[1]], tf.float32)],
  )
  return functools.partial(aggregate, tf.constant(x))
