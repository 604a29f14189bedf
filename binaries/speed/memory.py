"""Measures the memory of PERM's model table: N models of d weights.

    python -m binaries.benchmark_memory --clients=200

Reports the size of the table (N x d x 4 bytes), and the peak memory of this
process (which holds the server state between rounds) and, on the native
runtime, of TFF's worker (which runs the round), beside those of a run with few
models, which are the fixed cost.
"""

import json
from typing import Any

import tensorflow as tf

from binaries.speed import harness
from binaries.speed import problems
from tff_pers import runtime as runtime_lib
from tff_pers.algorithms.perm import perm
from tff_pers.experiments import flags
from tff_pers.models import zoo

VARIANTS = ('two_stage', 'single_loop')
_FEW = 2  # Clients of the run that shows the fixed cost.


def _run(given: dict[str, Any]) -> None:
  chosen, clients = given.pop('measure'), given['clients']
  if chosen:
    print(json.dumps(measure(chosen, **given)))
    return
  num_parameters = _model().num_parameters
  table = clients * num_parameters * 4
  print(
      f'N = {clients} models of d = {num_parameters:,} weights: the table is'
      f' {_mib(table)}; {given["runtime"]} runtime\n'
  )
  harness.print_header(
      'variant', 'process', 'fixed', 'peak', '(peak - fixed) / table'
  )
  for variant in VARIANTS:
    # The peak memory of a process never falls: one process per number.
    fixed, peak = (
        harness.in_own_process(
            'binaries.benchmark_memory', measure=variant,
            **{**given, 'clients': number},
        )
        for number in (_FEW, clients)
    )
    for name in peak:
      copies = (peak[name] - fixed[name]) / table
      harness.print_row(
          variant, name, _mib(fixed[name]), _mib(peak[name]), f'{copies:.1f}'
      )


def _mib(num_bytes: int) -> str:
  return f'{num_bytes / 2**20:.0f} MiB'


def _model():
  """Returns the model, of which each client has one."""
  return zoo.build('mlp', tf.TensorSpec([None, 784]), problems.CLASSES)


def measure(
    variant: str, clients: int, rounds: int, runtime: str
) -> dict[str, int]:
  """Runs some rounds; returns peak bytes by name of the process."""
  runtime_lib.use(runtime)
  process = perm.build_perm(
      _model(), clients,
      problems.perm_hyperparameters(variant, local_steps=1),
  )
  data = problems.clients(clients, 20, 784)
  state = process.initialize()
  for _ in range(rounds):
    state = process.next(state, [()] * clients, data)['state']
  return {
      name: harness.memory(pid) for name, pid in harness.processes().items()
  }


main = flags.Program(
    'benchmark_memory', __doc__, _run,
    flags.own_flag(
        'clients', 200, 'N, number of personalized models.', minimum=2
    ),
    flags.own_flag('rounds', 3, 'Rounds.', minimum=1),
    harness.RUNTIME_FLAG,
    harness.measure_flag('one variant', choices=('', *VARIANTS)),
)
