"""Measures CPU seconds and memory of robust rules, beside NumPy's sort.

    python -m binaries.benchmark_rules --repetitions=3

Runs every rule on a stacked matrix of 100 messages of 1e6 float32 parameters.
The number of messages is unknown when the rule is traced, as within TFF. The
last column is relative to `np.sort(x, axis=0)` in the same turn. Memory is the
rise of the process's peak since the matrix was created, so that it can only
grow from row to row.
"""

import functools
import os
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from binaries.speed import harness
from tff_pers.aggregators import robust
from tff_pers.experiments import flags


def _run(given: dict[str, Any]) -> None:
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


main = flags.Program(
    'benchmark_rules', __doc__, _run,
    flags.own_flag('repetitions', 3, 'Number of measured turns.', minimum=1),
    flags.own_flag('clients', 100, 'Messages.', minimum=5),
    flags.own_flag('parameters', 10**6, 'Length of a message.', minimum=1),
    flags.own_flag(
        'rules',
        'mean,norm_clipping,centered_clipping,geometric_median,median,'
        'trimmed_mean,bucketing(median),krum,multi_krum,caf,nnm(median)',
        'Rules to measure; they assume that a tenth of the messages is'
        ' Byzantine.',
    ),
)
