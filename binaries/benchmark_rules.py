"""Measures CPU seconds and memory of robust rules, beside NumPy's sort.

Runs every rule on a stacked matrix of 100 messages of 1e6 float32 parameters.
The number of messages is unknown when the rule is traced, as within TFF. The
last column is relative to `np.sort(x, axis=0)` in the same turn. Memory is the
rise of the process's peak since the matrix was created, so that it can only
grow from row to row.

  python -m binaries.benchmark_rules --repetitions=3
"""

import os

from absl import app
from absl import flags
import numpy as np

from binaries.speed import harness
from binaries.speed import rules
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
        'caf', 'nnm(median)',
    ],
    'Rules to measure; they assume that a tenth of the messages is Byzantine.',
)


def main() -> None:
  try:
    parsed = {text: robust.parse(text) for text in _RULES.value}
  except ValueError as error:
    raise app.UsageError(str(error)) from error
  x = rules.messages(_CLIENTS.value, _PARAMETERS.value)
  base = harness.memory(os.getpid())
  harness.print_header(
      'rule', 'CPU seconds', 'peak memory, MB', 'against np.sort'
  )
  for text, rule in parsed.items():
    call = rules.aggregation(rule, x)
    call()  # Traced and warm.
    rise = harness.memory(os.getpid()) - base
    costs = harness.in_turn(
        {'rule': call, 'sort': lambda: np.sort(x, axis=0)}, _REPETITIONS.value
    )
    against = harness.median_ratio(costs['rule'], costs['sort'])
    harness.print_row(
        text, f'{harness.median(costs["rule"]).cpu:.3g}',
        f'{rise / 2**20:.0f}', f'{against.cpu:.2f}',
    )


if __name__ == '__main__':
  harness.run(main)
