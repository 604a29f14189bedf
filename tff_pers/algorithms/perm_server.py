"""The server's lines of PERM: w, the mixing weights, who hosts whom.

See `algorithms.perm` for the rounds around them.
"""

import collections
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.algorithms import perm_client
from tff_pers.algorithms import perm_lambda
from tff_pers.algorithms import perm_mixing
from tff_pers.algorithms import visit_schedule
from tff_pers.algorithms import visits
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step


class Lines(NamedTuple):
  """What the server computes in a round; a clock is `<round, seed>`.

  Attributes:
    descend: (clock, w, mean update -> w), line (a).
    solve: (A, seen, kappa, gradients -> <mixing, seen, measurements>), line
      (b).
    start: (clock, w, models -> models), before line (c).
    host: (clock, A, pending, cohort -> <owners, pending>), of line (c).
  """

  descend: tff.Computation
  solve: tff.Computation
  start: tff.Computation
  host: tff.Computation


def initial_fields(
    model, seed, num_clients, hyperparameters, full_participation
):
  """Returns the method's own fields of S, see `perm.build_perm`."""
  weights = model.initial_weights(seed)
  return collections.OrderedDict(
      weights=weights,
      models=visits.tile(weights, num_clients),
      mixing=perm_mixing.initial(num_clients, hyperparameters),
      pending=visit_schedule.nothing_pending(
          hyperparameters, num_clients, full_participation
      ),
      seen=perm_mixing.nobody(num_clients, full_participation),
      scale=tf.constant(
          perm_lambda.DEFAULT if hyperparameters.lambda_scale == 'auto'
          else hyperparameters.lambda_scale, tf.float32,
      ),
  )


def build_lines(
    model, state_type: tff.StructType, gradients_type, num_clients: int,
    hyperparameters,
) -> Lines:
  """Builds the lines.

  Args:
    model: The model.
    state_type: S.
    gradients_type: The collected rows of `perm_client.global_line`.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.
  """
  clock_type = collections.OrderedDict(round=np.int32, seed=np.int64)
  weights_type, mixing_type = state_type['weights'], state_type['mixing']

  @tff.tensorflow.computation(clock_type, weights_type, weights_type)
  def descend(clock, weights, mean_update):
    return _descend(clock, weights, mean_update, hyperparameters)

  @tff.tensorflow.computation(
      mixing_type, state_type['seen'], np.float32, gradients_type
  )
  def solve(old, seen, scale, gradients):
    return _solve(old, seen, scale, gradients, num_clients, hyperparameters)

  @tff.tensorflow.computation(clock_type, weights_type, state_type['models'])
  def start(clock, weights, models):
    return _start(
        clock, weights, models, model, num_clients, hyperparameters
    )

  @tff.tensorflow.computation(
      clock_type, mixing_type, state_type['pending'],
      tff.TensorType(np.bool_, [num_clients]),
  )
  def host(clock, mixing, pending, cohort):
    return _host(
        clock, mixing, pending, cohort, hyperparameters.first_visit
    )

  return Lines(descend, solve, start, host)


def _descend(clock, weights, mean_update, hyperparameters):
  """(a) w <- w - gamma mean_i G_i; after local steps the mean of the u_i."""
  gamma = local_step.scheduled(hyperparameters, clock, hyperparameters.gamma)
  return tf.cond(
      perm_client.trains_w(clock['round'], hyperparameters),
      lambda: local_sgd.descend(weights, mean_update, 1.0),
      lambda: local_sgd.descend(weights, mean_update, gamma),
  )


def _solve(old, seen, scale, gradients, num_clients, hyperparameters):
  """(b) The rows of A."""
  mixing, seen, lambda_ = perm_mixing.update(
      old, seen, scale, gradients, num_clients, hyperparameters
  )
  measured = perm_mixing.measurements(mixing, lambda_)
  if hyperparameters.chooses_scale:
    measured['lambda_scale'] = scale
  return collections.OrderedDict(
      mixing=mixing, seen=seen, measurements=measured
  )


def _start(clock, weights, models, model, num_clients, hyperparameters):
  """All w_i are w (or w^0) until the visits begin."""
  first = hyperparameters.first_visit

  def beginning():
    if hyperparameters.init == 'global':
      return visits.tile(weights, num_clients)
    is_last = tf.equal(clock['round'], first - 1)
    origin = tf.nest.map_structure(
        lambda initial, w: tf.where(is_last, initial, w),
        model.initial_weights(clock['seed']), weights,
    )
    return visits.tile(origin, num_clients)

  return tf.cond(clock['round'] < first, beginning, lambda: models)


def _host(clock, mixing, pending, cohort, first_visit):
  """(c) Who hosts whom: nobody before the first visit."""
  begun = clock['round'] >= first_visit
  since = collections.OrderedDict(clock, round=clock['round'] - first_visit)
  owners, pending = visit_schedule.next_owners(since, mixing, pending, cohort)
  return collections.OrderedDict(
      owners=tf.where(begun, owners, -1),
      pending=tf.nest.map_structure(
          lambda left: tf.logical_and(left, begun), pending
      ),
  )
