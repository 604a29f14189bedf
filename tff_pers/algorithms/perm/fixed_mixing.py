"""Shuffling Local SGD: N personalized models trained by visits (Algorithm 1).

In the N rounds of an epoch of permutations, every model visits every client
once; by default models are matched to clients that they learn from, see
`visit_schedule`. Here the mixing weights are fixed; `perm` learns them.

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. Algorithm 1.
"""

import collections
from typing import Optional

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import own_rows
from tff_pers.algorithms.perm import perm_devices
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.algorithms.perm import visit_schedule
from tff_pers.algorithms.perm import visits
from tff_pers.composition import builders
from tff_pers.composition import own_next
from tff_pers.composition import server_state
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import round_metrics
from tff_pers.core import traces
from tff_pers.models import functional
from tff_pers import tff

ShufflingHyperparameters = visit_schedule.ShufflingHyperparameters


@builders.checked
def build_shuffling(
    model: functional.FunctionalModel,
    mixing_weights: np.ndarray,
    hyperparameters: ShufflingHyperparameters = ShufflingHyperparameters(),
    *,
    full_participation: bool = True,
) -> process.PersonalizedProcess:
  """Builds shuffled training with fixed mixing weights (Algorithm 1).

    for epoch r:  sigma_r <- a fresh permutation of the clients
      for j in 0..N-1, all models i in parallel:
        c = sigma_r[(i + j) mod N]                     # host of model i
        K times: w_i <- w_i - eta s_i A[i, c] grad f_c(w_i; b)

  Model i approaches argmin_w sum_c A[i, c] f_c(w). Limit cases: A = identity is
  local training (once per epoch); all A[i, c] = 1/N drive every model to the
  minimizer of the mean loss. Cost per client and round: one model down and one
  up, as in FedAvg, and a scalar. Server state: `models` the table of the w_i
  [N, ...], `mixing` A, `pending` (see `visit_schedule.no_pending_visits`).
  Clients are stateless.

  Args:
    model: The model; f_c is its mean loss on client c.
    mixing_weights: A, floats [N, N], rows on the simplex; row = owner, column =
      host.
    hyperparameters: See `ShufflingHyperparameters`.
    full_participation: Whether every round has all clients; if not, rounds are
      matchings between the cohort and the models.

  Returns:
    A `PersonalizedProcess` for these N clients. A client deploys its row of
    `models`, weights of `model`.

  Raises:
    TypeError: If `model` or `hyperparameters` has the wrong type.
    ValueError: If `mixing_weights` is not square, has a negative entry, or a
      row that does not sum to 1.
  """
  rows = check_mixing_weights(mixing_weights)
  num_clients = len(rows)

  def init_fields(seed):
    mixing = tf.constant(rows)
    return collections.OrderedDict(
        models=own_rows.tile(model.initial_weights(seed), num_clients),
        mixing=mixing,
        pending=visit_schedule.no_pending_visits(
            hyperparameters, mixing, full_participation
        ),
    )

  initialize_seeded = server_state.build_initialize(init_fields)
  state_type = initialize_seeded.type_signature.result.member
  setting = setting_lib.Setting(
      perm_devices.Devices(model), hyperparameters, num_clients,
      full_participation,
  )

  def host(clock, mixing, pending, here):
    return visit_schedule.next_owners(
        clock, mixing, pending, here, hyperparameters
    )

  @traces.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType((), tff.CLIENTS),
      tff.FederatedType(setting.data_type, tff.CLIENTS),
  )
  def next_fn(state, client_states, data):
    index = own_next.computed(lambda data: data['index'], data)
    hosts = own_next.computed(
        host, own_next.fields_of(state, 'round', 'seed'), state.mixing,
        state.pending, keyed.present(index, num_clients),
    )
    models, report = visits.visit_clients(
        setting, state, state.models, state.mixing, hosts.owners, index, data
    )
    metrics = own_next.computed(own_next.of_reports, data, (report,))
    return process.RoundOutput(
        state=own_next.advance(state, models=models, pending=hosts.pending),
        client_states=client_states,
        metrics=round_metrics.aggregate(metrics),
    )

  return own_rows.deploying(
      setting, initialize_seeded=initialize_seeded, next_fn=next_fn
  ).require(num_clients, full_participation)


def check_mixing_weights(mixing_weights: Optional[np.ndarray]) -> np.ndarray:
  """Returns A as float32[N, N]; see `build_shuffling` for errors raised."""
  mixing = np.asarray(mixing_weights, np.float64)
  if mixing.ndim != 2 or mixing.shape[0] != mixing.shape[1]:
    raise ValueError(
        '`mixing_weights` must be square, [num_clients, num_clients], found'
        f' shape {mixing.shape}.'
    )
  sums, least = mixing.sum(axis=1), mixing.min(axis=1)
  good = (least >= 0) & (np.abs(sums - 1) <= 1e-6)  # False for NaN.
  if not np.all(good):
    worst = int(np.argmin(good))
    raise ValueError(
        'Every row of `mixing_weights` must be >= 0 and sum to 1, found row'
        f' {worst} with minimum {least[worst]} and sum {sums[worst]}.'
    )
  return mixing.astype(np.float32)


@methods.register(
    'oracle_groups', ShufflingHyperparameters, needs=('groups',),
    weighs_clients=False,
    summary='shuffling with uniform weights in the true group (reference)',
    travels=None,
)
def _build_oracle_groups(task, hyperparameters):
  same = np.equal.outer(task.groups, task.groups).astype(np.float64)
  return build_shuffling(
      task.model, same / same.sum(axis=1, keepdims=True), hyperparameters,
      full_participation=task.full_participation,
  )


@methods.register(
    'uniform_shuffling', ShufflingHyperparameters, weighs_clients=False,
    summary='shuffling with uniform weights 1/N (reference)',
    travels=None,
)
def _build_uniform_shuffling(task, hyperparameters):
  n = task.num_clients
  return build_shuffling(
      task.model, np.full([n, n], 1 / n), hyperparameters,
      full_participation=task.full_participation,
  )
