"""Models of clusters instead of clients: PERM with C models at the server.

Clients with similar gradients at the shared w form a cluster, by k-means (see
`numerics.kmeans`). The mixture of its model is that of Eq. (2) with the
cluster's center instead of a client's gradient,

    a <- argmin sum_j n_j ||G_j - mu_a(j)||^2,   mu_c = mean of its G_j by n_j
    alpha_c <- solution of Eq. (2) with d_cj = ||mu_c - G_j||^2

and client i deploys model a(i), or w while its gradient is unknown. So the
server stores only C models and rows, and a model is visited in every round, not
in m of N. K-means starts from the last assignment, so that models keep their
clusters; a client that becomes known joins the nearest one. A cluster without
clients has a row of zeros, and its model is not hosted.

This is ours; the paper only mentions clusters as a way to save memory.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.core import random
from tff_pers.numerics import distances
from tff_pers.numerics import kmeans
from tff_pers.numerics import mixing as mixing_lib

_CLUSTERS_USE = -6  # Separates these draws from others.


def unassigned(setting: setting_lib.PermSetting) -> tf.Tensor:
  """Returns the initial value of the server state's field `assignment`.

  int32[N], the model of each client, -1: none yet; () if each client has its
  own.
  """
  if not setting.hyperparameters.models:
    return ()
  return tf.fill([setting.num_clients], -1)


def solve(
    problem: perm_mixing.Problem, old: Mapping[str, Any]
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (rows of A float32[C, N], assignment int32[N]).

  Clients that are not in the table keep their models. `old` is the previous
  `<round, seed, mixing, assignment>`.
  """
  table = problem.table
  assignment, apart = kmeans.assign(
      distances.center(table['fingerprints'], table['sizes'] > 0),
      table['sizes'], old['assignment'], problem.setting.hyperparameters.models,
      random.key(old['seed'], _CLUSTERS_USE, old['round']),
  )
  is_used = tf.math.is_finite(apart[:, :1])
  alpha = problem.rows_of_centers(tf.where(is_used, apart, 0), old['mixing'])
  return (
      tf.where(is_used, alpha, 0),
      tf.where(table['sizes'] > 0, assignment, old['assignment']),
  )


def models_of_new_clients(state: Any, gradients: Any) -> Any:
  """Returns the models of the clusters nearest to M gradients, [M, ...]."""
  table = state['table']
  n = table['sizes'].shape[0]
  vectors = distances.center(
      tf.concat([table['fingerprints'], gradients['fingerprints']], axis=0),
      tf.concat([table['sizes'], gradients['sizes']], axis=0) > 0,
  )
  points, is_used = kmeans.centers(
      vectors[:n], table['sizes'], state['assignment'],
      tf.nest.flatten(state['models'])[0].shape[0],
  )
  apart = distances.to_points(points, vectors[n:])
  nearest = tf.argmin(
      tf.where(is_used[:, None], apart, float('inf')), axis=0
  )
  return tf.nest.map_structure(
      lambda models: tf.gather(models, nearest), state['models']
  )


def measurements(
    mixing: tf.Tensor, assignment: tf.Tensor, lambda_: tf.Tensor
) -> dict[str, Any]:
  """Returns metrics of A: means over the rows of visited models."""
  is_visited = tf.reduce_any(mixing > 0, axis=1)
  rows = tf.boolean_mask(mixing, is_visited)
  count = tf.reduce_sum(tf.cast(rows > 0, tf.float32), axis=1)
  known = tf.boolean_mask(assignment, assignment >= 0)
  return collections.OrderedDict(
      weights_entropy=tf.cast(
          mixing_lib.entropy(rows, mixing.shape[1]), tf.float32
      ),
      weights_nonzeros=tf.reduce_mean(count),
      models_used=tf.cast(tf.size(tf.unique(known)[0]), tf.float32),
      **{'lambda': lambda_},
  )
