"""Client side of PERM's (a): a client's update of w, and its gradient at w.

The server compares the gradients in (b); `visits` implements (c).
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.algorithms.perm import setting
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.core import interception
from tff_pers.core import random
from tff_pers.core import round_metrics
from tff_pers.numerics import distances

_SKETCH_USE = -4  # Separates the sketch from other draws of the seed.
_ADAPT_USE = 4


class Client(setting.PermSetting):
  """Client computations; a message is `<seed, round, weights>`, w."""

  def work_on_w(
      self, message: Mapping[str, Any], is_known: tf.Tensor,
      data: Mapping[str, Any],
  ) -> Any:
    """Does a client's part of (a): its update of w, and its G_i for (b).

    Args:
      message: `<seed, round, weights>`.
      is_known: Bool scalar, whether the server has the client's gradient at w.
      data: Dense client data.

    Returns:
      `<update, weight, gradients, report>`: `update` is averaged and moves w;
      `gradients`, 0 or 1 `table_row`s, are compared in (b); the report is as in
      `own_next.of_reports`. Non-finite values are not sent.
    """
    t, index = message['round'], data['index']
    moves, by_steps = self.moves_w(t), self.trains_w(t)
    compared = tf.logical_and(self.updates_mixing(t), tf.logical_not(is_known))
    by_gradient = tf.logical_and(moves, tf.logical_not(by_steps))
    trained_on = interception.changed('data', data)
    found = self.gradient_if(
        tf.logical_or(compared, by_gradient), message, trained_on
    )
    update, loss, is_finite = self._update(message, trained_on, moves, found)
    finite = tf.logical_and(
        round_metrics.all_finite((found.gradient, loss, found.variance)),
        is_finite,
    )
    gradients = self.table_row(
        found, message, trained_on, tf.logical_and(compared, finite)
    )
    kept = tf.cond(
        finite, lambda: update,
        lambda: tf.nest.map_structure(tf.zeros_like, update),
    )
    # Types are fixed: zeros stand for values that a deployment would not send.
    share, used = self.devices.share(index), lambda b: tf.cast(b, tf.float32)
    bytes_of_row = round_metrics.payload_bytes(gradients['fingerprints'])
    if not self.hyperparameters.sketch:
      # G_i is uploaded once, as the update and as the row: the server itself
      # can clip it and add the penalty. A sketch is sent in addition.
      bytes_of_row *= 1 - used(by_gradient)
    return collections.OrderedDict(
        update=self.sent(kept, data),
        weight=tf.where(
            tf.logical_and(finite, data['num_examples'] > 0),
            client_work.client_weight(
                self.client_weighting, data, self.hyperparameters.batch_size
            ),
            0.0,
        ),
        gradients=gradients,
        report=collections.OrderedDict(
            loss=tf.cast(loss, tf.float32),
            weight=used(t < self.hyperparameters.first_visit),
            finite=finite,
            bytes_down=share * used(tf.logical_or(moves, compared))
            * round_metrics.payload_bytes(message['weights']),
            bytes_up=share * (
                used(moves) * round_metrics.payload_bytes(update) + bytes_of_row
            ),
        ),
    )

  def sent(self, update: Any, data: Mapping[str, Any]) -> Any:
    """Returns what a client (or an attacker) sends for an update."""
    own = self.devices.sent(update, data['index'])
    return interception.changed('update', own, data)

  def gradient_if(
      self, needed: tf.Tensor, message: Mapping[str, Any],
      data: Mapping[str, Any],
  ) -> local_gradient.LocalGradient:
    """Returns G_i = grad f_i(w) if needed, else zeros from no row."""
    return tf.cond(
        needed, lambda: self.gradient(message, data),
        lambda: no_gradient(message['weights']),
    )

  def gradient(
      self, message: Mapping[str, Any], data: Mapping[str, Any]
  ) -> local_gradient.LocalGradient:
    """Returns G_i = grad f_i(w) on the examples of the round."""
    found = self.devices.of_client(
        data['index'],
        lambda model: local_gradient.compute(
            model, message['weights'], data,
            seed=client_work.key(message, data, use=1),
            num_rows=self.hyperparameters.gradient_batch,
        ),
    )
    return found._replace(
        variance=self.devices.scaled_variance(found.variance, data['index'])
    )

  def table_row(
      self, found: local_gradient.LocalGradient, message: Mapping[str, Any],
      data: Mapping[str, Any], is_sent: tf.Tensor,
  ) -> Mapping[str, Any]:
    """Returns the 0 or 1 rows of a client that the server compares.

    `<fingerprints [., p], keys, rows, sizes, variances>` of `fingerprints`.
    """
    row = lambda value: value[None][:tf.cast(is_sent, tf.int32)]
    number = lambda value: row(tf.cast(value, tf.float32))
    return collections.OrderedDict(
        fingerprints=row(self.fingerprint(message, found.gradient)),
        keys=row(data['index']),
        rows=number(found.num_rows),
        sizes=number(data['num_examples']),
        variances=number(found.variance),
    )

  def fingerprint(self, message: Mapping[str, Any], gradient: Any) -> tf.Tensor:
    """Returns the gradient as a vector or sketch, the same in all rounds."""
    vector = distances.flatten(gradient)
    if not self.hyperparameters.sketch:
      return vector
    seed = random.key(message['seed'], _SKETCH_USE)
    return distances.sketch(vector, self.hyperparameters.sketch, seed)

  def deployed(self, weights: Any, data: Mapping[str, Any]) -> Any:
    """Returns what a client deploys, given its row `weights` of the models.

    Usually another client hosted its model last, so it first takes the steps of
    `own_rounds` rounds on its own examples.
    """
    values = self.hyperparameters
    return self.adapted(
        weights, data, values.own_rounds * values.local_steps,
        values.own_rounds * values.local_epochs,
    )

  def adapted(
      self, weights: Any, data: Mapping[str, Any], num_steps: int = 0,
      num_epochs: int = 0,
  ) -> Any:
    """Returns `weights` after steps on a client's own examples.

    The learning rate is that of round 0, because the schedule is for the
    rounds.
    """
    if not num_steps and not num_epochs:
      return weights
    hyperparameters = self.hyperparameters
    return self.devices.train(
        weights, data, local=local_step.build(hyperparameters),
        learning_rate=hyperparameters.learning_rate,
        seed=random.key(0, _ADAPT_USE, data['index']),
        batch_size=hyperparameters.batch_size, num_steps=num_steps or None,
        num_epochs=num_epochs or None,
    )[0]

  def _update(self, message, data, moves, found):
    """(w - u_i after K local steps, or G_i; loss); zeros if w rests.

    The third result is whether the update is finite, except if it is G_i
    itself.
    """
    weights, hyperparameters = message['weights'], self.hyperparameters
    local = local_step.build(hyperparameters).of(self.devices.model)

    def train():  # FedAvg: stage 1 (Algorithm 3), and the warm-up.
      final, loss = self.devices.train(
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

    one_step = rest
    if hyperparameters.variant != 'two_stage':
      one_step = lambda: tf.cond(moves, descend, rest)
    if not self.ever_trains_w:
      return one_step()
    return tf.cond(self.trains_w(message['round']), train, one_step)


def no_gradient(weights: Any) -> local_gradient.LocalGradient:
  """Returns a `LocalGradient` of zeros, from no row."""
  zero = tf.zeros([], tf.nest.flatten(weights)[0].dtype)
  return local_gradient.LocalGradient(
      tf.nest.map_structure(tf.zeros_like, weights), zero, tf.constant(0), zero
  )
