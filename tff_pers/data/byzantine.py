"""Appoints Byzantine clients, which need not follow the protocol."""

import dataclasses

import numpy as np

from tff_pers.data import holdout
from tff_pers.data import partition
from tff_pers.data import task as task_lib

_USE = 5  # Of the seed; 0 to 4 are for partitions, splits, and systems.


def check(number: int, num_clients: int) -> None:
  """Raises a ValueError if half of the clients or more are Byzantine.

  Then no rule can help.
  """
  if 2 * number >= num_clients > 0:
    raise ValueError(
        '`num_byzantine` must be less than half of the clients'
        f' ({num_clients}), found {number}.'
    )


def appoint(
    task: task_lib.Task, number: int, seed: int, num_held_out: int = 0
) -> task_lib.Task:
  """Returns the task with `number` Byzantine clients.

  A task that names its Byzantine clients keeps them; else the seed draws them
  from the clients that train, all but `num_held_out` (see `holdout`).

  Raises:
    ValueError: If they are half of the clients or more, or the task names
      another number.
  """
  if not number:
    return task
  if task.byzantine is not None:
    named = int(np.sum(task.byzantine))
    if named != number:
      raise ValueError(
          f'`num_byzantine` must be {named}, as many as task {task.name}'
          f' names, found {number}.'
      )
    return task
  held_out = holdout.choose(
      task.num_clients, num_held_out, seed, task.client_keys
  )
  who = ~np.isin(np.arange(task.num_clients), held_out)
  check(number, int(who.sum()))
  who[who] = drawn(who.sum(), number, seed)
  return dataclasses.replace(task, byzantine=who)


def drawn(num_clients: int, number: int, seed: int) -> np.ndarray:
  """Returns bool[num_clients] with `number` of them True, drawn by the seed."""
  order = partition.generator(seed, _USE).permutation(num_clients)
  return np.isin(np.arange(num_clients), order[:number])
