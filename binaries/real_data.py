"""What the benchmarks on real federated data have in common.

Methods, grids of rates and scales are declared here alone, so that a number of
one table can be compared with a number of another one.
"""

import dataclasses
from typing import Any

from tff_pers.config import methods
from tff_pers.data import tasks

# One of each family, with its defaults.
FAMILIES = ('perm', 'floral', 'local_ffgg', 'fedhm', 'fedavgm')
# The five best of `benchmark_perm` on EMNIST by writer, and the floor.
BASELINES = (
    'fedavg', 'fedavg_finetuned', 'perfedavg', 'ifca', 'ensemble', 'local_only'
)
# Steps of clients, around the best of FedAvg and of local training on each
# task, tried with one seed.
RATES = {
    'cifar10': 'learning_rate:0.03,0.1,0.3',
    'cifar100': 'learning_rate:0.03,0.1,0.3',
    'emnist': 'learning_rate:0.2,0.7,2',
    'mnist': 'learning_rate:0.03,0.1,0.3',
    'shakespeare': 'learning_rate:0.5,1.5,4',
    'stackoverflow_nwp': 'learning_rate:0.7,1.5,3',
    'stackoverflow_tags': 'learning_rate:100,300,1000',
}
# Of every scale.
COMMON = dict(validation_fraction=0.2)
# Smoke: whether it works, in a minute. cpu: a few hours of two cores.
SCALES = {
    'cpu': dict(COMMON, seeds='0,1,2'),
    'smoke': dict(COMMON, seeds='0', rounds=2, eval_every=2),
    'paper': dict(COMMON, seeds='0,1,2'),
}
# What the smoke scale compares: without and with a state of clients, and a
# table at the server.
_SMOKE_ALGOS = 'fedavg,local_only,perm'
# They apply messages as they arrive, which needs flags of its own.
_ASYNCHRONOUS = ('async_ffgg', 'fedasync', 'fedbuff')
# Values of `--algos` that stand for several methods.
TABLE, ALL = 'table', 'all'


def algos(*without: str) -> str:
  """Returns the methods of a table, less those that a task has no use for."""
  return ','.join(
      name for name in FAMILIES + BASELINES if name not in without
  )


def all_algos(task: str) -> str:
  """Returns all methods that run on a task with default flags.

  Those without a `learning_rate` have no value of the grid (`local_update`,
  whose members are methods of their own).
  """
  traits = tasks.get(task).declares.traits
  return ','.join(
      name for name in methods.names()
      if name not in _ASYNCHRONOUS
      and 'learning_rate' in {
          field.name
          for field in dataclasses.fields(methods.get(name).hyperparameters)
      }
      and methods.fit(methods.get(name), traits) == 'yes'
  )


def part(task: str, **flags: Any) -> dict[str, Any]:
  """Returns the flags of a comparison of the table's methods on a task.

  Args:
    task: Value of `--task`.
    **flags: Further flags; they win.
  """
  return dict(dict(task=task, algos=algos(), grid=RATES[task]), **flags)


def smoke(task: str, **flags: Any) -> dict[str, Any]:
  """Returns flags of a comparison at the scale smoke: one rate, few clients.

  Args:
    task: Value of `--task`.
    **flags: Further flags; they win.
  """
  name, rates = RATES[task].split(':')
  return dict(
      dict(
          algos=_SMOKE_ALGOS, grid=f'{name}:{rates.split(",")[0]}',
          num_clients=6, clients_per_round=3,
      ), **flags,
  )
