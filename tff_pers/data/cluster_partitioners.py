"""Partitioners whose clients form clusters with conflicting examples.

Same form as in `data/partitioners.py`: IID parts, and one transform per client.
Clusters are consecutive blocks of clients, numbered 0, 1, ...
"""

import dataclasses
from typing import Any, Callable

import numpy as np

from tff_pers import hyperparameters as hp
from tff_pers.data import errors
from tff_pers.data import partitioners


@dataclasses.dataclass(frozen=True)
class ClusterOptions(partitioners.Options):
  """Options of the partitioners that make clusters."""

  clusters: int = hp.field(4, 'Number of clusters.', minimum=1)


def rotated_clusters(labels, num_clients, rng, options, clients):
  """IID clients; the images of cluster g are turned by g quarter turns."""
  del clients  # Unused.
  if options.clusters > 4:
    raise errors.DataError(
        '`clusters` must be <= 4, the number of quarter turns, found'
        f' {options.clusters} in partition rotated_clusters.'
    )
  groups = _blocks(num_clients, options.clusters)
  transforms = [_rotation(int(turns)) for turns in groups]
  return partitioners.equal_parts(labels, num_clients, rng), groups, transforms


def label_shift_clusters(labels, num_clients, rng, options, clients):
  """IID clients; cluster g calls label y by the name (y + g) mod C."""
  del clients  # Unused.
  counts = partitioners.class_counts(labels, 'label_shift_clusters')
  if options.clusters > len(counts):
    raise errors.DataError(
        f'`clusters` must be <= the {len(counts)} classes of the data, found'
        f' {options.clusters} in partition label_shift_clusters.'
    )
  groups = _blocks(num_clients, options.clusters)
  transforms = [_label_shift(int(shift), len(counts)) for shift in groups]
  return partitioners.equal_parts(labels, num_clients, rng), groups, transforms


def _blocks(num_clients: int, clusters: int) -> np.ndarray:
  """Returns the cluster of each client: consecutive blocks of equal size."""
  if clusters > num_clients:
    raise errors.DataError(
        f'`clusters` must be <= the {num_clients} clients, found {clusters}.'
    )
  return np.arange(num_clients) * clusters // num_clients


def _rotation(turns: int) -> Callable[[Any, Any], Any]:
  """Returns the transform by `turns` quarter turns of images [n, h, w, ...]."""
  def rotate(x, y):
    if x.ndim < 3 or x.shape[1] != x.shape[2]:
      raise errors.DataError(
          '`x` must hold square images [n, h, h, ...] for partition'
          f' rotated_clusters, found shape {x.shape}.'
      )
    return np.ascontiguousarray(np.rot90(x, turns, axes=(1, 2))), y
  return rotate


def _label_shift(shift: int, num_classes: int) -> Callable[[Any, Any], Any]:
  def shift_labels(x, y):
    return x, ((y + shift) % num_classes).astype(y.dtype)
  return shift_labels
