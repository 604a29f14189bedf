"""Places FedAvg on a task on the trade-off of speed and accuracy."""

import dataclasses
import os
from typing import Any, Mapping, NamedTuple

import numpy as np

from tff_pers.analysis import curvature as curvature_lib
from tff_pers.data import client_data
from tff_pers.data import tasks
from tff_pers.evaluation import results
from tff_pers.experiments import experiment as experiment_lib
from tff_pers.experiments import flags

COLUMNS = ('client', 'mu', 'L', 'distance')


class Measured(NamedTuple):
  """Measurements on a task.

  Attributes:
    title: The task and the model.
    curvature: Curvature of the clients' losses.
    gamma: Step size of FedAvg on the task.
    num_steps: Local steps of FedAvg on the task, mean over clients.
  """

  title: str
  curvature: curvature_lib.Curvature
  gamma: float
  num_steps: int


def used_flags(
    given: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[str, ...]:
  """Returns the flags that make the task or control the measurement."""
  own = [
      name for name, flag in table.items()
      if (flag.kind, flag.owner) == ('task', given['task'])
  ]
  request = [field.name for field in dataclasses.fields(tasks.TaskRequest)]
  return ('task', 'l2', *request, *own)


def measure(given: Mapping[str, Any], l2: float) -> Measured:
  """Measures the clients of the task that flags make; prints the findings.

  Raises:
    flags.UsageError: If the task cannot be built, or a client has no examples.
  """
  table = flags.all_flags(flags.own_flag('algo', '', 'The method.'))
  experiment = experiment_lib.build(dict(given, algo='fedavg'), table)
  task = experiment.task
  clients = [data for data in task.train if data['num_examples'] > 0]
  found = curvature_lib.measure(task.model, clients, l2)
  measured = Measured(
      f'{task.name}, {task.model.name}', found,
      experiment.hyperparameters.learning_rate,
      _num_steps(experiment.hyperparameters, clients),
  )
  print(
      f'{measured.title}, {len(clients)} clients, l2 = {l2:g}, at the optimum'
      f' of the mean loss:\n'
      f'  mu = {found.smallest.min():.6g}, L = {found.largest.max():.6g} (of'
      f' the least curved client {found.largest.min():.6g})\n'
      f'  client optima within C = {found.radius:.6g} of their mean, which is'
      f' {found.distance:.6g} from the optimum; initial weights are'
      f' {found.start:.6g} from it\n'
      f'  FedAvg on this task: gamma = {measured.gamma:g}, K ='
      f' {measured.num_steps}\n'
  )
  return measured


def write(measured: Measured, output_dir: str) -> None:
  """Writes `curvature.csv`, a row per client."""
  found = measured.curvature
  columns = (found.smallest, found.largest, found.distances)
  results.write_csv(
      os.path.join(output_dir, 'curvature.csv'), COLUMNS,
      [
          dict(zip(COLUMNS, (client, *row)))
          for client, row in enumerate(np.transpose(columns).tolist())
      ],
  )


def _num_steps(hyperparameters, clients) -> int:
  """Returns K; for clients that count epochs, the mean over clients."""
  if hyperparameters.local_steps:
    return hyperparameters.local_steps
  steps = [
      client_data.batches_per_epoch(
          data['num_examples'], hyperparameters.batch_size
      )
      for data in clients
  ]
  return round(hyperparameters.local_epochs * float(np.mean(steps)))
