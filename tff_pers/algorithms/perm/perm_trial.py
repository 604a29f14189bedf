"""What clients compute when PERM chooses lambda.

Client i trains by itself from the shared w: u_i on all its examples, u_i^- on
those that it does not hold out. The server mixes the others' u_j for it, and
the client finds the losses of M_i(kappa, s) on what it held out. See
`perm_lambda` for these, and for the choice around it.
"""

import collections
from typing import Any, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import local_step
from tff_pers.composition import deployment
from tff_pers.core import round_metrics

_SCALES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # The s of M_i(kappa, s).
_ROUNDS = 10  # Of half as many, one of three seeds chose another kappa.
_HELD_OUT = 0.2
_HUGE = 1e9  # The loss of a mixture that is not finite.
_SPLIT_USE, _TRIAL_USE = 2, 3


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


def score(
    devices: perm_devices.Devices, message: Mapping[str, Any], tried: Any,
    mixed: Any, data: Mapping[str, Any], num_clients: int,
) -> Any:
  """Evaluates the mixtures on what a client held out.

  Args:
    devices: What the clients' devices hold.
    message: `<seed, round, weights>`.
    tried: See `try_alone`.
    mixed: See `perm_lambda.mixtures`.
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


def _num_held(size):
  return held_out.count(size, _HELD_OUT)


def _split(message, data):
  """Returns (what a client trains on, what it holds out)."""
  key = client_work.key(message, data, use=_SPLIT_USE)
  return held_out.split(data, _HELD_OUT, key)
