"""Line (a) of PERM at a client: what it does with the shared model w.

Its update of w, and its gradient at w, which line (b) compares. See
`perm` for the rounds around it.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.algorithms.perm import perm_comparison
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.core import random
from tff_pers.core import round_metrics
from tff_pers.numerics import distances

_SKETCH_USE = -4  # Keeps the sketch apart from other draws of the seed.


def descends(
    t: tf.Tensor, hyperparameters: perm_hyperparameters.PermHyperparameters,
    num_clients: int, full_participation: bool,
) -> tf.Tensor:
  """Returns whether w moves in round t, a bool scalar.

  In rounds of cohorts it rests from the first visit on, so that gradients of
  all rounds can be compared.
  """
  first = hyperparameters.first_visit
  if hyperparameters.variant == 'two_stage' or not full_participation:
    return t < first
  if hyperparameters.alpha_update == 'round':
    return tf.constant(True)
  return tf.logical_or(t < first, tf.equal((t - first) % num_clients, 0))


def trains_w(
    t: tf.Tensor, hyperparameters: perm_hyperparameters.PermHyperparameters
) -> tf.Tensor:
  """Returns whether w moves by FedAvg in round t, if it moves."""
  if not ever_trains_w(hyperparameters):
    return tf.constant(False)
  return t < hyperparameters.first_visit


def ever_trains_w(
    hyperparameters: perm_hyperparameters.PermHyperparameters
) -> bool:
  """Returns whether there are rounds in which w moves by FedAvg."""
  if hyperparameters.warmup == 'gradient':
    return False
  return hyperparameters.first_visit > 0


def measures(
    t: tf.Tensor, hyperparameters: perm_hyperparameters.PermHyperparameters,
    num_clients: int, full_participation: bool,
) -> tf.Tensor:
  """Returns whether A is updated in round t from the gradients at w."""
  if not full_participation:
    measured = t >= hyperparameters.first_measure
  elif hyperparameters.variant == 'two_stage':
    measured = tf.equal(t, hyperparameters.first_visit)
  else:
    measured = tf.logical_and(
        t >= hyperparameters.first_measure,
        descends(t, hyperparameters, num_clients, full_participation),
    )
  if hyperparameters.freeze_after:
    measured = tf.logical_and(measured, t < hyperparameters.freeze_after)
  return measured


def comparable_since(
    t: tf.Tensor, hyperparameters: perm_hyperparameters.PermHyperparameters,
    full_participation: bool,
) -> tf.Tensor:
  """Returns the first round whose gradients are at the w of round t."""
  if full_participation:
    return t
  return tf.minimum(t, hyperparameters.first_visit)


def global_line(
    devices: perm_devices.Devices, message: Mapping[str, Any],
    is_known: tf.Tensor, data: Mapping[str, Any],
    hyperparameters: perm_hyperparameters.PermHyperparameters, *,
    client_weighting: str, num_clients: int, full_participation: bool,
) -> Any:
  """Computes a client's part of line (a).

  Args:
    devices: What the clients' devices hold.
    message: `<seed, round, weights>`; `weights` are w.
    is_known: Bool scalar, whether the server has the client's gradient at w.
    data: Dense client data.
    hyperparameters: `PermHyperparameters`.
    client_weighting: The client's weight in the mean of the updates.
    num_clients: N.
    full_participation: Whether every round has all clients.

  Returns:
    `<update, weight, gradients, report>`; `gradients` are 0 or 1 rows
    `<fingerprints [., p], keys, rows, sizes, variances>`, the report is that of
    `visits.build_client_metrics`. What is not finite is not sent.
  """
  t, weights = message['round'], message['weights']
  moves = descends(t, hyperparameters, num_clients, full_participation)
  measured = tf.logical_and(
      measures(t, hyperparameters, num_clients, full_participation),
      tf.logical_not(is_known),
  )
  exchanges = tf.logical_or(moves, measured)
  by_steps = trains_w(t, hyperparameters)
  found = gradient_if(
      tf.logical_or(measured, tf.logical_and(moves, tf.logical_not(by_steps))),
      devices, message, data, hyperparameters,
  )
  update, loss, is_finite = _update(
      devices, message, data, moves, found, hyperparameters
  )
  finite = tf.logical_and(
      round_metrics.all_finite((found.gradient, loss, found.variance)),
      is_finite,
  )
  gradients = rows(
      found, message, data, tf.logical_and(measured, finite), hyperparameters
  )
  kept = tf.cond(
      finite, lambda: update,
      lambda: tf.nest.map_structure(tf.zeros_like, update),
  )
  return collections.OrderedDict(
      update=devices.sent(kept, data['index']),
      weight=tf.where(
          tf.logical_and(finite, data['num_examples'] > 0),
          client_work.client_weight(
              client_weighting, data, hyperparameters.batch_size
          ),
          0.0,
      ),
      gradients=gradients,
      report=collections.OrderedDict(
          loss=tf.cast(loss, tf.float32),
          weight=tf.cast(t < hyperparameters.first_visit, tf.float32),
          finite=finite,
          **_bytes(
              weights, update, gradients, moves, exchanges,
              tf.logical_and(moves, tf.logical_not(by_steps)), hyperparameters,
              devices.share(data['index']),
          ),
      ),
  )


def gradient_if(
    needed: tf.Tensor, devices: perm_devices.Devices,
    message: Mapping[str, Any], data: Mapping[str, Any],
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> local_gradient.LocalGradient:
  """Returns G_i = grad f_i(w), if it is needed; else `no_gradient`."""
  return tf.cond(
      needed, lambda: gradient(devices, message, data, hyperparameters),
      lambda: no_gradient(message['weights']),
  )


def no_gradient(weights: Any) -> local_gradient.LocalGradient:
  """Returns a `LocalGradient` of zeros, of no row."""
  zero = tf.zeros([], tf.nest.flatten(weights)[0].dtype)
  return local_gradient.LocalGradient(
      tf.nest.map_structure(tf.zeros_like, weights), zero, tf.constant(0), zero
  )


def gradient(
    devices: perm_devices.Devices, message: Mapping[str, Any],
    data: Mapping[str, Any],
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> local_gradient.LocalGradient:
  """Returns G_i = grad f_i(w) of the round's rows, a `LocalGradient`."""
  found = devices.of_client(
      data['index'],
      lambda model: local_gradient.compute(
          model, message['weights'], data,
          seed=client_work.key(message, data, use=1),
          num_rows=hyperparameters.gradient_batch,
      ),
  )
  return found._replace(
      variance=perm_comparison.scaled_variance(
          devices, found.variance, data['index']
      )
  )


def _update(devices, message, data, moves, found, hyperparameters):
  """(w - u_i after K local steps, or G_i; loss); zeros if w rests.

  The third is whether the update is finite, except where it is G_i itself.
  """
  weights, t = message['weights'], message['round']
  local = local_step.build(hyperparameters)

  def train():  # FedAvg: stage 1 (Algorithm 3), and the warm-up.
    final, loss = devices.train(
        weights, data, local=local,
        learning_rate=local_step.scheduled(
            hyperparameters, message, hyperparameters.warmup_rate
        ),
        seed=client_work.key(message, data), **hyperparameters.budget(),
    )
    update = local_sgd.difference(weights, final)
    return update, loss, round_metrics.all_finite(update)

  def rest():
    zeros = tf.nest.map_structure(tf.zeros_like, weights)
    return zeros, found.loss, tf.constant(True)

  def descend():
    update = local.direction(weights, found.gradient)
    is_finite = (
        tf.constant(True) if update is found.gradient
        else round_metrics.all_finite(update)
    )
    return update, found.loss, is_finite

  def one_step():
    if hyperparameters.variant == 'two_stage':
      return rest()
    return tf.cond(moves, descend, rest)

  if not ever_trains_w(hyperparameters):
    return one_step()
  return tf.cond(trains_w(t, hyperparameters), train, one_step)


def rows(
    found: local_gradient.LocalGradient, message: Mapping[str, Any],
    data: Mapping[str, Any], is_sent: tf.Tensor,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> Mapping[str, Any]:
  """Returns what the server compares: one row (see `fingerprints`), or none."""
  count = tf.cast(is_sent, tf.int32)
  row = lambda value: value[None][:count]
  number = lambda value: row(tf.cast(value, tf.float32))
  return collections.OrderedDict(
      fingerprints=row(fingerprint(message, found.gradient, hyperparameters)),
      keys=row(data['index']),
      rows=number(found.num_rows),
      sizes=number(data['num_examples']),
      variances=number(found.variance),
  )


def fingerprint(
    message: Mapping[str, Any], gradient: Any,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
) -> tf.Tensor:
  """Returns the gradient as a vector, or its sketch, the same in all rounds."""
  vector = distances.flatten(gradient)
  if not hyperparameters.sketch:
    return vector
  seed = random.key(message['seed'], _SKETCH_USE)
  return distances.sketch(vector, hyperparameters.sketch, seed)


def _bytes(
    weights, update, gradients, moves, exchanges, by_gradient, hyperparameters,
    share,
):
  """Bytes of w, of the update and of the gradient, in the rounds that use them.

  Types are fixed, so zeros stand where a deployment would send nothing.
  """
  extra = round_metrics.payload_bytes(gradients['fingerprints'])
  if not hyperparameters.sketch:
    # The update is G_i: the server can clip it and add the penalty's gradient.
    extra *= 1 - tf.cast(by_gradient, tf.float32)
  return dict(
      bytes_down=share * tf.cast(exchanges, tf.float32)
      * round_metrics.payload_bytes(weights),
      bytes_up=share * (
          tf.cast(moves, tf.float32) * round_metrics.payload_bytes(update)
          + extra
      ),
  )
