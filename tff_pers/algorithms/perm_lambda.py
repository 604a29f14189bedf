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

from tff_pers.algorithms import perm_devices
from tff_pers import attacks
from tff_pers import deployment
from tff_pers import round_metrics
from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms import perm_client
from tff_pers.algorithms import perm_hyperparameters
from tff_pers.algorithms import perm_mixing
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.numerics import mixing

DEFAULT = 10.0  # Where nothing can be chosen (papers/perm.md 7, trap 3).
_SCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_ROUNDS = 10  # Of half as many, one of three seeds chose another kappa.
_HELD_OUT = 0.2
_HUGE = 1e9  # The loss of a mixture that is not finite.
_SPLIT_USE, _TRIAL_USE = 2, 3


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
    return try_alone(devices, message, attacks.poisoned(data), hyperparameters)

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
    return score(
        devices, message, tried, mixed, attacks.poisoned(data), num_clients
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


def try_alone(
    devices: perm_devices.Devices, message: Mapping[str, Any],
    data: Mapping[str, Any],
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Any:
  """Trains a client by itself, in the round of the choice.

  Args:
    devices: What the clients' devices hold.
    message: `<seed, round, weights>`.
    data: Dense client data.
    hyperparameters: `PermHyperparameters`.

  Returns:
    `<kept, rows>`, 0 or 1 rows of each: u_i^-, which it keeps, and what it
    sends: a row of `perm_client.rows` and `<models, own_fingerprints,
    own_sizes>`; models are u_i, `own_` is of what it did not hold out.
  """
  weights = message['weights']
  now = tf.equal(message['round'], hyperparameters.first_measure)
  budget = hyperparameters.budget()
  for name in ('num_steps', 'num_epochs'):
    budget[name] = budget[name] and _ROUNDS * budget[name]

  def train(data):
    return devices.train(
        weights, data, local=local_step.build(hyperparameters),
        round_num=message['round'],
        learning_rate=local_step.scheduled(
            hyperparameters, message, hyperparameters.learning_rate
        ),
        seed=client_work.key(message, data, use=_TRIAL_USE), **budget,
    )[0]

  def work():
    some, _ = _split(message, data)
    found, own = (
        perm_client.gradient(devices, message, rows, hyperparameters)
        for rows in (data, some)
    )
    return train(data), train(some), found, own.gradient

  def rest():
    nothing = perm_client.no_gradient(weights)
    return nothing.gradient, nothing.gradient, nothing, nothing.gradient

  trained, kept, found, own = tf.cond(now, work, rest)
  sent = (trained, kept, found.gradient, found.variance, own)
  is_sent = tf.cond(
      now, lambda: round_metrics.all_finite(sent), lambda: tf.constant(False)
  )
  row = lambda value: value[None][:tf.cast(is_sent, tf.int32)]
  size = data['num_examples']
  return collections.OrderedDict(
      kept=tf.nest.map_structure(row, kept),
      rows=collections.OrderedDict(
          perm_client.rows(found, message, data, is_sent, hyperparameters),
          models=tf.nest.map_structure(row, trained),
          own_fingerprints=row(
              perm_client.fingerprint(message, own, hyperparameters)
          ),
          own_sizes=row(tf.cast(size - _num_held(size), tf.float32)),
      ),
  )


def _num_held(size):
  return held_out.count(size, _HELD_OUT)


def _split(message, data):
  """Returns (what a client trains on, what it holds out)."""
  key = client_work.key(message, data, use=_SPLIT_USE)
  return held_out.split(data, _HELD_OUT, key)


def mixtures(
    devices: perm_devices.Devices, table: Mapping[str, Any], client: tf.Tensor,
    num_clients: int, hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Any:
  """Mixes the others' models for client i.

  Args:
    devices: What the clients' devices hold.
    table: The collected rows of `try_alone`.
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
  c = devices.between(
      table['fingerprints'], table['own_fingerprints'][place], clients,
      clients[place],
  )[None]
  c = perm_mixing.denoised(c, place[None], table, hyperparameters)
  sizes = tf.where(own, table['own_sizes'][place], table['sizes'])
  c = devices.complex(c, clients, clients[place][None], sizes)[0]
  return tf.stack([
      mixing.water_filling(
          c, sizes, perm_mixing.choose_lambda(table, kappa, hyperparameters)
      )
      for kappa in perm_hyperparameters.kappas(num_clients)
  ])


def score(
    devices: perm_devices.Devices, message: Mapping[str, Any], tried: Any,
    mixed: Any, data: Mapping[str, Any], num_clients: int,
) -> Any:
  """Evaluates the mixtures on what a client held out.

  Args:
    devices: What the clients' devices hold.
    message: `<seed, round, weights>`.
    tried: See `try_alone`.
    mixed: See `mixtures`.
    data: Dense client data.
    num_clients: N.

  Returns:
    `<losses float32[kappa, s], report>`; losses are sums over the examples,
    zeros where there is nothing to choose.
  """
  shape = (len(perm_hyperparameters.kappas(num_clients)), len(_SCALES))
  w, num_held = message['weights'], _num_held(data['num_examples'])
  works = tf.logical_and(tf.size(mixed['own']) > 0, num_held > 0)

  def losses():
    _, held = _split(message, data)  # Not in rounds without a choice.

    @tf.autograph.experimental.do_not_convert  # Else `map_fn` spends seconds.
    def loss(pair):
      own, s = mixed['own'][pair[0]], tf.gather(_SCALES, pair[1])
      weights = tf.nest.map_structure(
          lambda w, others, kept: w + tf.cast(s, w.dtype) * (
              others[pair[0]] + tf.cast(own, w.dtype) * kept[0] - w
          ),
          w, mixed['models'], tried['kept'],
      )
      mean = devices.of_client(
          data['index'], lambda model: deployment.deployed_metrics(
              model, weights, held
          )['loss'],
      )
      return tf.cast(mean, tf.float32)

    pairs = tf.constant(list(np.ndindex(shape)), tf.int32)
    means = tf.map_fn(loss, pairs, fn_output_signature=tf.float32)
    means = tf.where(tf.math.is_finite(means), means, _HUGE)
    return tf.cast(num_held, tf.float32) * tf.reshape(means, shape)

  found = tf.cond(works, losses, lambda: tf.zeros(shape))
  share = devices.share(data['index'])
  return collections.OrderedDict(
      losses=found,
      report=collections.OrderedDict(
          loss=tf.constant(0.0), weight=tf.constant(0.0),
          finite=tf.constant(True),
          bytes_down=share * round_metrics.payload_bytes(mixed),
          bytes_up=share * round_metrics.payload_bytes(tried['rows'])
          + tf.cast(works, tf.float32) * round_metrics.payload_bytes(found),
      ),
  )
