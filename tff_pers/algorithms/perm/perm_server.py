"""Server side of PERM: updates w, solves for A, assigns hosts."""

import collections
from typing import Any, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import choice
from tff_pers.algorithms.perm import fingerprints
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm_clusters
from tff_pers.algorithms.perm import perm_lambda
from tff_pers.algorithms.perm import perm_mixing
from tff_pers.algorithms.perm import setting
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.core import interception
from tff_pers.numerics import distances
from tff_pers.numerics import mixing_rows
from tff_pers import tff


class Server(setting.PermSetting):
  """Server computations of a round; a clock is `<round, seed>`."""

  def initial_fields(self, seed: tf.Tensor, keeps_table: bool) -> Any:
    """Returns the method's own fields of S, see `perm.build_perm`."""
    hyperparameters = self.hyperparameters
    weights = self.devices.model.initial_weights(seed)
    vector = distances.flatten(weights)
    mixing = perm_mixing.initial(self)
    return collections.OrderedDict(
        weights=weights,
        models=own_rows.tile(weights, self.num_models),
        mixing=mixing,
        pending=visit_schedule.no_pending_visits(
            hyperparameters, mixing, self.full_participation
        ),
        table=fingerprints.empty_table(
            self.num_clients, hyperparameters.sketch or vector.shape[0],
            vector.dtype,
        ) if keeps_table else (),
        anchor=weights if keeps_table else (),
        assignment=perm_clusters.unassigned(self),
        scale=tf.convert_to_tensor(
            perm_lambda.DEFAULT if hyperparameters.lambda_scale == 'auto'
            else hyperparameters.lambda_scale, tf.float32,
        ),
        lambda_=tf.constant(0.0),
    )

  def build_aggregator(
      self, sent_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the mean of (a), or the robust rule that replaces it."""
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    factory = choice.chosen(self.hyperparameters) or mean
    return interception.changed(
        'aggregator', self.devices.averaged(factory)
    ).create(sent_type, tff.TensorType(np.float32))

  def descend(
      self, clock: Mapping[str, Any], weights: Any, mean_update: Any
  ) -> Any:
    """(a) w <- w - gamma mean_i G_i; with local steps w - mean_i (w - u_i)."""
    hyperparameters, t = self.hyperparameters, clock['round']

    def moved():
      gamma = local_step.scheduled(
          hyperparameters, clock, hyperparameters.gamma
      )
      return tf.cond(
          self.trains_w(t),
          lambda: local_sgd.descend(weights, mean_update, 1.0),
          lambda: local_sgd.descend(weights, mean_update, gamma),
      )

    # Attackers may send values even when w rests.
    return tf.cond(self.moves_w(t), moved, lambda: weights)

  def solve(
      self, old: Mapping[str, Any], kappa: tf.Tensor, cohort: tf.Tensor,
      gradients: Any,
  ) -> Any:
    """(b) Solves for rows of A: of all clients, the cohort, or clusters.

    Args:
      old: Fields of S: `<round, seed, weights, mixing, assignment, lambda_,
        table, anchor>`.
      kappa: The scalar of `lambda=auto`, see `perm_lambda`.
      cohort: bool[N], the clients that take part.
      gradients: Collected rows of `Client.work_on_w`.

    Returns:
      `<mixing, assignment, lambda_, table, anchor, measurements>`.
    """
    hyperparameters, t = self.hyperparameters, old['round']
    if old['table']:
      all_known = fingerprints.written(old['table'], gradients, t)
      comparable = fingerprints.since(all_known, self.comparable_since(t))
    else:  # All clients take part in every round.
      comparable = fingerprints.of_round(gradients, self.num_clients, t)
    is_updated = tf.logical_and(
        self.updates_mixing(t), tf.reduce_any(comparable['sizes'] > 0)
    )

    def solved():
      lambda_ = perm_mixing.choose_lambda(comparable, kappa, hyperparameters)
      problem = perm_mixing.Problem(self, comparable, lambda_)
      assignment = old['assignment']
      if hyperparameters.models:
        mixing, assignment = perm_clusters.solve(problem, old)
      elif self.full_participation:
        mixing = problem.all_rows(old['mixing'])
      else:
        mixing = problem.cohort_rows(old['mixing'], cohort)
      return mixing, assignment, tf.cast(lambda_, tf.float32)

    mixing, assignment, lambda_ = tf.cond(
        is_updated, solved,
        lambda: (old['mixing'], old['assignment'], old['lambda_']),
    )

    metrics = (
        perm_clusters.measurements(mixing, assignment, lambda_)
        if hyperparameters.models
        else perm_mixing.measurements(mixing, lambda_)
    )
    if hyperparameters.chooses_kappa:
      metrics['lambda_scale'] = kappa
    table, anchor = (), old['anchor']
    if old['table']:
      # Only gradients taken at one w, the anchor, are stored with it, because
      # new clients are compared with them. Without an update it stays.
      table, anchor = tf.nest.map_structure(
          lambda before, now: tf.where(is_updated, now, before),
          (all_known, anchor), (comparable, old['weights']),
      )
    return collections.OrderedDict(
        mixing=mixing, assignment=assignment, lambda_=lambda_,
        table=table, anchor=anchor, measurements=metrics,
    )

  def start(self, clock: Mapping[str, Any], weights: Any, models: Any) -> Any:
    """(c) Returns models: all w_i are w (or w^0) until the visits begin."""
    first = self.hyperparameters.first_visit

    def beginning():
      origin = weights
      if self.hyperparameters.init == 'initial':
        is_last = tf.equal(clock['round'], first - 1)
        origin = tf.nest.map_structure(
            lambda initial, w: tf.where(is_last, initial, w),
            self.devices.model.initial_weights(clock['seed']), weights,
        )
      return own_rows.tile(origin, self.num_models)

    return tf.cond(clock['round'] < first, beginning, lambda: models)

  def host(
      self, clock: Mapping[str, Any], mixing: Any, pending: Any,
      cohort: tf.Tensor,
  ) -> Any:
    """(c) Assigns hosts; there are none before the first visit.

    Returns `<owners, pending, measurements>`, see `visit_schedule.next_owners`.
    """
    first = self.hyperparameters.first_visit
    begun = clock['round'] >= first
    visit_clock = dict(seed=clock['seed'], round=clock['round'] - first)
    hosts = visit_schedule.next_owners(
        visit_clock, mixing, pending, cohort, self.hyperparameters
    )
    owners = tf.where(begun, hosts['owners'], -1)
    return collections.OrderedDict(
        owners=owners,
        pending=tf.nest.map_structure(
            lambda old, new: tf.where(begun, new, old), pending,
            hosts['pending'],
        ),
        measurements=collections.OrderedDict(
            visits_idle=tf.where(begun, _idle(mixing, owners, cohort), 1.0)
        ),
    )


def _idle(mixing, owners, cohort):
  """Returns the share of the cohort with no model, or one of weight 0."""
  here = tf.where(cohort)[:, 0]
  hosted = tf.gather(owners, here)
  weight = mixing_rows.MixingRows(mixing).weight(
      tf.maximum(hosted, 0), tf.cast(here, tf.int32)
  )
  works = tf.logical_and(hosted >= 0, weight > 0)
  return 1 - tf.reduce_mean(tf.cast(works, tf.float32))
