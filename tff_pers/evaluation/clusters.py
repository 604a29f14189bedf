"""How well a method's view of its clients recovers the true clusters.

A view is a router per client, float[N, C] (what `evaluate` reports: FLoRAL,
ensembles, FedEM, IFCA), or mixing weights, float[N, N], or the assignment of
clients to models, int[N] (PERM). Learned numbers of clusters are arbitrary, so
both scores ignore them.
"""

import itertools
from typing import Any, Mapping, NamedTuple, Optional

import numpy as np
from scipy import optimize
from scipy.cluster import hierarchy
from scipy.spatial import distance
from sklearn import metrics as sklearn_metrics


class Recovery(NamedTuple):
  """Scores of predicted clusters, both in [0, 1].

  Attributes:
    accuracy: Share of clients named rightly under the best one-to-one matching
      of predicted to true clusters.
    nmi: Normalized mutual information.
  """

  accuracy: float
  nmi: float


class Load(NamedTuple):
  """How clients use what they route to; it needs no true clusters.

  If C is the number of clusters and two clusters share an adaptor, another one
  is left over: fewer than C are used, and one has the load of two.

  Attributes:
    used: How many adaptors (models) have the largest weight of some client.
    largest: The largest mean weight, 1 / C if all are used alike.
  """

  used: int
  largest: float


def load(router: np.ndarray) -> Load:
  """Returns how clients use adaptors; router is float[N, C], C >= 1."""
  router = np.asarray(router)
  return Load(
      used=len(np.unique(of_router(router))),
      largest=float(router.mean(axis=0).max()),
  )


def overlap(router: np.ndarray, groups: np.ndarray) -> float:
  """Returns how much two true clusters share adaptors, at most.

    max_{a != b} sum_c min(m_ac, m_bc),   m_a = mean of pi over cluster a

  0 if every adaptor serves one cluster, 1 if two clusters have the same mean
  router; 0 with one cluster.

  Args:
    router: float[N, C].
    groups: int[N], the true clusters.
  """
  router, groups = np.asarray(router), np.asarray(groups)
  means = [router[groups == g].mean(axis=0) for g in np.unique(groups)]
  return max(
      (float(np.minimum(a, b).sum())
       for a, b in itertools.combinations(means, 2)),
      default=0.0,
  )


def recovery(predicted: np.ndarray, groups: np.ndarray) -> Recovery:
  """Scores predicted clusters, int[N], against the true ones, int[N]."""
  _, predicted = np.unique(predicted, return_inverse=True)
  _, groups = np.unique(groups, return_inverse=True)
  together = np.zeros([predicted.max() + 1, groups.max() + 1])
  # `together[...] += 1` would count pairs that occur several times only once.
  np.add.at(together, (predicted, groups), 1)
  matched = together[optimize.linear_sum_assignment(together, maximize=True)]
  return Recovery(
      accuracy=float(matched.sum() / len(groups)),
      nmi=float(
          sklearn_metrics.normalized_mutual_info_score(groups, predicted)
      ),
  )


def of_router(router: np.ndarray) -> np.ndarray:
  """Returns each client's largest weight, int[N]; router is float[N, C]."""
  return np.argmax(router, axis=1)


def of_mixing(mixing: Any, num_clusters: int) -> np.ndarray:
  """Returns clusters of clients that learn from each other, int[N].

  Average linkage, cut into `num_clusters`; clients are near if they give each
  other much weight.

  Args:
    mixing: float[N, N], as `dense_mixing` returns it.
    num_clusters: At most so many clusters.
  """
  # Linkage needs symmetric distances; mixing weights are not symmetric.
  affinity = mixing + mixing.T
  apart = affinity.max() - affinity
  # A client is at distance 0 from itself, whatever its weight on itself.
  np.fill_diagonal(apart, 0)
  tree = hierarchy.linkage(
      distance.squareform(apart, checks=False), 'average'
  )
  return hierarchy.fcluster(tree, num_clusters, 'maxclust')


def dense_mixing(mixing: Any, num_clients: int) -> np.ndarray:
  """Returns mixing weights as float32[N, N], also those of sparse rows.

  Args:
    mixing: [N, N], or `<columns, values>` [N, k] with the largest of each row.
    num_clients: N.
  """
  if not isinstance(mixing, Mapping):
    return np.asarray(mixing)
  table = np.zeros([num_clients, num_clients], np.float32)
  rows = np.arange(num_clients)[:, None]
  np.add.at(table, (rows, mixing['columns']), mixing['values'])
  return table


def group_order(
    groups: Optional[np.ndarray], num_clients: int
) -> tuple[np.ndarray, list[int]]:
  """Returns the clients sorted by group, and where a new group begins.

  Args:
    groups: int[N], -1 unknown, or None: then the clients stay as they are.
    num_clients: N; of other clients the groups say nothing.
  """
  if groups is None or np.any(groups < 0) or len(groups) != num_clients:
    return np.arange(num_clients), []
  order = np.argsort(groups, kind='stable')
  return order, (np.flatnonzero(np.diff(groups[order])) + 1).tolist()


def score(
    groups: np.ndarray, router: Optional[np.ndarray] = None,
    mixing: Optional[Any] = None,
) -> Optional[Recovery]:
  """Returns how well a router or else mixing weights recover `groups`.

  Args:
    groups: int[N], the true clusters.
    router: float[N, C], or None.
    mixing: See `dense_mixing`, or None.

  Returns:
    None if there is neither, or nothing to choose from (C = 0, one client).
  """
  groups = np.asarray(groups)
  if router is not None:
    router = np.asarray(router)
    return recovery(of_router(router), groups) if router.shape[1] else None
  if mixing is None or len(groups) < 2:
    return None
  dense = dense_mixing(mixing, len(groups))
  return recovery(of_mixing(dense, len(np.unique(groups))), groups)
