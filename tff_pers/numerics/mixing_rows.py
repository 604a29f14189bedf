"""Mixing weights A: row i is client i's mixture of all clients' losses.

Dense, they are float32[N, N]; sparse, <columns int32[N, k], values float32[N,
k]>, for more clients than a dense table can hold. With a model per cluster of
clients they are dense rows of the C models, float32[C, N]. Sparse rows are
ours: PERM's paper leaves the cost of N x N open.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf

from tff_pers.numerics import mixing


class MixingRows:
  """Reads A, dense or sparse.

  Attributes:
    values: float32[N, K], the stored entries of rows, K = N or k.
    clients: int32[N, K], the clients of these entries.
    num_models: Number of rows, N or C.
    num_clients: N.
  """

  def __init__(self, rows: Any):
    """Wraps rows.

    Args:
      rows: float32[N, N] or [C, N], or `<columns, values>` of [N, k].
    """
    self._is_dense = isinstance(rows, tf.Tensor)
    self.values = rows if self._is_dense else rows['values']
    self.num_models = self.values.shape[0]
    self.num_clients = self.values.shape[1 if self._is_dense else 0]
    self.clients = (
        tf.broadcast_to(tf.range(self.num_clients), self.values.shape)
        if self._is_dense else rows['columns']
    )

  def weight(self, owner: tf.Tensor, host: tf.Tensor) -> tf.Tensor:
    """Returns alpha_owner(host), float32, for integers of one shape."""
    if self._is_dense:
      return tf.gather_nd(self.values, tf.stack([owner, host], axis=-1))
    hits = tf.equal(tf.gather(self.clients, owner), host[..., None])
    return tf.reduce_sum(
        tf.where(hits, tf.gather(self.values, owner), 0.0), axis=-1
    )

  def maximum(self, owner: tf.Tensor) -> tf.Tensor:
    """Returns max_c alpha_owner(c), a float32 scalar."""
    return tf.reduce_max(self.values[owner])

  def count(self, owner: tf.Tensor) -> tf.Tensor:
    """Returns the number of clients with alpha_owner(c) > 0, int32."""
    return tf.reduce_sum(tf.cast(self.values[owner] > 0, tf.int32))

  def own(self) -> tf.Tensor:
    """Returns alpha_i(i) for all i, float32[N]."""
    owners = tf.range(self.num_clients)
    return self.weight(owners, owners)

  def dense(self, owners: tf.Tensor) -> tf.Tensor:
    """Returns the rows of `owners`, int32[M], as float32[M, N]."""
    if self._is_dense:
      return tf.gather(self.values, owners)
    clients = tf.gather(self.clients, owners)
    places = tf.stack([
        tf.broadcast_to(tf.range(tf.size(owners))[:, None], tf.shape(clients)),
        clients,
    ], axis=-1)
    return tf.scatter_nd(
        places, tf.gather(self.values, owners),
        [tf.size(owners), self.num_clients],
    )

  def looked_up(self, clients: tf.Tensor, visits: tf.Tensor) -> tf.Tensor:
    """Returns `visits` for the clients of these rows, int32[N, K].

    Args:
      clients: int32[N, K], clients of rows at an earlier time.
      visits: int32[N, K], a number for each; it is 0 for clients that are not
        among them.
    """
    if self._is_dense:  # Column c is client c at all times.
      return visits
    order = tf.argsort(clients, axis=1, stable=True)
    sorted_clients = tf.gather(clients, order, batch_dims=1)
    place = tf.searchsorted(sorted_clients, self.clients)
    place = tf.minimum(place, clients.shape[1] - 1)
    sorted_visits = tf.gather(visits, order, batch_dims=1)
    found = tf.gather(sorted_visits, place, batch_dims=1)
    is_same = tf.equal(
        tf.gather(sorted_clients, place, batch_dims=1), self.clients
    )
    return tf.where(is_same, found, 0)


def identity(num_clients: int, num_nonzeros: int = 0) -> Any:
  """Returns A = I: every client learns only from itself.

  Args:
    num_clients: N.
    num_nonzeros: k of sparse rows; 0: dense.
  """
  if not num_nonzeros:
    return tf.eye(num_clients)
  return collections.OrderedDict(
      columns=tf.tile(tf.range(num_clients)[:, None], [1, num_nonzeros]),
      values=tf.tile(tf.one_hot(0, num_nonzeros)[None, :], [num_clients, 1]),
  )


def uniform(num_models: int, num_clients: int) -> Any:
  """Returns A = 1 / N, one mixture for all models."""
  return tf.fill([num_models, num_clients], np.float32(1 / num_clients))


def kept(alpha: Any, owners: tf.Tensor, num_nonzeros: int = 0) -> Any:
  """Returns rows in the form in which they are stored.

  Args:
    alpha: Rows on the simplex, floats [M, N].
    owners: int32[M], the owners of the rows.
    num_nonzeros: k of sparse rows, renormalized, with the own entry; 0: dense.
  """
  if not num_nonzeros:
    return tf.cast(alpha, tf.float32)
  columns, values = mixing.sparse_rows(alpha, owners, num_nonzeros)
  return collections.OrderedDict(
      columns=columns, values=tf.cast(values, tf.float32)
  )


def replaced(rows: Any, owners: tf.Tensor, new: tf.Tensor) -> Any:
  """Returns `rows` with the rows of `owners` int32[M] replaced by `new`."""
  return tf.nest.map_structure(
      lambda old, given: tf.tensor_scatter_nd_update(
          old, owners[:, None], given
      ),
      rows, new,
  )
