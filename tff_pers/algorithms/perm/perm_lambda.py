"""lambda of Eq. (2) chosen from data: kappa by what clients held out.

The right lambda depends on how alike the clients are, which nobody knows
beforehand. So once, before the first visits, every client i of a round trains
from the shared w for ten rounds' worth of steps: u_j on all its examples, and
u_i^- on 80 %. For each kappa, lambda = kappa v, row alpha of Eq. (2) with the
client's own gradient of the 80 %, the visits would lead about to

    M_i(kappa, s) = w + s (alpha_ii u_i^- + sum_{j != i} alpha_ij u_j - w)

where s stands for how long they go on. The kappa is taken, one for all clients,
whose best s has the least loss on all that was held out. This is ours.
"""

import collections
from typing import Any, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import perm_comparison
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import perm_trial
from tff_pers.composition import deployment
from tff_pers.core import interception
from tff_pers.data import client_data
from tff_pers.numerics import mixing

DEFAULT = 10.0  # Where nothing can be chosen (papers/perm.md 7, trap 3).


def build_choice(
    devices: perm_devices.Devices,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
    message_type: tff.Type, num_clients: int,
) -> tff.Computation:
  """Builds the choice.

  Args:
    devices: What the clients' devices hold.
    hyperparameters: `PermHyperparameters`.
    message_type: `<seed, round, weights>`, what all clients receive.
    num_clients: N.

  Returns:
    (scale@SERVER, message@CLIENTS, {D}@CLIENTS -> <scale@SERVER,
    report@CLIENTS>), chosen in the round `first_measure` and else what it was;
    the report is that of `visits.build_client_metrics`.
  """
  data_type = client_data.client_data_type(
      devices.model.x_spec, devices.model.y_spec
  )
  kappas = perm_hyperparameters.kappas(num_clients)

  @tff.tensorflow.computation(message_type, data_type)
  def alone(message, data):
    return perm_trial.try_alone(
        devices, message, interception.changed('data', data), hyperparameters
    )

  tried_type = alone.type_signature.result
  collect = keyed.RowCollectionFactory(num_clients).create(tried_type['rows'])
  fetch = keyed.build_fetch(
      collect.next.type_signature.result['result'].member,
      lambda table, client: mixtures(
          devices, table, client, num_clients, hyperparameters
      ), num_clients,
  )

  @tff.tensorflow.computation(
      message_type, tried_type, fetch.type_signature.result.member, data_type
  )
  def scored_by(message, tried, mixed, data):
    return perm_trial.score(
        devices, message, tried, mixed, interception.changed('data', data),
        num_clients,
    )

  losses_type = scored_by.type_signature.result['losses']

  @tff.tensorflow.computation(np.float32, losses_type)
  def choose(before, losses):
    best = tf.gather(kappas, tf.argmin(tf.reduce_min(losses, axis=1)))
    return tf.where(tf.reduce_any(losses > 0), best, before)

  @tff.federated_computation(
      tff.FederatedType(np.float32, tff.SERVER),
      tff.FederatedType(message_type, tff.CLIENTS, all_equal=True),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def choice(scale, message, data):
    tried = tff.federated_map(alone, (message, data))
    table = collect.next(collect.initialize(), tried.rows).result
    index = tff.federated_map(deployment.client_index(data_type), data)
    scored = tff.federated_map(
        scored_by, (message, tried, fetch(table, index), data)
    )
    return collections.OrderedDict(
        scale=tff.federated_map(
            choose, (scale, tff.federated_sum(scored.losses))
        ),
        report=scored.report,
    )

  return choice


def mixtures(
    devices: perm_devices.Devices, table: Mapping[str, Any], client: tf.Tensor,
    num_clients: int, hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Any:
  """Mixes the others' models for client i.

  Args:
    devices: What the clients' devices hold.
    table: The collected rows of `perm_trial.try_alone`.
    client: i.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.

  Returns:
    `<models, own>`, one row per kappa, or none without a row of the client:
    sum_{j != i} alpha_ij u_j, and alpha_ii.
  """
  num_rows = tf.shape(table['keys'])[0]
  place = tf.tensor_scatter_nd_update(
      tf.fill([num_clients], -1), table['keys'][:, None], tf.range(num_rows)
  )[client]

  def mixed():
    alpha = _rows(devices, table, place, num_clients, hyperparameters)
    is_own = tf.equal(tf.range(num_rows), place)
    others = tf.where(is_own, tf.zeros_like(alpha), alpha)
    return tf.nest.map_structure(
        lambda u: tf.tensordot(tf.cast(others, u.dtype), u, axes=1),
        table['models'],
    ), alpha[:, place]

  def nothing():
    return tf.nest.map_structure(
        lambda u: tf.zeros([0] + u.shape[1:], u.dtype), table['models']
    ), tf.zeros([0], tf.float64)

  models, own = tf.cond(place >= 0, mixed, nothing)
  return collections.OrderedDict(models=models, own=own)


def _rows(devices, table, place, num_clients: int, hyperparameters):
  """Returns alpha of Eq. (2) for every kappa, float64[kappa, M].

  The client at `place` knows the gradient of what it did not hold out.
  """
  own = tf.equal(tf.range(tf.shape(table['keys'])[0]), place)
  clients = table['keys']
  c = perm_comparison.to_one(
      devices, table['fingerprints'], table['own_fingerprints'][place],
      clients, clients[place],
  )[None]
  c = perm_mixing.denoised(c, place[None], table, hyperparameters)
  sizes = tf.where(own, table['own_sizes'][place], table['sizes'])
  c = perm_comparison.with_capacity(
      devices, c, clients, clients[place][None], sizes
  )[0]
  return tf.stack([
      mixing.water_filling(
          c, sizes, perm_mixing.choose_lambda(table, kappa, hyperparameters)
      )
      for kappa in perm_hyperparameters.kappas(num_clients)
  ])
