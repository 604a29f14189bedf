"""Table of the clients' gradients at the shared model on PERM's server.

Mixing weights compare gradients of all clients at the same w. If a round has
only some of the clients, a gradient is kept until w moves, so that after about
N / m rounds of m clients all N are known. This is ours; the paper has all
clients in every round.

A table is `<fingerprints [N, p], rows, sizes, variances float32[N], dates
int32[N]>` by client: the gradient or its sketch (see `perm_client`), the number
of examples that it was computed from, the client's number of examples n_i,
their gradients' variance, and the round of the gradient, -1: never. Clients
that are left out have size 0.
"""

import collections
from typing import Any, Mapping

import tensorflow as tf

from tff_pers.aggregators import shuffling as keyed
from tff_pers.algorithms.perm import setting as setting_lib
from tff_pers.composition import own_next


def empty_table(num_clients: int, dimension: int, dtype: tf.DType) -> Any:
  """Returns the empty table before the first gradient."""
  zeros = tf.zeros([num_clients])
  return collections.OrderedDict(
      dates=tf.fill([num_clients], -1),
      fingerprints=tf.zeros([num_clients, dimension], dtype),
      rows=zeros, sizes=zeros, variances=zeros,
  )


def known(setting: setting_lib.Setting, table: Any, index: Any) -> Any:
  """Returns {bool}@CLIENTS, whether another gradient would add no information.

  That is, whether the server has one of all examples at the current w: never
  if all clients take part (w moves, or A is updated once), or with batches.
  """
  w_fixed_since = setting.hyperparameters.first_visit
  if setting.full_participation or setting.hyperparameters.gradient_batch:
    return own_next.computed(lambda client: False, index)
  return keyed.fetch(
      own_next.computed(lambda table: table['dates'], table), index,
      lambda dates, client: dates[client] >= w_fixed_since, setting.num_clients,
  )


def written(
    table: Mapping[str, Any], gradients: Mapping[str, Any], t: tf.Tensor
) -> Any:
  """Returns the table after round t.

  `gradients` are `<fingerprints [M, p], keys int32[M], rows, sizes,
  variances float32[M]>`, collected in any order.
  """
  keys = gradients['keys']
  dates = tf.fill(tf.shape(keys), t)
  return collections.OrderedDict(
      # Scattered, not permuted: a static shape set inside a `tf.cond` would be
      # folded into the shapes outside of it (TensorFlow 2.14).
      (
          name, tf.tensor_scatter_nd_update(
              column, keys[:, None],
              dates if name == 'dates' else gradients[name],
          )
      )
      for name, column in table.items()
  )


def of_round(
    gradients: Mapping[str, Any], num_clients: int, t: tf.Tensor
) -> Any:
  """Returns the table after round t if no gradient was known before."""
  keys, vectors = gradients['keys'], gradients['fingerprints']
  before = empty_table(num_clients, vectors.shape[1], vectors.dtype)
  # If all clients take part, rows mostly arrive in order, and then the rows,
  # which are as large as all models, are the table: no copy is needed.
  in_order = tf.logical_and(
      tf.equal(tf.size(keys), num_clients),
      tf.reduce_all(tf.equal(keys, tf.range(tf.size(keys)))),
  )

  def as_they_are():
    rows = dict(gradients, dates=tf.fill(tf.shape(keys), t))
    return collections.OrderedDict((name, rows[name]) for name in before)

  table = tf.cond(
      in_order, as_they_are, lambda: written(before, gradients, t)
  )
  return tf.nest.map_structure(
      lambda column, like: tf.ensure_shape(column, like.shape), table, before
  )


def since(table: Mapping[str, Any], first_round: tf.Tensor) -> Any:
  """Returns the table without gradients taken before `first_round`."""
  is_comparable = table['dates'] >= first_round

  def keep(column, nothing):
    kept = tf.reshape(is_comparable, [-1] + [1] * (column.shape.rank - 1))
    return tf.where(kept, column, tf.cast(nothing, column.dtype))

  return collections.OrderedDict(
      (name, keep(column, -1 if name == 'dates' else 0))
      for name, column in table.items()
  )
