"""Partitioners: functions that decide which client gets which examples.

Each is a function `Given -> (indices, groups, transforms)`: indices a list of N
sorted int64 arrays, groups int32[N] (the true cluster of each client, -1
unknown), transforms a list of functions `(x, y) -> (x, y)` per client, or None.
Except `by_client` on a sample of the clients, every example goes to exactly one
client. `data/partition.py` uses them.
"""

import dataclasses
from typing import Any, Callable, NamedTuple, Optional, Sequence

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.config import registry
from tff_pers.data import errors


class Given(NamedTuple):
  """What a partitioner takes.

  Attributes:
    labels: int[n]; float[n] for regression.
    num_clients: N.
    rng: Generator of all draws.
    options: Its options.
    clients: The natural client of each example, or None.
  """

  labels: np.ndarray
  num_clients: int
  rng: np.random.Generator
  options: Any
  clients: Optional[np.ndarray]


@dataclasses.dataclass(frozen=True)
class Partitioner:
  """A registered partitioner.

  Attributes:
    assign: The function.
    options: Its options with their defaults.
    summary: One line for `--help`.
    knows_groups: `(options) -> bool`: whether it determines the group of every
      client.
    deals_test: Whether a given test set is partitioned among the clients like
      the training set, because it cannot be shared by all of them.
  """

  assign: Callable[..., Any]
  options: hp.Options
  summary: str
  knows_groups: Callable[[Any], bool]
  deals_test: bool = False


PARTITIONERS: registry.Registry[Partitioner] = registry.Registry('partition')


def register(
    name: str, options: hp.Options, summary: str, *,
    knows_groups: Callable[[Any], bool] = lambda options: False,
    deals_test: bool = False,
) -> Any:
  """Returns a decorator that registers a `Partitioner` for `--partition`."""
  return PARTITIONERS.register(
      name,
      lambda assign: Partitioner(
          assign, options, summary, knows_groups, deals_test
      ),
  )


def always(options: hp.Options) -> bool:
  """Returns True, whatever the options."""
  del options
  return True


@dataclasses.dataclass(frozen=True)
class ShardsOptions(hp.Options):
  """Options of `shards`."""

  classes: int = hp.field(2, 'Classes per client.', minimum=1)
  order: str = hp.field(
      'sorted',
      'sorted: client c gets the label-sorted slices c, c+N, ...; random: any.',
      choices=('sorted', 'random'),
  )


@dataclasses.dataclass(frozen=True)
class DirichletOptions(hp.Options):
  """Options of `dirichlet`."""

  alpha: float = hp.field(0.5, 'Concentration; small is unequal.', above=0.0)
  min: int = hp.field(2, 'Smallest number of examples of a client.', minimum=0)


@register('iid', hp.Options(), 'equal random parts', knows_groups=always)
def iid(given: Given) -> Any:
  """A random permutation in equal parts; all clients are one group."""
  return equal_parts(given), np.zeros(given.num_clients), None


@register('by_client', hp.Options(), 'the natural clients')
def by_client(given: Given) -> Any:
  """The natural clients in sorted order, or a random `num_clients` of them.

  Raises:
    DataError: If the data name no clients, or fewer than `num_clients`.
  """
  labels, num_clients, rng, _, clients = given
  if clients is None:
    raise errors.DataError(
        '`partition` must not be by_client because these data name no clients.'
    )
  if len(clients) != len(labels):
    raise errors.DataError(
        f'`clients` must have one entry per example ({len(labels)}), found'
        f' {len(clients)}.'
    )
  names, owner = np.unique(clients, return_inverse=True)
  if num_clients > len(names):
    raise errors.DataError(
        f'`num_clients` must be <= the {len(names)} clients in the data, found'
        f' {num_clients}.'
    )
  # Names are sorted before the seeded sample is drawn, so that it does not
  # depend on the order of rows in a file.
  chosen = np.sort(rng.permutation(len(names))[:num_clients])
  by_owner = np.argsort(owner, kind='stable')
  ends = np.cumsum(np.bincount(owner))
  indices = [by_owner[ends[c - 1] if c else 0:ends[c]] for c in chosen]
  return indices, _unknown(num_clients), None


@register(
    'shards', ShardsOptions(), 'label-sorted slices, k classes per client',
    knows_groups=lambda options: options.order == 'sorted',
)
def shards(given: Given) -> Any:
  """Label-sorted slices, `classes` per client.

  Each class is cut into the same number of slices (one more for the largest
  classes if that is not even). `sorted`: client c gets the slices c, c+N, ...,
  which have different classes, and clients with the same classes are a group.
  `random`: any `classes` slices, so at most that many classes.

  Raises:
    DataError: If there are fewer classes than a client gets, or a class has too
      few examples for its slices.
  """
  labels, num_clients, rng, options, _ = given
  counts = class_counts(labels, 'shards')
  present = np.flatnonzero(counts)
  num_slices = num_clients * options.classes
  if options.classes > len(present):
    raise errors.DataError(
        f'`classes` must be <= the {len(present)} classes of the data, found'
        f' {options.classes} in partition shards.'
    )
  pieces = []
  for label, many in zip(present, _shares(counts[present], num_slices)):
    rows = rng.permutation(np.flatnonzero(labels == label))
    if len(rows) < many or many == 0:
      raise errors.DataError(
          f'Class {label} must fill {max(many, 1)} slice(s) of partition shards'
          f' ({num_clients} clients of {options.classes}), found {len(rows)}'
          f' examples for {many}.'
      )
    pieces.extend(np.array_split(rows, many))
  # A class has at most num_clients slices (classes <= classes present), which
  # are adjacent in `pieces`. So the slices c, c + N, ... of one client have
  # different classes.
  order = np.arange(num_slices)
  if options.order == 'random':
    order = rng.permutation(num_slices)
  indices = [
      np.sort(np.concatenate([pieces[s] for s in order[c::num_clients]]))
      for c in range(num_clients)
  ]
  if options.order == 'random':
    return indices, _unknown(num_clients), None
  # One number per set of classes, by order of first appearance.
  numbers: dict[tuple[int, ...], int] = {}
  sets = [tuple(np.unique(labels[rows])) for rows in indices]
  groups = np.array([numbers.setdefault(s, len(numbers)) for s in sets])
  return indices, groups, None


@register(
    'one_class', hp.Options(), 'one class per client', knows_groups=always
)
def one_class(given: Given) -> Any:
  """One class per client; the clients of a class are a group.

  Raises:
    DataError: If there are fewer clients than classes, or the labels are not
      classes.
  """
  labels, num_clients, rng, *_ = given
  counts = class_counts(labels, 'one_class')
  present = np.flatnonzero(counts)
  if num_clients < len(present):
    raise errors.DataError(
        f'`num_clients` must be >= the {len(present)} classes of the data for'
        f' partition one_class, found {num_clients}.'
    )
  # Consecutive blocks whose sizes differ by at most one; none is empty, since
  # there are at least as many clients as classes.
  groups = np.arange(num_clients) * len(present) // num_clients
  indices: list[np.ndarray] = []
  for group, label in enumerate(present):
    rows = rng.permutation(np.flatnonzero(labels == label))
    parts = np.array_split(rows, np.count_nonzero(groups == group))
    indices.extend(np.sort(part) for part in parts)
  return indices, groups, None


_DIRICHLET_DRAWS = 1000


@register('dirichlet', DirichletOptions(), 'unequal shares of every class')
def dirichlet(given: Given) -> Any:
  """Each class is divided in proportions ~ Dirichlet(alpha) over clients.

  This is repeated until every client has at least `min` examples. A client that
  already has its equal share n/N gets nothing of the next class (otherwise,
  small alpha would practically never satisfy `min`).

  Raises:
    DataError: If `min` examples per client are more than exist, or were not
      reached in 1000 draws.
  """
  labels, num_clients, rng, options, _ = given
  counts = class_counts(labels, 'dirichlet')
  if options.min * num_clients > len(labels):
    raise errors.DataError(
        f'`min` must be <= {len(labels) // num_clients} for {len(labels)}'
        f' examples over {num_clients} clients, found {options.min} in'
        ' partition dirichlet.'
    )
  rows_of = [
      rng.permutation(np.flatnonzero(labels == c)) for c in range(len(counts))
  ]
  for _ in range(_DIRICHLET_DRAWS):
    parts = _dirichlet_draw(rows_of, num_clients, options.alpha, rng)
    indices = [np.sort(np.concatenate(part)) for part in zip(*parts)]
    if min(len(rows) for rows in indices) >= options.min:
      return indices, _unknown(num_clients), None
  raise errors.DataError(
      f'`min` must be reached within {_DIRICHLET_DRAWS} draws of partition'
      f' dirichlet[alpha={options.alpha}] over {num_clients} clients, found'
      f' none with {options.min} examples each. Tip: raise alpha or lower min.'
  )


def equal_parts(given: Given) -> Sequence[np.ndarray]:
  """Returns a random permutation of all rows in equal parts, each sorted."""
  order = given.rng.permutation(len(given.labels))
  return [np.sort(part) for part in np.array_split(order, given.num_clients)]


def _unknown(num_clients: int) -> np.ndarray:
  return np.full(num_clients, -1)


def class_counts(labels: np.ndarray, name: str) -> np.ndarray:
  """Returns the examples of each class 0..C-1.

  Raises:
    DataError: If the labels are not integers.
  """
  if not np.issubdtype(labels.dtype, np.integer):
    raise errors.DataError(
        '`partition` must be iid, by_client or rotated_clusters on regression'
        f' data, found {name}.'
    )
  return np.bincount(labels)


def _shares(counts: np.ndarray, total: int) -> np.ndarray:
  """Returns `total` slices divided equally, the rest to the largest."""
  shares = np.full(len(counts), total // len(counts))
  largest = np.argsort(-counts, kind='stable')[:total % len(counts)]
  shares[largest] += 1
  return shares


def _dirichlet_draw(rows_of, num_clients: int, alpha: float, rng):
  """Returns the rows of each class, cut into pieces for the clients."""
  share = sum(map(len, rows_of)) / num_clients
  sizes = np.zeros(num_clients, np.int64)
  parts = []
  for rows in rows_of:
    proportions = rng.dirichlet(np.full(num_clients, alpha))
    proportions = np.where(sizes < share, proportions, 0.0)
    total = proportions.sum()
    # The total is 0 if all draws underflow (tiny alpha), or if all mass is on
    # clients that are full. Then all others share equally.
    proportions = proportions / total if total > 0 else (
        (sizes < share) / max(np.count_nonzero(sizes < share), 1)
    )
    # Cumulated shares are rounded, not the shares, so that the sizes add up to
    # all rows.
    ends = np.round(np.cumsum(proportions)[:-1] * len(rows)).astype(np.int64)
    pieces = np.split(rows, ends)
    sizes += [len(piece) for piece in pieces]
    parts.append(pieces)
  return parts
