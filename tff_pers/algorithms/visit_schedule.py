"""Who hosts whom in a round of visits: permutations or matchings.

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. Permutations are those of Algorithm 1; matchings, and with
    them partial participation, are ours: the paper leaves it open.
"""

import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import random
from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms import mixing_rows
from tff_pers.numerics import schedule

# Keep the server's draws apart.
SCHEDULE_USE = -2
_MATCHING_USE = -3


def uses_matching(hyperparameters, full_participation: bool) -> bool:
  """Returns whether rounds are matchings."""
  return hyperparameters.schedule == 'matching' or not full_participation


def nothing_pending(
    hyperparameters, num_clients: int, full_participation: bool
):
  """Returns the start of the server state's field `pending`.

  Matchings have bool[N, N]: row i, the clients that model i has still to visit
  in its epoch. Permutations need no memory: ().
  """
  if uses_matching(hyperparameters, full_participation):
    return tf.zeros([num_clients, num_clients], tf.bool)
  return ()


def is_matching(pending_type: tff.Type) -> bool:
  """Returns whether rounds are matchings, by the type of `pending`."""
  return isinstance(pending_type, tff.TensorType)


def next_owners(clock, mixing, pending, cohort):
  """Returns (model at each client int32[N], -1 for none; pending).

  Args:
    clock: `<round, seed>`; the round is counted from the first with visits.
    mixing: Mixing weights whose support matchings visit.
    pending: See `nothing_pending`.
    cohort: bool[N], who takes part; permutations need all clients.
  """
  if isinstance(pending, tf.Tensor):
    key = random.key(clock['seed'], _MATCHING_USE, clock['round'])
    return matching_owners(pending, mixing, cohort, key)
  all_are_here = tf.debugging.Assert(
      tf.reduce_all(cohort),
      ['Every round must have all clients: the process was built for full'
       ' participation.'],
  )
  with tf.control_dependencies([all_are_here]):
    owners = permutation_owners(
        clock['seed'], clock['round'], cohort.shape[0]
    )
    return owners, pending


def permutation_owners(seed, visit_round, num_clients: int):
  """Returns the model at each client: sigma_r[(i + j) mod N] hosts model i."""
  hosts = schedule.hosts(seed, visit_round, num_clients, SCHEDULE_USE)
  return schedule.owners(hosts, num_clients)


def matching_owners(pending, mixing, cohort, key):
  """Returns (model at each client, pending) of a round by matching.

  A model that has nobody left to visit starts its next epoch: the support of
  alpha_i.

  Args:
    pending: bool[N, N].
    mixing: Mixing weights.
    cohort: bool[N].
    key: int64[2].
  """
  num_clients = cohort.shape[0]
  supported = mixing_rows.MixingRows(mixing).support()
  pending = tf.logical_and(pending, supported)  # A may have changed.
  is_done = tf.logical_not(tf.reduce_any(pending, axis=1, keepdims=True))
  pending = tf.where(is_done, supported, pending)
  hosts = schedule.matching(pending, cohort, key)
  visited = tf.one_hot(
      hosts, num_clients, on_value=True, off_value=False, dtype=tf.bool
  )
  owners = schedule.owners(hosts, num_clients)
  return owners, tf.logical_and(pending, tf.logical_not(visited))


def build_cohort(data_type: tff.Type, num_clients: int) -> tff.Computation:
  """Returns `({D}@CLIENTS -> bool[N]@SERVER)`, True at the cohort's clients."""

  @tff.tensorflow.computation(data_type)
  def own_index(data):
    return data['index'][None]

  collect = keyed.RowCollectionFactory(num_clients).create(
      own_index.type_signature.result
  )

  @tff.tensorflow.computation(
      collect.next.type_signature.result['result'].member
  )
  def as_mask(keys):
    return tf.tensor_scatter_nd_update(
        tf.zeros([num_clients], tf.bool), keys[:, None],
        tf.ones([tf.shape(keys)[0]], tf.bool),
    )

  @tff.federated_computation(tff.FederatedType(data_type, tff.CLIENTS))
  def cohort(data):
    indices = tff.federated_map(own_index, data)
    collected = collect.next(collect.initialize(), indices).result
    return tff.federated_map(as_mask, collected)

  return cohort
