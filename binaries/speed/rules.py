"""Measures CPU seconds and memory of robust rules, beside NumPy's sort.

Runs every rule on a stacked matrix of 100 messages of 1e6 float32 parameters.
The number of messages is unknown when the rule is traced, as within TFF. The
last column is relative to `np.sort(x, axis=0)` in the same turn. Memory is the
rise of the process's peak since the matrix was created, so that it can only
grow from row to row.

  python -m binaries.benchmark_rules --repetitions=3
"""

import os
import resource
import statistics
import time
from typing import Sequence

# TensorFlow reads this when it is imported, so it comes before the imports.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')

from absl import app  # pylint: disable=g-import-not-at-top
from absl import flags
import numpy as np
import tensorflow as tf

from tff_pers.aggregators import robust

_REPETITIONS = flags.DEFINE_integer(
    'repetitions', 3, 'Number of measured turns.', lower_bound=1
)
_CLIENTS = flags.DEFINE_integer('clients', 100, 'Messages.', lower_bound=5)
_PARAMETERS = flags.DEFINE_integer(
    'parameters', 10**6, 'Length of a message.', lower_bound=1
)
_RULES = flags.DEFINE_list(
    'rules',
    [
        'mean', 'norm_clipping', 'centered_clipping', 'geometric_median',
        'median', 'trimmed_mean', 'bucketing(median)', 'krum', 'multi_krum',
        'nnm(median)',
    ],
    'Rules to measure; they assume that a tenth of the messages is Byzantine.',
)


def main(argv: Sequence[str]) -> None:
  if len(argv) > 1:
    raise app.UsageError(f'No positional arguments, found {argv[1]!r}.')
  number = _CLIENTS.value // 10
  try:
    rules = {text: robust.parse(text) for text in _RULES.value}
  except ValueError as error:
    raise app.UsageError(str(error)) from error
  x = np.random.default_rng(0).standard_normal(
      (_CLIENTS.value, _PARAMETERS.value), np.float32
  )
  stacked, key = tf.constant(x), tf.zeros([2], tf.int64)
  base = _peak()
  print('| rule | CPU seconds | peak memory, MB | against np.sort |')
  print('|---|---|---|---|')
  for text, rule in rules.items():
    call = tf.function(
        lambda x, rule=rule: rule(x, number, key),
        [tf.TensorSpec([None, x.shape[1]], tf.float32)],
    )
    call(stacked)  # Traced and warm.
    peak, seconds, ratios = _peak() - base, [], []
    for _ in range(_REPETITIONS.value):
      # pylint: disable-next=cell-var-from-loop
      seconds.append(_cpu(lambda: call(stacked)))
      ratios.append(seconds[-1] / max(_cpu(lambda: np.sort(x, axis=0)), 1e-9))
    print(
        f'| {text} | {statistics.median(seconds):.3g} | {peak:.0f} |'
        f' {statistics.median(ratios):.2f} |', flush=True,
    )


def _cpu(call) -> float:
  """Returns the CPU seconds of a call, summed over threads."""
  start = time.process_time()
  call()
  return time.process_time() - start


def _peak() -> float:
  """Returns the peak memory of the process so far, in MB."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def run() -> None:
  app.run(main)


if __name__ == '__main__':
  run()
