"""Compares a local step of FLoRAL to one of the model without adaptors.

The models, batches and minibatches of W1 and W2 of `benchmark_runtime`; 4
adaptors, each of 1 % and of 10 % of the model. One process measures all calls
in turn, so that machine load affects all of them alike. Seconds are medians; a
ratio is the median of the ratios within a turn; CPU seconds sum over threads.

  python -m binaries.benchmark_adaptors --repetitions=15
"""

from absl import flags

from binaries.speed import adaptors
from binaries.speed import harness

_REPETITIONS = flags.DEFINE_integer(
    'repetitions', 15, 'Number of measured turns.', lower_bound=1
)
_EPOCHS = flags.DEFINE_integer(
    'epochs', 8, 'Local epochs per measurement.', lower_bound=1
)


def main() -> None:
  harness.print_header(
      'workload', 'call', 'operations', 'wall ms', 'CPU ms', 'wall vs plain',
      'CPU vs plain',
  )
  for name in ('W1', 'W2'):
    for calls in adaptors.groups(name, _EPOCHS.value):
      operations = {call: own.operations() for call, own in calls.items()}
      costs = harness.in_turn(calls, _REPETITIONS.value)
      plain = next(iter(costs.values()))  # The first one.
      for call, own in costs.items():
        seconds, ratio = harness.median(own), harness.median_ratio(own, plain)
        number = calls[call].number
        harness.print_row(
            name, call, operations[call], f'{1e3 * seconds.wall / number:.3f}',
            f'{1e3 * seconds.cpu / number:.3f}', f'{ratio.wall:.2f}',
            f'{ratio.cpu:.2f}',
        )


if __name__ == '__main__':
  harness.run(main)
