"""Rounds of PERM's model table, for `benchmark_memory`."""

from typing import Any

import tensorflow as tf

from binaries.speed import harness
from binaries.speed import problems
from tff_pers import runtime as runtime_lib
from tff_pers.algorithms.perm import perm
from tff_pers.models import zoo

VARIANTS = ('two_stage', 'single_loop')


def model() -> Any:
  """Returns the model, of which each client has one."""
  return zoo.build('mlp', tf.TensorSpec([None, 784]), problems.CLASSES)


def measure(
    variant: str, num_clients: int, *, rounds: int, runtime: str
) -> dict[str, int]:
  """Runs some rounds; returns peak bytes by name of the process."""
  runtime_lib.use(runtime)
  process = perm.build_perm(
      model(), num_clients,
      problems.perm_hyperparameters(variant, local_steps=1),
  )
  data = problems.clients(num_clients, 20, 784)
  state = process.initialize()
  for _ in range(rounds):
    state = process.next(state, [()] * num_clients, data)['state']
  return {
      name: harness.memory(pid) for name, pid in harness.processes().items()
  }
