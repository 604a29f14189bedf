"""Robust rules on a matrix of messages, for `benchmark_rules`."""

import functools
import os
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from binaries.speed import harness
from tff_pers.aggregators import robust
from tff_pers.experiments import flags


def run(given: dict[str, Any]) -> None:
  """Runs `binaries.benchmark_rules`, see `flags.Program`."""
  with flags.usage_errors():
    parsed = {
        text: robust.parse(text)
        for text in map(str.strip, given['rules'].split(','))
    }
  x = np.random.default_rng(0).standard_normal(
      (given['clients'], given['parameters']), np.float32
  )
  base = harness.memory(os.getpid())
  harness.print_header(
      'rule', 'CPU seconds', 'peak memory, MB', 'against np.sort'
  )
  for text, rule in parsed.items():
    call = _aggregation(rule, x)
    call()  # Traced and warm.
    rise = harness.memory(os.getpid()) - base
    costs = harness.in_turn(
        {'rule': call, 'sort': lambda: np.sort(x, axis=0)},
        given['repetitions'],
    )
    against = harness.median_ratio(costs['rule'], costs['sort'])
    harness.print_row(
        text, f'{harness.median(costs["rule"]).cpu:.3g}',
        f'{rise / 2**20:.0f}', f'{against.cpu:.2f}',
    )


def _aggregation(rule, x: np.ndarray) -> Callable[[], Any]:
  """Returns a call that aggregates the rows of x, a tenth of them Byzantine."""
  number, key = len(x) // 10, tf.zeros([2], tf.int64)
  # Within TFF, too, the number of messages is unknown when a rule is traced.
  aggregate = tf.function(
      lambda stacked: rule(stacked, number, key),
      [tf.TensorSpec([None, x.shape[1]], tf.float32)],
  )
  return functools.partial(aggregate, tf.constant(x))
