"""What PERM deploys at clients that never trained.

A new client n sends its gradient at the shared w of the last comparison. The
server solves Eq. (2) for what its row would be if it had trained, and leaves
its own weight out. Model w_j stands for the mixture alpha_j of losses, so the
new client gets the combination of models whose mixtures come nearest to its
own (the models combined by alpha_n itself would be mixed twice):

    G_n <- grad f_n(w);   d_nj <- ||G_n - G_j||^2;   alpha_n <- Eq. (2)
    alpha_n <- alpha_n(j), j != n, normalized
    beta <- argmin over the simplex of ||sum_j beta_j alpha_j - alpha_n||^2
    w_n <- sum_j beta_j w_j

from which it goes on for `adapt_epochs` passes over its own examples. With
models of clusters it starts at that of the nearest (see `perm_clusters`). This
is ours; the paper has no new clients.
"""

import collections
from typing import Any, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import mixing_rows
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_clusters
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.composition import deployment
from tff_pers.core import random
from tff_pers.core import round_metrics
from tff_pers.data import client_data
from tff_pers.numerics import simplex

_ADAPT_USE = 4
# A combination is of the models of so many clients, those of largest weight.
_MOST_MODELS = 100
# Steps towards it.
_NUM_STEPS = 300


def build_dispatch(
    devices: perm_devices.Devices, state_type: tff.StructType, num_clients: int,
    num_new_clients: int,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tff.Computation:
  """Returns (S@SERVER, {D}@CLIENTS -> {W}@CLIENTS), what a client deploys.

  A client that trained gets its model; a new one, whose index is N or more, its
  mixture, and w as long as no gradients were compared.

  Args:
    devices: What the clients' devices hold.
    state_type: S, with its `table` and `anchor`.
    num_clients: N.
    num_new_clients: How many new clients there may be.
    hyperparameters: `PermHyperparameters`.
  """
  data_type = client_data.client_data_type(
      devices.model.x_spec, devices.model.y_spec
  )
  num_keys = num_clients + num_new_clients
  message_type = collections.OrderedDict(
      seed=np.int64, round=np.int32, weights=state_type['anchor']
  )

  @tff.tensorflow.computation(message_type, data_type)
  def show(message, data):
    return _show(devices, message, data, num_clients, hyperparameters)

  collect = keyed.RowCollectionFactory(max(num_new_clients, 1)).create(
      show.type_signature.result
  )

  @tff.tensorflow.computation(
      state_type, collect.next.type_signature.result['result'].member
  )
  def mix(state, rows):
    return collections.OrderedDict(
        keys=rows['keys'],
        mixtures=_mixtures(devices, state, rows, hyperparameters),
        models=state['models'], assignment=state['assignment'],
        weights=state['weights'],
    )

  fetch = keyed.build_fetch(
      mix.type_signature.result,
      lambda found, client: _chosen(found, client, num_clients), num_keys,
  )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def dispatch(state, data):
    message = tff.federated_broadcast(
        tff.federated_zip(
            collections.OrderedDict(
                seed=state.seed, round=state.round, weights=state.anchor
            )
        )
    )
    shown = tff.federated_map(show, (message, data))
    rows = collect.next(collect.initialize(), shown).result
    found = tff.federated_map(mix, (state, rows))
    return fetch(
        found, tff.federated_map(deployment.client_index(data_type), data)
    )

  return dispatch


def adapted(
    devices: perm_devices.Devices, weights: Any, data: Mapping[str, Any],
    hyperparameters: perm_hyperparameters.PermHyperparameters, num_clients: int,
) -> Any:
  """Returns what is deployed after a new client's `adapt_epochs` epochs."""
  if not hyperparameters.adapt_epochs:
    return devices.own_units(weights, data['index'])

  def train():
    return devices.train(
        weights, data, local=local_step.build(hyperparameters),
        learning_rate=hyperparameters.learning_rate,
        seed=random.key(0, _ADAPT_USE, data['index']),
        batch_size=hyperparameters.batch_size,
        num_epochs=hyperparameters.adapt_epochs,
    )[0]

  is_new = client_work.is_unseen(data['index'], num_clients)
  return devices.own_units(
      tf.cond(is_new, train, lambda: weights), data['index']
  )


def _show(devices, message, data, num_clients: int, hyperparameters):
  """Returns 0 or 1 rows of `fingerprints.written`: those of new clients."""
  is_new = tf.logical_and(
      client_work.is_unseen(data['index'], num_clients),
      data['num_examples'] > 0,
  )
  found = perm_client.gradient_if(
      is_new, devices, message, data, hyperparameters
  )
  is_sent = tf.logical_and(
      is_new, round_metrics.all_finite((found.gradient, found.variance))
  )
  return perm_client.rows(found, message, data, is_sent, hyperparameters)


def _mixtures(devices, state, rows, hyperparameters):
  """Returns the mixtures of M new clients, a table [M, ...]."""
  def mixed():
    if hyperparameters.models:
      return perm_clusters.models_of_strangers(state, rows)
    alpha = perm_mixing.rows_of_strangers(
        devices, state['table'], rows, state['lambda_'], hyperparameters
    )
    beta = combinations(state['mixing'], alpha)
    return tf.nest.map_structure(
        lambda table: tf.tensordot(tf.cast(beta, table.dtype), table, axes=1),
        state['models'],
    )

  def shared():
    return tf.nest.map_structure(
        lambda w: tf.tile(
            w[None], tf.concat([[tf.size(rows['keys'])], [1] * w.shape.rank], 0)
        ),
        state['weights'],
    )

  return tf.cond(
      tf.reduce_any(state['table']['sizes'] > 0), mixed, shared
  )


def combinations(mixing: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
  """Returns beta, with sum_j beta_j alpha_j near each target.

  argmin_beta ||sum_j beta_j alpha_j - target||^2 over the simplex, by
  Nesterov's projected gradient from the target itself. Only the clients of
  largest weight in the target take part, at most 100.

  Args:
    mixing: A, dense or sparse, see `mixing_rows`.
    targets: Rows on the simplex, float64[M, N].

  Returns:
    float64[M, N], rows on the simplex.
  """
  rows = mixing_rows.MixingRows(mixing)
  n = rows.num_clients

  def combination(target):
    start, clients = tf.math.top_k(target, min(n, _MOST_MODELS))
    known = tf.cast(rows.dense(clients), tf.float64)
    gram = tf.matmul(known, known, transpose_b=True)
    wanted = tf.linalg.matvec(known, target)
    # The largest row sum bounds the curvature of this quadratic.
    step = 1 / tf.maximum(tf.reduce_max(tf.reduce_sum(gram, axis=1)), 1e-12)

    def descend(k, beta, ahead):
      new = simplex.project(
          ahead - step * (tf.linalg.matvec(gram, ahead) - wanted)
      )
      momentum = tf.cast(k / (k + 3), tf.float64)
      return k + 1, new, new + momentum * (new - beta)

    start /= tf.reduce_sum(start)
    _, beta, _ = tf.while_loop(
        lambda k, *_: k < _NUM_STEPS, descend, (0, start, start)
    )
    return tf.scatter_nd(clients[:, None], beta, [n])

  return tf.map_fn(combination, targets)


def _chosen(found, client, num_clients: int):
  """Returns what client `client` deploys."""
  place = tf.cast(tf.where(tf.equal(found['keys'], client))[:, 0], tf.int32)

  def of_stranger():  # Without examples there is no mixture either.
    return tf.cond(
        tf.size(place) > 0,
        lambda: tf.nest.map_structure(
            lambda table: table[place[0]], found['mixtures']
        ),
        lambda: found['weights'],
    )

  return tf.cond(
      client < num_clients, lambda: own_rows.own_row(found, client),
      of_stranger,
  )
