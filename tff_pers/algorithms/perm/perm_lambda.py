"""Chooses lambda of Eq. (2) from data: kappa by examples that clients hold out.

The right lambda depends on how similar the clients are, which is unknown. So
once, before the first visits, every client i of a round holds out a fifth of
its examples, and trains u_i from the shared w on the others, for as many steps
as in ten rounds. With lambda = kappa v and row alpha of Eq. (2), from gradients
of the examples that are not held out, the visits would lead approximately to

    M_i(kappa, s) = w + s (sum_j alpha_ij u_j - w)

where s stands for their duration. The chosen kappa, common to all clients, is
the one whose best s has the smallest loss on all held-out examples. This is
ours.
"""

import collections
from typing import Any, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import local_step
from tff_pers.composition import deployment
from tff_pers.composition import own_next
from tff_pers.core import interception
from tff_pers.core import random
from tff_pers.core import round_metrics
from tff_pers.numerics import mixing
from tff_pers import tff

DEFAULT = 10.0  # If nothing can be chosen, e.g. no client holds out examples.
_DURATIONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # The s of M_i(kappa, s).
_ROUNDS = 10  # With half as many, one of three seeds chose another kappa.
_HELD_OUT = 0.2
_HUGE = 1e9  # The loss of a mixture that is not finite.
_SPLIT_USE, _TRIAL_USE, _VISITS_USE = 2, 3, 5


class Trial(perm_client.Client):
  """The choice of kappa; `choose_kappa` puts the other methods together."""

  def choose_kappa(
      self, kappa: Any, message: Any, index: Any, data: Any
  ) -> tuple[Any, Any]:
    """Chooses kappa in `first_mixing_update`, else keeps it (in tracing).

    `kappa`, the current one, is at the server, everything else at the
    clients. Returns (kappa at the server, reports at the clients).
    """
    tried = own_next.computed(self.alone, message, data)
    mixed = keyed.fetch(
        keyed.collect(tried, self.num_clients), index, self.mixtures,
        self.num_clients,
    )
    scored = own_next.computed(self.score, message, tried, mixed, data)
    losses = tff.federated_sum(scored.losses)
    return own_next.computed(self._best, kappa, losses), scored.report

  def alone(self, message: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    """Trains a client by itself in the round of the choice.

    Returns:
      0 or 1 rows: those of `Client.table_row`, and `models` u_i.
    """
    data = interception.changed('data', data)
    weights, hyperparameters = message['weights'], self.hyperparameters
    now = tf.equal(message['round'], hyperparameters.first_mixing_update)
    budget = hyperparameters.budget()
    for name in ('num_steps', 'num_epochs'):
      budget[name] = budget[name] and _ROUNDS * budget[name]

    def work():
      kept, _ = _split(message, data)
      trained, _ = self.devices.train(
          weights, kept, local=local_step.build(hyperparameters),
          learning_rate=local_step.scheduled(
              hyperparameters, message, hyperparameters.learning_rate
          ),
          seed=client_work.key(message, kept, use=_TRIAL_USE), **budget,
      )
      return trained, self.gradient(message, kept)

    def rest():
      nothing = perm_client.no_gradient(weights)
      return nothing.gradient, nothing

    trained, found = tf.cond(now, work, rest)
    is_sent = tf.logical_and(now, round_metrics.all_finite(
        (trained, found.gradient, found.variance)
    ))
    size = data['num_examples'] - _num_held(data)
    return collections.OrderedDict(
        self.table_row(found, message, {**data, 'num_examples': size}, is_sent),
        models=tf.nest.map_structure(
            lambda value: value[None][:tf.cast(is_sent, tf.int32)], trained
        ),
    )

  def mixtures(self, table: Mapping[str, Any], index: tf.Tensor) -> Any:
    """Mixes the models for client i at the server, from the rows of all.

    Returns:
      `<models>`, sum_j alpha_ij u_j, one row per kappa; no rows if the client
      has no row.
    """
    num_rows = tf.shape(table['keys'])[0]
    place = tf.tensor_scatter_nd_update(
        tf.fill([self.num_clients], -1), table['keys'][:, None],
        tf.range(num_rows),
    )[index]

    def mixed():
      # All clients get the largest number of rows, so that they can be computed
      # together; none is taken for a client without a row.
      alpha = self._alpha(table, tf.maximum(place, 0))
      alpha = self._remembered(alpha, random.key(0, _VISITS_USE, index))
      rows = tf.where(place >= 0, tf.shape(alpha)[0], 0)
      return tf.nest.map_structure(
          lambda u: tf.tensordot(tf.cast(alpha, u.dtype), u, axes=1)[:rows],
          table['models'],
      )

    def nothing():
      return tf.nest.map_structure(
          lambda u: tf.zeros([0] + u.shape[1:], u.dtype), table['models']
      )

    return collections.OrderedDict(models=tf.cond(num_rows > 0, mixed, nothing))

  def score(
      self, message: Mapping[str, Any], tried: Any, mixed: Any,
      data: Mapping[str, Any],
  ) -> Any:
    """Evaluates the `mixtures` on a client's held-out examples.

    Returns:
      `<losses float32[kappa, s], report>`; losses are sums over examples, zeros
      if there is nothing to choose.
    """
    data = interception.changed('data', data)
    shape = len(self._kappas), len(_DURATIONS)
    w, num_held = message['weights'], _num_held(data)
    # Usually the same at all clients.
    is_round = tf.shape(tf.nest.flatten(mixed['models'])[0])[0] > 0
    works = tf.logical_and(is_round, num_held > 0)

    def losses():
      _, held = _split(message, data)  # Not in rounds without a choice.

      @tf.autograph.experimental.do_not_convert  # Else `map_fn` takes seconds.
      def loss(pair):
        s = tf.gather(_DURATIONS, pair[1])
        weights = tf.nest.map_structure(
            lambda w, u: w + tf.cast(s, w.dtype) * (u[pair[0]] - w),
            w, mixed['models'],
        )
        mean = self.devices.of_client(
            data['index'], lambda model: deployment.deployed_metrics(
                model, weights, held
            )['loss'],
        )
        return tf.cast(mean, tf.float32)

      pairs = tf.constant(list(np.ndindex(shape)), tf.int32)
      means = tf.map_fn(loss, pairs, fn_output_signature=tf.float32)
      means = tf.where(tf.math.is_finite(means), means, _HUGE)
      return tf.cast(num_held, tf.float32) * tf.reshape(means, shape)

    none = lambda: tf.zeros(shape)
    found = tf.cond(
        is_round, lambda: tf.cond(num_held > 0, losses, none), none
    )
    share = self.devices.share(data['index'])
    return collections.OrderedDict(
        losses=found,
        report=collections.OrderedDict(
            loss=tf.constant(0.0), weight=tf.constant(0.0),
            finite=tf.constant(True),
            bytes_down=share * round_metrics.payload_bytes(mixed),
            bytes_up=share * round_metrics.payload_bytes(tried)
            + tf.cast(works, tf.float32) * round_metrics.payload_bytes(found),
        ),
    )

  @property
  def _kappas(self):
    return perm_hyperparameters.kappas(self.num_clients)

  def _alpha(self, table, place):
    """Returns alpha of Eq. (2) for every kappa, float64[kappa, M]."""
    lambdas = perm_mixing.choose_lambda(
        table, tf.constant(self._kappas)[:, None], self.hyperparameters
    )
    problem = perm_mixing.Problem(self, table, lambdas)
    c = problem.distances(table['keys'], place[None])
    return mixing.water_filling(
        tf.tile(c, [len(self._kappas), 1]), table['sizes'], lambdas
    )

  def _remembered(self, alpha, key):
    """Returns the part of rows float64[kappa, M] that models remember.

    If the remaining visits suffice for two epochs, that is the whole row. If
    not, it is the effect of the last two hosts of a model, drawn by how often
    they are visited, because a visit partly undoes earlier ones.
    """
    if self.num_visits is None:
      return alpha
    visits = tf.ones_like(alpha)  # Permutations visit every client once.
    if self.is_matched:
      count = tf.reduce_sum(tf.cast(alpha > 0, tf.int32), 1, keepdims=True)
      visits = tf.cast(visit_schedule.visits_per_epoch(
          tf.cast(alpha, tf.float32), count, self.hyperparameters
      ), alpha.dtype)
    epoch = tf.reduce_sum(visits, axis=1, keepdims=True)
    # Client c is drawn 2 visits_c / epoch times on average, rounded at random.
    drawn = tf.floor(2 * visits / epoch + tf.random.stateless_uniform(
        tf.shape(alpha), key, dtype=alpha.dtype
    ))
    last = alpha * tf.math.divide_no_nan(drawn, visits)
    total = tf.reduce_sum(last, axis=1, keepdims=True)
    # For the M clients of a round; scaled to all N.
    of_all = epoch * self.num_clients / tf.cast(tf.shape(alpha)[1], epoch.dtype)
    is_short = tf.logical_and(2 * of_all > self.num_visits, total > 0)
    return tf.where(is_short, last / total, alpha)

  def _best(self, before, losses):
    """Returns the kappa of the smallest loss, or the old one without losses."""
    least = tf.argmin(tf.reduce_min(losses, axis=1))
    return tf.where(
        tf.reduce_any(losses > 0), tf.gather(self._kappas, least), before
    )


def _num_held(data):
  return held_out.count(data['num_examples'], _HELD_OUT)


def _split(message, data):
  """Returns (what a client trains on, what it holds out)."""
  key = client_work.key(message, data, use=_SPLIT_USE)
  return held_out.split(data, _HELD_OUT, key)
