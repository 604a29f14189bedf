"""Takes a validation part out of the training data of any task.

Choices (hyperparameters, methods, when to stop) are made on the validation
part, so that the test data stay untouched. It is taken from the training data:
the test data are the same with and without it.
"""

import dataclasses
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.data import client_data
from tff_pers.data import errors
from tff_pers.data import on_demand
from tff_pers.data import partition
from tff_pers.data import task as task_lib

# No partition, split or generated task uses this number with the data seed, so
# that their draws are independent of those of the validation rows.
USE = 100


def hold_out(
    task: task_lib.Task, fraction: float, seed: int
) -> task_lib.Task:
  """Returns `task` with a share of its training rows as validation.

  These are random rows by the seed, unless the task orders them. Counts are
  rounded to the nearest integer, and a client keeps at least one row to train
  on, so a client with few rows may have no validation rows. Test data are the
  very same objects, and a fraction of 0 returns `task` itself.

  Raises:
    ValueError: If `fraction` is out of range.
    errors.DataError: If no client gets a validation row.
  """
  check_fraction(fraction)
  if not fraction:
    return task
  sizes = task.sizes
  num_held = _num_held(sizes, fraction)
  if not num_held.any():
    raise errors.DataError(
        '`validation_fraction` must leave at least one client of task'
        f' {task.name} an example to validate on, found {fraction} of at most'
        f' {sizes.max(initial=0)} training examples per client.'
    )
  draws: Callable[[int], _Split]
  if task.validation_order is None:
    draws = _draws(sizes, num_held, seed)
  else:
    order = task.validation_order
    draws = lambda client: _split(order[client], num_held[client])
  train, validation = _cut(task.train, sizes, num_held, draws)
  return dataclasses.replace(
      task, train=train, validation=validation, validation_order=None,
      class_counts=_class_counts(task, train),
  )


def kept_rows(
    sizes: Sequence[int], fraction: float, seed: int
) -> list[np.ndarray]:
  """Returns the rows of each client that `hold_out` keeps, ascending."""
  if not fraction:
    return [np.arange(size) for size in sizes]
  every = np.asarray(sizes, np.int64)
  draws = _draws(every, _num_held(every, fraction), seed)
  return [draws(client).kept for client in range(len(sizes))]


def check_fraction(fraction: float) -> None:
  """Raises a ValueError if the share to validate on is out of range."""
  if not 0.0 <= fraction < 1.0:
    raise ValueError(
        f'`validation_fraction` must be in [0, 1), found {fraction}.'
    )


class _Split(NamedTuple):
  """Rows of a client, ascending."""

  kept: np.ndarray
  held: np.ndarray


def _split(order: np.ndarray, num_held: int) -> _Split:
  """Holds out the first rows of an order."""
  held, kept = np.split(order, [int(num_held)])
  return _Split(np.sort(kept), np.sort(held))


class _Draws:
  """The split of each client, drawn for one client after another.

  The generator's state depends on all earlier clients. So that any client can
  be drawn alone, its state before each client is stored.
  """

  def __init__(
      self, rng: np.random.Generator, sizes: np.ndarray, num_held: np.ndarray
  ):
    """Draws for all clients once, without reading their data.

    `sizes` and `num_held` are the rows of each client and those of them that
    are held out, int64[N].
    """
    self._sizes, self._num_held = sizes, num_held
    self._kind = type(rng.bit_generator)
    # A state has 128 bits; half of a 64-bit draw may be left for the next one.
    self._states = np.zeros([len(sizes), 4], np.uint64)
    self._increment = rng.bit_generator.state['state']['inc']
    for client, size in enumerate(sizes.tolist()):
      state = rng.bit_generator.state
      high, low = divmod(state['state']['state'], 2**64)
      self._states[client] = high, low, state['has_uint32'], state['uinteger']
      rng.permutation(size)

  def __call__(self, client: int) -> _Split:
    """Returns the split of a client."""
    high, low, has_uint32, uinteger = self._states[client].tolist()
    generator = self._kind(0)
    generator.state = dict(
        bit_generator=self._kind.__name__, has_uint32=has_uint32,
        uinteger=uinteger,
        state=dict(state=high * 2**64 + low, inc=self._increment),
    )
    order = np.random.Generator(generator).permutation(int(self._sizes[client]))
    return _split(order, self._num_held[client])


def _num_held(sizes: np.ndarray, fraction: float) -> np.ndarray:
  """Returns the number of held-out rows for clients of these sizes."""
  # Rounds halves to even, as Python does.
  return np.minimum(
      np.rint(fraction * sizes).astype(np.int64), np.maximum(sizes - 1, 0)
  )


def _draws(sizes: np.ndarray, num_held: np.ndarray, seed: int) -> _Draws:
  return _Draws(partition.generator(seed, USE), sizes, num_held)


def _cut(
    clients: Sequence[Any], sizes: np.ndarray, num_held: np.ndarray,
    draws: Callable[[int], _Split],
) -> tuple[Sequence[Any], Sequence[Any]]:
  """Returns the training and the validation data of clients.

  Of clients on demand, neither is read before it is needed.
  """
  if isinstance(clients, on_demand.OnDemand):
    kept = lambda client: _rows(clients[client], draws(client).kept)
    held = lambda client: _rows(clients[client], draws(client).held)
    return (
        on_demand.OnDemand(kept, sizes - num_held),
        on_demand.OnDemand(held, num_held),
    )
  parts: tuple[list, list] = [], []
  for client, data in enumerate(clients):
    for part, rows in zip(parts, draws(client)):
      part.append(client_data.dense(int(data['index']), *_rows(data, rows)))
  return parts


def _rows(data, rows: np.ndarray):
  """Returns x and y of some rows of a client."""
  found = tf.nest.map_structure(lambda leaf: leaf[rows], data['examples'])
  return found['x'], found['y']


def _class_counts(task: task_lib.Task, train: Sequence[Any]):
  """Recounts the classes of the remaining rows; None if not counted before.

  They are not counted either if that would read all clients.
  """
  if task.class_counts is None or isinstance(train, on_demand.OnDemand):
    return None
  return partition.class_counts(
      [data['examples']['y'] for data in train], task.num_classes
  )
