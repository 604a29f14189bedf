"""The server's lines of PERM: w, the mixing weights, who hosts whom.

See `perm` for the rounds around them.
"""

import collections
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import fingerprints
from tff_pers.algorithms.perm import mixing_rows
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm_client
from tff_pers.algorithms.perm import perm_clusters
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import perm_hyperparameters
from tff_pers.algorithms.perm import perm_lambda
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.models import functional
from tff_pers.numerics import distances


class Lines(NamedTuple):
  """What the server computes in a round; a clock is `<round, seed>`.

  Attributes:
    descend: (clock, w, mean update -> w), line (a).
    solve: (clock, <mixing, assignment, lambda_, table, anchor>, w, kappa,
      cohort, gradients -> <the same fields, measurements>), line (b).
    start: (clock, w, models -> models), before line (c).
    host: (clock, A, pending, cohort -> <owners, pending, measurements>), of
      line (c).
  """

  descend: tff.Computation
  solve: tff.Computation
  start: tff.Computation
  host: tff.Computation


def initial_fields(
    model: functional.FunctionalModel, seed: tf.Tensor, num_clients: int,
    hyperparameters: perm_hyperparameters.PermHyperparameters, *,
    full_participation: bool, keeps_table: bool,
) -> Any:
  """Returns the method's own fields of S, see `perm.build_perm`."""
  weights = model.initial_weights(seed)
  vector = distances.flatten(weights)
  mixing = perm_mixing.initial(
      num_clients, hyperparameters, full_participation
  )
  return collections.OrderedDict(
      weights=weights,
      models=own_rows.tile(weights, hyperparameters.num_models(num_clients)),
      mixing=mixing,
      pending=visit_schedule.nothing_pending(
          hyperparameters, mixing, full_participation
      ),
      table=fingerprints.nobody(
          num_clients, hyperparameters.sketch or vector.shape[0], vector.dtype
      ) if keeps_table else (),
      anchor=weights if keeps_table else (),
      assignment=perm_clusters.nobody(num_clients, hyperparameters),
      scale=tf.constant(
          perm_lambda.DEFAULT if hyperparameters.lambda_scale == 'auto'
          else hyperparameters.lambda_scale, tf.float32,
      ),
      lambda_=tf.constant(0.0),
  )


def build_is_known(
    state_type: tff.StructType, num_clients: int,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
    full_participation: bool,
) -> tff.Computation:
  """Returns (table@SERVER, {int32}@CLIENTS -> {bool}@CLIENTS).

  Whether the server has a client's gradient of all its examples at the present
  w, so that another one would say nothing new.
  """
  first = hyperparameters.first_visit
  keeps = not full_participation and not hyperparameters.gradient_batch
  # Without them every round has new gradients.
  nobody = tff.tensorflow.computation(lambda client: False, np.int32)
  if keeps:
    dates_of = tff.tensorflow.computation(
        lambda table: table['dates'], state_type['table']
    )
    fetch = keyed.build_fetch(
        dates_of.type_signature.result,
        lambda dates, client: dates[client] >= first, num_clients,
    )

  @tff.federated_computation(
      tff.FederatedType(state_type['table'], tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def is_known(table, index):
    if not keeps:
      return tff.federated_map(nobody, index)
    return fetch(tff.federated_map(dates_of, table), index)

  return is_known


def build_lines(
    devices: perm_devices.Devices, state_type: tff.StructType,
    gradients_type: tff.Type, num_clients: int,
    hyperparameters: perm_hyperparameters.PermHyperparameters,
    full_participation: bool,
) -> Lines:
  """Builds the lines.

  Args:
    devices: The model, and what the clients' devices hold of it.
    state_type: S.
    gradients_type: The collected rows of `perm_client.global_line`.
    num_clients: N.
    hyperparameters: `PermHyperparameters`.
    full_participation: Whether every round has all clients.
  """
  clock_type = collections.OrderedDict(round=np.int32, seed=np.int64)
  weights_type, mixing_type = state_type['weights'], state_type['mixing']
  cohort_type = tff.TensorType(np.bool_, [num_clients])

  @tff.tensorflow.computation(clock_type, weights_type, weights_type)
  def descend(clock, weights, mean_update):
    return tf.cond(
        # Attackers may send something even when w rests.
        perm_client.descends(
            clock['round'], hyperparameters, num_clients, full_participation
        ),
        lambda: _descend(clock, weights, mean_update, hyperparameters),
        lambda: weights,
    )

  @tff.tensorflow.computation(
      clock_type,
      collections.OrderedDict(
          mixing=mixing_type, assignment=state_type['assignment'],
          lambda_=np.float32, table=state_type['table'],
          anchor=state_type['anchor'],
      ),
      weights_type, np.float32, cohort_type, gradients_type,
  )
  def solve(clock, old, weights, scale, cohort, gradients):
    return _solve(
        devices, clock, old, weights, scale, cohort, gradients, num_clients,
        hyperparameters, full_participation,
    )

  @tff.tensorflow.computation(clock_type, weights_type, state_type['models'])
  def start(clock, weights, models):
    return _start(
        clock, weights, models, devices.model, num_clients, hyperparameters
    )

  @tff.tensorflow.computation(
      clock_type, mixing_type, state_type['pending'], cohort_type
  )
  def host(clock, mixing, pending, cohort):
    return _host(clock, mixing, pending, cohort, hyperparameters)

  return Lines(descend, solve, start, host)


def _descend(clock, weights, mean_update, hyperparameters):
  """(a) w <- w - gamma mean_i G_i; after local steps the mean of the u_i."""
  gamma = local_step.scheduled(hyperparameters, clock, hyperparameters.gamma)
  return tf.cond(
      perm_client.trains_w(clock['round'], hyperparameters),
      lambda: local_sgd.descend(weights, mean_update, 1.0),
      lambda: local_sgd.descend(weights, mean_update, gamma),
  )


def _solve(
    devices, clock, old, weights, scale, cohort, gradients, num_clients: int,
    hyperparameters, full_participation: bool,
):
  """(b) The rows of A: of all clients, of the cohort's, or of clusters."""
  t = clock['round']
  if old['table']:
    kept = fingerprints.written(old['table'], gradients, t)
    table = fingerprints.since(
        kept,
        perm_client.comparable_since(t, hyperparameters, full_participation),
    )
  else:  # All take part in every round.
    kept = table = fingerprints.of_round(gradients, num_clients, t)

  is_measured = tf.logical_and(
      perm_client.measures(
          t, hyperparameters, num_clients, full_participation
      ),
      tf.reduce_any(table['sizes'] > 0),
  )

  def solved():
    lambda_ = perm_mixing.choose_lambda(table, scale, hyperparameters)
    assignment = old['assignment']
    if hyperparameters.models:
      mixing, assignment = perm_clusters.solve(
          clock, old, table, lambda_, hyperparameters
      )
    elif full_participation:
      mixing = perm_mixing.solve_all(
          devices, old['mixing'], table, lambda_, hyperparameters
      )
    else:
      mixing = perm_mixing.solve_cohort(
          devices, old['mixing'], table, lambda_, cohort, hyperparameters
      )
    return mixing, assignment, tf.cast(lambda_, tf.float32)

  mixing, assignment, lambda_ = tf.cond(
      is_measured, solved,
      lambda: (old['mixing'], old['assignment'], old['lambda_']),
  )
  def after_solving(before, now):
    return tf.nest.map_structure(
        lambda b, n: tf.where(is_measured, n, b), before, now
    )

  measured = (
      perm_clusters.measurements(mixing, assignment, lambda_)
      if hyperparameters.models
      else perm_mixing.measurements(mixing, lambda_)
  )
  if hyperparameters.chooses_scale:
    measured['lambda_scale'] = scale
  return collections.OrderedDict(
      mixing=mixing, assignment=assignment, lambda_=lambda_,
      # What new clients are compared with: gradients at one w, the anchor.
      table=after_solving(kept, table) if old['table'] else (),
      anchor=after_solving(old['anchor'], weights) if old['table'] else (),
      measurements=measured,
  )


def _start(clock, weights, models, model, num_clients, hyperparameters):
  """All w_i are w (or w^0) until the visits begin."""
  first = hyperparameters.first_visit
  num_models = hyperparameters.num_models(num_clients)

  def beginning():
    if hyperparameters.init == 'global':
      return own_rows.tile(weights, num_models)
    is_last = tf.equal(clock['round'], first - 1)
    origin = tf.nest.map_structure(
        lambda initial, w: tf.where(is_last, initial, w),
        model.initial_weights(clock['seed']), weights,
    )
    return own_rows.tile(origin, num_models)

  return tf.cond(clock['round'] < first, beginning, lambda: models)


def _host(clock, mixing, pending, cohort, hyperparameters):
  """(c) Who hosts whom: nobody before the first visit."""
  first = hyperparameters.first_visit
  begun = clock['round'] >= first
  since = collections.OrderedDict(clock, round=clock['round'] - first)
  owners, after = visit_schedule.next_owners(
      since, mixing, pending, cohort, hyperparameters
  )
  owners = tf.where(begun, owners, -1)
  return collections.OrderedDict(
      owners=owners,
      pending=tf.nest.map_structure(
          lambda new, old: tf.where(begun, new, old), after, pending
      ),
      measurements=collections.OrderedDict(
          visits_idle=tf.where(begun, _idle(mixing, owners, cohort), 1.0)
      ),
  )


def _idle(mixing, owners, cohort):
  """Returns the share of the cohort that trains no model, or in vain."""
  here = tf.where(cohort)[:, 0]
  hosted = tf.gather(owners, here)
  weight = mixing_rows.MixingRows(mixing).weight(
      tf.maximum(hosted, 0), tf.cast(here, tf.int32)
  )
  works = tf.logical_and(hosted >= 0, weight > 0)
  return 1 - tf.reduce_mean(tf.cast(works, tf.float32))
