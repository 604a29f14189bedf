"""Scores how well a method recovers the true clusters of its clients.

The method's grouping is a router per client, float[N, C] (from `evaluate`:
FLoRAL, ensembles, FedEM, IFCA), or mixing weights, float[N, N], or the
assignment of clients to models, int[N] (PERM). Learned cluster numbers are
arbitrary, so both scores ignore them.
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
    accuracy: Share of correctly assigned clients under the best one-to-one
      matching of predicted to true clusters.
    nmi: Normalized mutual information.
  """

  accuracy: float
  nmi: float


class Load(NamedTuple):
  """How clients use adaptors (or models); needs no true clusters.

  If C is the number of clusters and two clusters share an adaptor, another one
  is unused: fewer than C are used, and one has twice the load.

  Attributes:
    used: Number of adaptors (models) that have the largest weight of a client.
    largest: The largest mean weight, 1 / C if all are used equally.
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
  """Returns the largest overlap of two true clusters, int[N], in adaptors.

    max_{a != b} sum_c min(m_ac, m_bc),   m_a = mean of pi over cluster a

  0 if every adaptor serves one cluster, 1 if two clusters have the same mean
  router, float[N, C]; 0 with one cluster.
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
  together = sklearn_metrics.cluster.contingency_matrix(predicted, groups)
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

  Average linkage of mixing weights, float[N, N], cut into at most
  `num_clusters`; clients are close if they give each other large weights.
  """
  # Linkage needs symmetric distances; mixing weights are not symmetric.
  affinity = mixing + mixing.T
  apart = affinity.max() - affinity
  # A client is at distance 0 from itself for any weight on itself.
  np.fill_diagonal(apart, 0)
  tree = hierarchy.linkage(
      distance.squareform(apart, checks=False), 'average'
  )
  return hierarchy.fcluster(tree, num_clusters, 'maxclust')


def dense_mixing(mixing: Any, num_clients: int) -> np.ndarray:
  """Returns mixing weights as float32[N, N].

  `mixing` is [N, N], or `<columns, values>` [N, k] with the largest of each
  row.
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
  """Returns the clients sorted by group, and the starts of new groups.

  Clients keep their order if `groups`, int[N], are None, unknown (-1) or those
  of another number of clients.
  """
  if groups is None or np.any(groups < 0) or len(groups) != num_clients:
    return np.arange(num_clients), []
  order = np.argsort(groups, kind='stable')
  return order, (np.flatnonzero(np.diff(groups[order])) + 1).tolist()


def score(
    groups: np.ndarray, router: Optional[np.ndarray] = None,
    mixing: Optional[Any] = None,
) -> Optional[Recovery]:
  """Returns how well a router, or else mixing weights, recover `groups`.

  The true clusters are int[N], a router float[N, C], mixing weights as in
  `dense_mixing`. None without both, or if there is nothing to choose (C = 0,
  one client).
  """
  groups = np.asarray(groups)
  if router is not None:
    router = np.asarray(router)
    return recovery(of_router(router), groups) if router.shape[1] else None
  if mixing is None or len(groups) < 2:
    return None
  dense = dense_mixing(mixing, len(groups))
  return recovery(of_mixing(dense, len(np.unique(groups))), groups)
