"""Mixing weights A: row i is client i's mixture of everybody's losses.

Dense, they are float32[N, N]; sparse, <columns int32[N, k], values float32[N,
k]>, for more clients than a table of all pairs has room for.

Distributed Personalized Empirical Risk Minimization
    Yuyang Deng, Mohammad Mahdi Kamani, Pouria Mahdavinia, Mehrdad Mahdavi.
    NeurIPS 2023. Sparse rows are ours (the paper leaves N x N as open).
"""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.numerics import mixing


class MixingRows:
  """Reads A, whether it is dense or sparse.

  Attributes:
    values: float32[N, N or k], what is kept of the rows.
    num_clients: N.
  """

  def __init__(self, rows):
    """Wraps rows.

    Args:
      rows: float32[N, N], or `<columns, values>` of [N, k].
    """
    self._is_dense = isinstance(rows, tf.Tensor)
    self.values = rows if self._is_dense else rows['values']
    self._columns = None if self._is_dense else rows['columns']
    self.num_clients = self.values.shape[0]

  def weight(self, owner, host):
    """Returns alpha_owner(host), a float32 scalar."""
    if self._is_dense:
      return self.values[owner, host]
    hits = tf.equal(self._columns[owner], host)
    return tf.reduce_sum(tf.where(hits, self.values[owner], 0.0))

  def maximum(self, owner):
    """Returns max_c alpha_owner(c), a float32 scalar."""
    return tf.reduce_max(self.values[owner])

  def count(self, owner):
    """Returns the number of clients with alpha_owner(c) > 0, int32."""
    return tf.reduce_sum(tf.cast(self.values[owner] > 0, tf.int32))

  def own(self):
    """Returns alpha_i(i) for all i, float32[N]."""
    if self._is_dense:
      return tf.linalg.diag_part(self.values)
    owners = tf.range(self.num_clients)[:, None]
    return tf.reduce_sum(
        tf.where(tf.equal(self._columns, owners), self.values, 0.0), axis=1
    )

  def support(self):
    """Returns bool[N, N], where alpha_i(c) > 0."""
    if self._is_dense:
      return self.values > 0
    n = self.num_clients
    owners = tf.broadcast_to(tf.range(n)[:, None], tf.shape(self._columns))
    hits = tf.where(self.values > 0)
    pairs = tf.stack(
        [tf.gather_nd(owners, hits), tf.gather_nd(self._columns, hits)], axis=1
    )
    return tf.tensor_scatter_nd_update(
        tf.zeros([n, n], tf.bool), pairs,
        tf.ones([tf.shape(hits)[0]], tf.bool),
    )


def identity(num_clients: int, num_nonzeros: int = 0):
  """Returns A = I, every client by itself.

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


def uniform(num_clients: int):
  """Returns A = 1 / N, one mixture for all."""
  return tf.fill([num_clients, num_clients], np.float32(1 / num_clients))


def kept(alpha, owners, num_nonzeros: int = 0):
  """Returns rows in the form that they are stored in.

  Args:
    alpha: Rows on the simplex, floats [M, N].
    owners: int32[M], whose they are.
    num_nonzeros: k of sparse rows, renormalized, with the own entry; 0: dense.
  """
  if not num_nonzeros:
    return tf.cast(alpha, tf.float32)
  columns, values = mixing.sparse_rows(alpha, owners, num_nonzeros)
  return collections.OrderedDict(
      columns=columns, values=tf.cast(values, tf.float32)
  )
