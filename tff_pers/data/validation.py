"""A validation part for any task, cut out of its training data.

Choices (hyperparameters, methods, when to stop) are made on the validation
part, so that the test data stay untouched. It comes out of the training share:
the test data are the same with and without it.
"""

import dataclasses
from typing import Any, Sequence

import numpy as np

from tff_pers.data import client_data
from tff_pers.data import errors
from tff_pers.data import partition
from tff_pers.data import task as task_lib

# No partition, split or generated task uses this number with the data seed, so
# that their draws and those of the validation rows are independent.
_VALIDATION = 100


def hold_out(
    task: task_lib.Task, fraction: float, seed: int
) -> task_lib.Task:
  """Returns `task` with a random share of its training rows as validation.

  Counts are rounded to the nearest, and a client keeps at least one row to
  train on, so a client with few rows may have none to validate on. Test data
  are the very same objects.

  Args:
    task: Any task without a validation part.
    fraction: Share of each client's training rows, in [0, 1); 0 returns `task`
      itself.
    seed: The same seed gives the same rows.

  Raises:
    ValueError: If `fraction` is out of range.
    errors.DataError: If no client gets a row to validate on.
  """
  check_fraction(fraction)
  if not fraction:
    return task
  rng = partition.generator(seed, _VALIDATION)
  train, validation = [], []
  for data in task.train:
    size = int(data['num_examples'])
    num_held = min(round(fraction * size), max(size - 1, 0))
    held, kept = np.split(rng.permutation(size), [num_held])
    train.append(_rows(data, np.sort(kept)))
    validation.append(_rows(data, np.sort(held)))
  if not any(int(data['num_examples']) for data in validation):
    largest = max(int(data['num_examples']) for data in task.train)
    raise errors.DataError(
        '`validation_fraction` must leave at least one client of task'
        f' {task.name} an example to validate on, found {fraction} of at most'
        f' {largest} training examples per client.'
    )
  return dataclasses.replace(
      task, train=train, validation=validation,
      class_counts=_class_counts(task, train),
  )


def check_fraction(fraction: float) -> None:
  """Raises a ValueError if the share to validate on is out of range."""
  if not 0.0 <= fraction < 1.0:
    raise ValueError(
        f'`validation_fraction` must be in [0, 1), found {fraction}.'
    )


def _rows(data, rows: np.ndarray):
  """Returns the dense data of some rows of a client."""
  examples = data['examples']
  return client_data.dense(
      int(data['index']), examples['x'][rows], examples['y'][rows]
  )


def _class_counts(task: task_lib.Task, train: Sequence[Any]):
  """Recounts the classes in what is left; None if they were not counted."""
  if task.class_counts is None:
    return None
  return partition.class_counts(
      [data['examples']['y'] for data in train], task.num_classes
  )
