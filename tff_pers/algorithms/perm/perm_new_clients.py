"""Computes what PERM deploys at clients that never trained.

A new client n sends its gradient at the shared w of the last comparison. The
server solves Eq. (2) for the row that n would have if it had trained, without
its own weight. Model w_j stands for the mixture alpha_j of losses, so the new
client gets the combination of models whose mixtures are nearest to its own (the
models combined by alpha_n itself would be mixed twice):

    G_n <- grad f_n(w);   d_nj <- ||G_n - G_j||^2;   alpha_n <- Eq. (2)
    alpha_n <- alpha_n(j), j != n, normalized
    beta <- argmin over the simplex of ||sum_j beta_j alpha_j - alpha_n||^2
    w_n <- sum_j beta_j w_j

from which it trains for `adapt_epochs` passes over its own examples. With
models of clusters it starts from the nearest one (see `perm_clusters`). This is
ours; the paper has no new clients.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_clusters
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.client_works import client_work
from tff_pers.composition import dispatch as dispatch_lib
from tff_pers.composition import own_next
from tff_pers.core import round_metrics
from tff_pers.numerics import mixing_rows
from tff_pers.numerics import simplex
from tff_pers import tff

_MOST_MODELS = 100  # In a combination: those of largest weight.


def build_dispatch(
    client: perm_client.Client, state_type: tff.StructType, num_new_clients: int
) -> tff.Computation:
  """Returns (S@SERVER, {D}@CLIENTS -> {W}@CLIENTS), what a client deploys.

  A client that trained gets its model; a new one, with index N or more, its
  mixture, or w if no gradients have been compared yet.
  """
  n = client.num_clients
  broadcast = dispatch_lib.build_broadcast(
      lambda state: dict(weights=state['anchor']), state_type
  )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client.data_type, tff.CLIENTS),
  )
  def dispatch(state, data):
    index = own_next.computed(lambda data: data['index'], data)
    message = broadcast(state, index)
    shown = own_next.computed(
        lambda message, data: _show(client, message, data), message, data
    )
    found = own_next.computed(
        lambda state, rows: _mixtures(client, state, rows), state,
        keyed.collect(shown, max(num_new_clients, 1)),
    )
    return keyed.fetch(
        found, index, lambda found, index: _chosen(found, index, n),
        n + num_new_clients,
    )

  return dispatch


def deployed(
    client: perm_client.Client, weights: Any, data: Mapping[str, Any]
) -> Any:
  """Returns what a client deploys; a new one adapts for `adapt_epochs`."""
  return tf.cond(
      client_work.is_unseen(data['index'], client.num_clients),
      lambda: client.adapted(
          weights, data, num_epochs=client.hyperparameters.adapt_epochs
      ),
      lambda: client.deployed(weights, data),
  )


def _show(client, message, data):
  """Returns 0 or 1 rows, see `Client.table_row`, for new clients only."""
  is_new = tf.logical_and(
      client_work.is_unseen(data['index'], client.num_clients),
      data['num_examples'] > 0,
  )
  found = client.gradient_if(is_new, message, data)
  is_sent = tf.logical_and(
      is_new, round_metrics.all_finite((found.gradient, found.variance))
  )
  return client.table_row(found, message, data, is_sent)


def _mixtures(client, state, rows):
  """Returns the mixtures of M new clients, a table [M, ...]."""
  def mixed():
    if client.hyperparameters.models:
      return perm_clusters.models_of_new_clients(state, rows)
    problem = perm_mixing.Problem(client, state['table'], state['lambda_'])
    beta = combinations(state['mixing'], problem.rows_of_new_clients(rows))
    return tf.nest.map_structure(
        lambda table: tf.tensordot(tf.cast(beta, table.dtype), table, axes=1),
        state['models'],
    )

  return collections.OrderedDict(
      keys=rows['keys'],
      mixtures=tf.cond(
          tf.reduce_any(state['table']['sizes'] > 0), mixed,
          lambda: own_rows.tile(state['weights'], tf.size(rows['keys'])),
      ),
      models=state['models'], assignment=state['assignment'],
      weights=state['weights'],
  )


def combinations(mixing: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
  """Returns beta with sum_j beta_j alpha_j near each target, float64[M, N].

  Only the clients of largest weight in the target are used, at most 100.
  """
  rows = mixing_rows.MixingRows(mixing)
  n = rows.num_clients

  def combination(target):
    start, clients = tf.math.top_k(target, min(n, _MOST_MODELS))
    beta = simplex.nearest_combination(
        tf.cast(rows.dense(clients), tf.float64), target,
        start / tf.reduce_sum(start),
    )
    return tf.scatter_nd(clients[:, None], beta, [n])

  return tf.map_fn(combination, targets)


def _chosen(found, client, num_clients: int):
  """Returns what client `client` deploys."""
  place = tf.cast(tf.where(tf.equal(found['keys'], client))[:, 0], tf.int32)

  def mixture():
    return tf.nest.map_structure(lambda row: row[place[0]], found['mixtures'])

  return tf.cond(
      client < num_clients, lambda: own_rows.own_row(found, client),
      # Without examples there is no mixture either.
      lambda: tf.cond(
          tf.size(place) > 0, mixture, lambda: found['weights']
      ),
  )
