"""Assigns models to hosts in a round of visits, by permutations or matchings.

Permutations are those of the paper's Algorithm 1; matchings, and with them
partial participation, are ours.
"""

import collections
import dataclasses
from typing import Any, Mapping, Union

import tensorflow as tf

from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.core import random
from tff_pers.numerics import matching
from tff_pers.numerics import mixing_rows
from tff_pers.numerics import schedule

# Separate the server's draws.
SCHEDULE_USE = -2
_MATCHING_USE = -3


@dataclasses.dataclass(frozen=True)
class ShufflingHyperparameters(hp.LocalTraining):
  """Hyperparameters of visits, common to methods that shuffle models."""

  step_scale: str = hp.field(
      'clients',
      'Scale s_i of the step eta * s_i * alpha_i(c): clients (as many as model'
      ' i meets in an epoch, so that eta is as in FedAvg) or one.',
      choices=('clients', 'one'),
  )
  step_cap: Union[float, str] = hp.field(
      'auto',
      'Approximate upper limit of s_i * alpha_i(c), in units of eta. Above it,'
      ' a model visits c several times per epoch with matchings, and s_i <='
      ' cap / max_c alpha_i(c) with permutations; auto: 1 and 4; 0: no'
      ' cap.',
      minimum=0.0, auto=True, when='step_scale=clients',
  )
  schedule: str = hp.field(
      'matching',
      'How models are assigned to hosts: matching (in an epoch a model meets'
      ' the clients with alpha_i(c) > 0, those of large weight several times;'
      ' always used with partial participation) or'
      ' permutation (it meets all N, also those with alpha_i(c) = 0:'
      ' Algorithm 1).',
      choices=('matching', 'permutation'),
  )

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    # An epoch has N rounds; with permutations, models are comparable at its
    # end.
    is_matched = self.uses_matching(num_clients == cohort_size)
    return super().cadence(num_clients, cohort_size)._replace(
        cycle=num_clients, at_ends=not is_matched
    )

  def uses_matching(self, full_participation: bool) -> bool:
    """Returns whether rounds are matchings, not permutations.

    Args:
      full_participation: Whether every round has all clients.
    """
    return self.schedule == 'matching' or not full_participation

  def cap(self, *, matched: bool) -> float:
    """Returns `step_cap` for matchings or permutations; 0: none.

    Args:
      matched: Whether rounds are matchings.
    """
    if not isinstance(self.step_cap, str):
      return self.step_cap
    return 1.0 if matched else 4.0


def no_pending_visits(
    hyperparameters: Any, mixing: Any, full_participation: bool
) -> Any:
  """Returns the initial value of the server state's field `pending`.

  For matchings `<clients int32[N, K], left int32[N, K], so_far int32[N]>`: row
  i holds how often model i still has to visit which clients in its epoch, and
  how often it was visited. Permutations need no memory: ().
  """
  if hyperparameters.uses_matching(full_participation):
    rows = mixing_rows.MixingRows(mixing)
    return collections.OrderedDict(
        clients=rows.clients, left=tf.zeros(rows.clients.shape, tf.int32),
        so_far=tf.zeros([rows.num_models], tf.int32),
    )
  return ()


def visits_per_epoch(
    alpha: tf.Tensor, count: tf.Tensor, hyperparameters: Any
) -> tf.Tensor:
  """Returns how often a model visits a client in its epoch, int32.

  In an epoch model i takes s_i alpha_i(c) times as many steps at client c as in
  local training, s_i = `count`, in visits of about `step_cap` each: a client of
  large weight is visited several times. A single visit with a large step would
  not work, because step sizes are usually chosen as large as possible.

  Args:
    alpha: alpha_i(c), float32.
    count: The number of clients with alpha_i(c) > 0, int32.
    hyperparameters: `ShufflingHyperparameters`.
  """
  once = tf.cast(alpha > 0, tf.int32)
  cap = hyperparameters.cap(matched=True)
  if hyperparameters.step_scale == 'one' or not cap:
    return once
  visits = tf.round(tf.cast(count, tf.float32) * alpha / cap)
  return once * tf.maximum(tf.cast(visits, tf.int32), 1)


def next_owners(
    visit_clock: Mapping[str, Any], mixing: Any, pending: Any,
    cohort: tf.Tensor, hyperparameters: Any,
) -> Any:
  """Returns <owners int32[N], the model at each client, -1: none; pending>.

  Args:
    visit_clock: `<round, seed>`; the first round with visits is 0.
    mixing: Mixing weights, whose support matchings visit.
    pending: See `no_pending_visits`.
    cohort: bool[N], the clients that take part; permutations need all.
    hyperparameters: `ShufflingHyperparameters`.
  """
  if pending:
    key = random.key(visit_clock['seed'], _MATCHING_USE, visit_clock['round'])
    return matching_owners(pending, mixing, cohort, key, hyperparameters)
  all_are_here = tf.debugging.Assert(
      tf.reduce_all(cohort),
      ['Every round must have all clients: the process was built for full'
       ' participation.'],
  )
  with tf.control_dependencies([all_are_here]):
    hosts = schedule.hosts(
        visit_clock['seed'], visit_clock['round'], cohort.shape[0], SCHEDULE_USE
    )
    owners = schedule.owners(hosts, cohort.shape[0])
    num_models = mixing_rows.MixingRows(mixing).num_models
    # With fewer models than clients, models visit as if there were N.
    owners = tf.where(owners < num_models, owners, -1)
  return collections.OrderedDict(owners=owners, pending=pending)


def matching_owners(
    pending: Any, mixing: Any, cohort: tf.Tensor, key: tf.Tensor,
    hyperparameters: Any,
) -> Any:
  """Returns the result of `next_owners` for a round by matching.

  A model without remaining visits starts its next epoch: the support of
  alpha_i. With partial participation, a model whose last hosts are absent does
  not wait for them: it starts the next epoch and still owes them their visits,
  of at most two epochs.
  """
  rows = mixing_rows.MixingRows(mixing)
  alpha, clients = rows.values, rows.clients
  counts = tf.reduce_sum(tf.cast(alpha > 0, tf.int32), axis=1, keepdims=True)
  epoch = visits_per_epoch(alpha, counts, hyperparameters)
  # A may have changed since.
  left = tf.minimum(
      rows.looked_up(pending['clients'], pending['left']), 2 * epoch
  )
  is_done = tf.reduce_all(tf.equal(left, 0), axis=1, keepdims=True)
  left = tf.where(is_done, epoch, left)
  so_far = pending['so_far']
  hosts = matching.matching(clients, left, so_far, cohort, key)

  is_free = tf.logical_and(
      cohort, schedule.owners(hosts, cohort.shape[0]) < 0
  )
  # In rounds of cohorts, models without a host begin their next epoch, at
  # clients that are still free; what they owe of this one is kept.
  is_stranded = tf.logical_and(hosts < 0, tf.logical_not(tf.reduce_all(cohort)))
  with_next_epoch = tf.minimum(left + epoch, 2 * epoch)
  extra_hosts = matching.matching(
      clients, tf.where(is_stranded[:, None], with_next_epoch, 0), so_far,
      is_free, random.fold_in(key, 1),
  )
  left = tf.where(extra_hosts[:, None] >= 0, with_next_epoch, left)
  hosts = tf.maximum(hosts, extra_hosts)

  visited = tf.cast(tf.equal(clients, hosts[:, None]), tf.int32)
  # A client of weight 0 may occur in several columns.
  left = tf.maximum(left - visited, 0)
  return collections.OrderedDict(
      owners=schedule.owners(hosts, cohort.shape[0]),
      pending=collections.OrderedDict(
          clients=clients, left=left,
          so_far=so_far + tf.cast(hosts >= 0, tf.int32),
      ),
  )
