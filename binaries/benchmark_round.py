"""Measures seconds per round and the share spent outside TensorFlow.

A cohort of 50 clients of 100 examples trains an MLP 784-200-200-10 for 20 local
steps of batch 20. Reports per method the median wall and CPU seconds (this
process and, on the native runtime, TFF's worker) per round, and the CPU seconds
of the same client work as one `tf.function` call per client, which is the share
inside TensorFlow. Then times the server's update of the mixing weights alone.

With --clients_per_round, instead runs rounds of PERM with that many clients: 20
examples of 64 features each, logistic regression of 650 weights, 5 local steps.
Reports CPU seconds per round (clients included) beside FedAvg's, and the peak
memory of the process so far; first with 20 cluster models, then with one model
per client.

  python -m binaries.benchmark_round --rounds=5
  python -m binaries.benchmark_round --clients=10000 --clients_per_round=100
"""

import os

from absl import app
from absl import flags

from binaries.speed import harness
from binaries.speed import round as round_lib
from tff_pers import runtime

_ROUNDS = flags.DEFINE_integer(
    'rounds', 5, 'Measured rounds per method.', lower_bound=1
)
_CLIENTS = flags.DEFINE_integer(
    'clients', 50, 'Number of clients.', lower_bound=2
)
_COHORT = flags.DEFINE_integer(
    'clients_per_round', 0, 'Clients that take part in a round; 0: all.',
    lower_bound=0,
)
_RUNTIME = flags.DEFINE_enum(
    'runtime', 'fused', ['fused', 'native'], 'Runtime that runs the rounds.'
)


def main() -> None:
  if _COHORT.value > _CLIENTS.value:
    raise app.UsageError(
        f'`--clients_per_round` must be <= {_CLIENTS.value}, the number of'
        f' clients, found {_COHORT.value}.'
    )
  runtime.use(_RUNTIME.value)
  if _COHORT.value:
    _print_cohorts(round_lib.few_of_many(_CLIENTS.value, _COHORT.value))
  else:
    _print_everybody(round_lib.everybody(_CLIENTS.value))


def _print_everybody(setting: round_lib.Setting) -> None:
  print(
      f'{_CLIENTS.value} clients x {round_lib.EXAMPLES} examples, MLP with'
      f' {setting.model.num_parameters:,} weights, 20 local steps of batch 20,'
      f' {_RUNTIME.value} runtime\n'
  )
  harness.print_header(
      'method', 'wall s / round', 'CPU s / round', 'of it TensorFlow',
      'share outside', 'wall vs fedavg',
  )
  costs = {}
  for name, floor in round_lib.tensorflow_seconds(setting).items():
    costs[name] = wall, cpu = round_lib.play(setting, name, _ROUNDS.value)
    harness.print_row(
        name, f'{wall:.2f}', f'{cpu:.2f}', f'{floor:.2f}',
        f'{max(0.0, 1 - floor / cpu):.0%}',
        f'{wall / costs["fedavg"].wall:.2f}',
    )
  seconds = round_lib.mixing_seconds(
      _CLIENTS.value, setting.model.num_parameters
  )
  print(
      f'\nThe server solves for the mixing weights in {seconds:.3f} CPU s,'
      f' {seconds / cpu:.1%} of a round of perm_single_loop.'
  )


def _print_cohorts(setting: round_lib.Setting) -> None:
  print(
      f'{_COHORT.value} of {_CLIENTS.value} clients per round,'
      f' {setting.model.num_parameters} weights, {_RUNTIME.value} runtime\n'
  )
  harness.print_header(
      'method', 'wall s / round', 'CPU s / round', 'peak memory, MB'
  )
  for name in setting.processes:
    wall, cpu = round_lib.play(setting, name, _ROUNDS.value)
    peak = harness.memory(os.getpid()) / 2**20
    harness.print_row(name, f'{wall:.2f}', f'{cpu:.2f}', f'{peak:.0f}')


if __name__ == '__main__':
  harness.run(main)
