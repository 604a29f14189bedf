"""How well a method's view of its clients recovers the true clusters.

A view is a router per client, float[N, C] (what `evaluate` reports: FLoRAL,
ensembles, FedEM, IFCA), or mixing weights, float[N, N] (PERM). Learned numbers
of clusters are arbitrary, so both scores ignore them.
"""

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


def recovery(predicted, groups) -> Recovery:
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


def of_router(router) -> np.ndarray:
  """Returns each client's largest weight, int[N]; router is float[N, C]."""
  return np.argmax(router, axis=1)


def of_mixing(mixing, num_clusters: int) -> np.ndarray:
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


def dense_mixing(mixing, num_clients: int) -> np.ndarray:
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


def score(
    groups, router=None, mixing: Optional[Any] = None
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
