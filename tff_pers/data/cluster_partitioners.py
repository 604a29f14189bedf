"""Partitioners whose clients form clusters with conflicting examples.

They have the form described in `data/partitioners.py`. By default, client k is
in cluster k mod C (papers/floral.md 5.1).
"""

import dataclasses
import functools
from typing import Any

import numpy as np

from tff_pers.config import hyperparameters as hp
from tff_pers.data import errors
from tff_pers.data import partitioners


@dataclasses.dataclass(frozen=True)
class ClusterOptions(hp.Options):
  """Options of the partitioners that make clusters."""

  clusters: int = hp.field(4, 'Number of clusters C.', minimum=1)
  order: str = hp.field(
      'modulo',
      'modulo: client k is in cluster k mod C; blocks: consecutive clients.',
      choices=('modulo', 'blocks'),
  )


@dataclasses.dataclass(frozen=True)
class ClassGroupsOptions(hp.Options):
  """Options of `class_groups`."""

  groups: int = hp.field(10, 'Number of groups of classes G.', minimum=1)


@partitioners.register(
    'rotated_clusters', ClusterOptions(), 'clusters with turned images',
    knows_groups=partitioners.always, deals_test=True,
)
def rotated_clusters(given: partitioners.Given) -> Any:
  """IID clients; the images of cluster g are rotated by g quarter turns.

  Raises:
    DataError: If there are more than 4 clusters, or more than clients.
  """
  clusters = given.options.clusters
  # A fifth cluster would rotate its images like the first one, and not be a
  # separate cluster.
  if clusters > 4:
    raise errors.DataError(
        '`clusters` must be <= 4, the number of quarter turns, found'
        f' {clusters} in partition rotated_clusters.'
    )
  groups = _clusters(given)
  transforms = [functools.partial(_rotated, int(g)) for g in groups]
  return partitioners.equal_parts(given), groups, transforms


@partitioners.register(
    'label_shift_clusters', ClusterOptions(),
    'clusters that name the classes differently',
    knows_groups=partitioners.always, deals_test=True,
)
def label_shift_clusters(given: partitioners.Given) -> Any:
  """IID clients; cluster g renames label y to (y + g) mod classes.

  Raises:
    DataError: If there are more clusters than classes or clients, or the
      labels are not classes.
  """
  clusters = given.options.clusters
  counts = partitioners.class_counts(given.labels, 'label_shift_clusters')
  # Shifts repeat modulo the number of classes.
  if clusters > len(counts):
    raise errors.DataError(
        f'`clusters` must be <= the {len(counts)} classes of the data, found'
        f' {clusters} in partition label_shift_clusters.'
    )
  groups = _clusters(given)
  transforms = [
      functools.partial(_shifted, int(g), len(counts)) for g in groups
  ]
  return partitioners.equal_parts(given), groups, transforms


@partitioners.register(
    'class_groups', ClassGroupsOptions(),
    'groups of clients with their own classes',
    knows_groups=partitioners.always, deals_test=True,
)
def class_groups(given: partitioners.Given) -> Any:
  """Group g owns the classes y = g mod G, shared equally by its clients.

  Client k is in group k mod G and has only examples of that group.

  Raises:
    DataError: If there are more groups than classes or clients, or the labels
      are not classes.
  """
  labels, num_clients, rng, options, _ = given
  counts = partitioners.class_counts(labels, 'class_groups')
  if options.groups > min(len(counts), num_clients):
    raise errors.DataError(
        f'`groups` must be <= the {len(counts)} classes and the {num_clients}'
        f' clients, found {options.groups} in partition class_groups.'
    )
  groups = np.arange(num_clients) % options.groups
  indices = [None] * num_clients
  for group in range(options.groups):
    rows = rng.permutation(np.flatnonzero(labels % options.groups == group))
    members = np.flatnonzero(groups == group)
    for client, part in zip(members, np.array_split(rows, len(members))):
      indices[client] = np.sort(part)
  return indices, groups, None


def _clusters(given: partitioners.Given) -> np.ndarray:
  """Returns the cluster of each client; sizes differ by at most one."""
  num_clients, clusters = given.num_clients, given.options.clusters
  if clusters > num_clients:
    raise errors.DataError(
        f'`clusters` must be <= the {num_clients} clients, found {clusters}.'
    )
  if given.options.order == 'blocks':
    return np.arange(num_clients) * clusters // num_clients
  return np.arange(num_clients) % clusters


def _rotated(turns: int, x, y):
  """Returns images [n, h, w, ...] rotated by quarter turns, and y."""
  if x.ndim < 3 or x.shape[1] != x.shape[2]:
    raise errors.DataError(
        '`x` must hold square images [n, h, h, ...] for partition'
        f' rotated_clusters, found shape {x.shape}.'
    )
  return np.ascontiguousarray(np.rot90(x, turns, axes=(1, 2))), y


def _shifted(shift: int, num_classes: int, x, y):
  return x, ((y + shift) % num_classes).astype(y.dtype)
