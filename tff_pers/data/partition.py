"""Partitions one data set into clients, and summarizes the result."""

import dataclasses
from typing import Any, Callable, Optional, Sequence

import numpy as np
import tensorflow as tf

from tff_pers.data import brackets
from tff_pers.data import cluster_partitioners  # pylint: disable=unused-import
from tff_pers.data import errors
from tff_pers.data import pachinko  # pylint: disable=unused-import
from tff_pers.data import partitioners


@dataclasses.dataclass(frozen=True)
class Partition:
  """The examples of each client, and how they are transformed there.

  Attributes:
    name: Its text as given: `dirichlet[alpha=0.5]`.
    indices: Sorted row numbers of each client, int64.
    groups: int32[N], the true cluster of each client, -1 unknown.
    transforms: A function `(x, y) -> (x, y)` per client, or None: unchanged.
  """

  name: str
  indices: Sequence[np.ndarray]
  groups: np.ndarray
  transforms: Optional[Sequence[Callable[..., Any]]] = None

  @property
  def deals_test(self) -> bool:
    """See `partitioners.Partitioner`."""
    return get(brackets.parse(self.name)[0]).deals_test

  def clients(
      self, x: Any, y: Any,
      indices: Optional[Sequence[np.ndarray]] = None,
  ) -> list[tuple[Any, Any]]:
    """Returns (x, y) of every client, after its transform.

    x and y may be structures of arrays. `indices` are rows of each client
    instead of `self.indices`.
    """
    rows_of = self.indices if indices is None else indices
    parts = [
        tf.nest.map_structure(lambda array, own=rows: array[own], (x, y))
        for rows in rows_of
    ]
    if self.transforms is None:
      return parts
    return [move(*part) for move, part in zip(self.transforms, parts)]


def names() -> list[str]:
  """Returns the names of all partitioners, sorted."""
  return partitioners.PARTITIONERS.names()


def get(name: str) -> partitioners.Partitioner:
  """Returns the partitioner of that name; see `Registry.get`."""
  return partitioners.PARTITIONERS.get(name)


def knows_groups(text: str) -> bool:
  """Returns whether the partition `text` determines the group of a client.

  Raises:
    ValueError: If `text` is not a known partition with known options.
  """
  partitioner, options = _parse(text)
  return partitioner.knows_groups(options)


def _parse(text: str):
  """Returns the partitioner and the options that `text` specifies."""
  name, given = brackets.parse(text)
  partitioner = get(name)
  return partitioner, brackets.fill(
      partitioner.options, given, f'partition {name}'
  )


def build(
    text: str, labels: np.ndarray, num_clients: int, seed: int,
    clients: Optional[np.ndarray] = None,
) -> Partition:
  """Returns the partition that `text` specifies.

  The text is a name and options, e.g. `shards[classes=2,order=random]`, and the
  same seed gives the same partition. Labels are int[n] classes 0..C-1, or
  float[n] for regression. With `by_client`, `clients` are the natural clients
  of the examples, and `num_clients` 0 takes all.

  Raises:
    ValueError: If `text` is not a known partition with known options.
    errors.DataError: If the data cannot be partitioned in this way.
  """
  partitioner, options = _parse(text)
  labels = np.asarray(labels)
  takes_all = num_clients == 0 and partitioner is get('by_client')
  if takes_all and clients is not None:
    num_clients = len(np.unique(clients))
  if num_clients < 1:
    raise ValueError(f'`num_clients` must be >= 1, found {num_clients}.')
  if num_clients > len(labels) and partitioner is not get('by_client'):
    raise ValueError(
        f'`num_clients` must be <= the {len(labels)} examples, found'
        f' {num_clients}.'
    )
  indices, groups, transforms = partitioner.assign(partitioners.Given(
      labels, num_clients, generator(seed, _PARTITION), options, clients
  ))
  return Partition(text, indices, np.asarray(groups, np.int32), transforms)


# Each use of a data seed has a number, so that no two uses share their draws:
# 0 is the partition, 1 the split, and 2 and above are what a task generates.
_PARTITION = 0


def generator(seed: int, use: int) -> np.random.Generator:
  """Returns the random generator of one use of the data seed, any int64."""
  # NumPy accepts no negative seeds; modulo 2^64 each int64 is distinct.
  return np.random.default_rng([int(seed) % 2**64, use])


def class_counts(labels: Sequence[np.ndarray], num_classes: int) -> np.ndarray:
  """Returns the examples per client and class, int64[N, num_classes].

  Raises:
    errors.DataError: If a label is not in 0..num_classes-1; names the client.
  """
  for client, y in enumerate(labels):
    if len(y) and not (0 <= y.min() and y.max() < num_classes):
      raise errors.DataError(
          f'Labels must be in 0..{num_classes - 1}, found {y.min()}..{y.max()}'
          f' at client {client}.'
      )
  rows = [np.bincount(y, minlength=num_classes) for y in labels]
  return np.array(rows, np.int64).reshape(len(rows), num_classes)


def table(
    counts: np.ndarray, groups: Optional[np.ndarray] = None, max_rows: int = 12,
    names: Optional[Sequence[Any]] = None,
    classes: Optional[Sequence[str]] = None,
) -> str:
  """Returns clients x classes as text, at most `max_rows` clients, >= 2.

  Counts are int[N, num_classes]. Longer tables keep the first and the last
  clients. Groups, int[N], are shown where known (>= 0). Without names, clients
  and classes have their positions.
  """
  num_clients, num_classes = counts.shape
  classes = classes or list(map(str, range(num_classes)))
  head = ['client', 'group', *classes, 'total']
  if groups is not None and not np.any(np.asarray(groups) >= 0):
    groups = None
  rows = [head]
  for client in _shown(num_clients, max_rows):
    if client is None:
      rows.append(['...'] * len(head))
      continue
    group = '' if groups is None else str(groups[client])
    rows.append([
        str(client if names is None else names[client]), group,
        *(str(n) if n else '.' for n in counts[client]),
        str(counts[client].sum()),
    ])
  rows.append(['all', '', *map(str, counts.sum(axis=0)), str(counts.sum())])
  if groups is None:
    rows = [[row[0], *row[2:]] for row in rows]
  widths = [max(map(len, column)) for column in zip(*rows)]
  return '\n'.join(' '.join(map(str.rjust, row, widths)) for row in rows)


def _shown(num_clients: int, max_rows: int):
  """Returns the clients to show; None stands for those omitted."""
  if num_clients <= max_rows:
    return list(range(num_clients))
  first = max_rows - max_rows // 2
  last = range(num_clients - max_rows // 2, num_clients)
  return [*range(first), None, *last]
