"""Truncated singular value decompositions of the kernels of layers.

A kernel is unrolled to a matrix: a dense one [n, m] is one already; of a
convolution [kh, kw, in, out] the rows are pairs (in, vertical tap), the columns
(out, horizontal tap). It is a transposition before the reshape: other
groupings give matrices of the same shape that two thin convolutions cannot
stand for.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
"""

from typing import Any, Sequence

import tensorflow as tf

from tff_pers.numerics import low_rank


def unrolled_shape(shape: Sequence[int]) -> tuple[int, int]:
  """Returns the shape of the unrolled kernel, (n, m) or (in kh, out kw)."""
  if len(shape) == 2:
    rows, columns = shape
    return rows, columns
  height, width, inputs, outputs = shape
  return inputs * height, outputs * width


def unroll(kernel: tf.Tensor) -> Any:
  """Returns the matrix M of a kernel; M[i kh + a, o kw + b] = K[a, b, i, o].

  Args:
    kernel: Floats [n, m] or [kh, kw, in, out], of known shape.
  """
  if len(kernel.shape) == 2:
    return kernel
  rows, columns = unrolled_shape(kernel.shape)
  return tf.reshape(tf.transpose(kernel, [2, 0, 3, 1]), [rows, columns])


def factorize(kernel: tf.Tensor, rank: int) -> low_rank.Factors:
  """Returns the best approximation of a rank: v = U sqrt(S), u = sqrt(S) V^T.

  Both factors get the root of the singular values, so that v^T v = u u^T = S:
  spectral initialization. The factors of a smaller rank are the leading columns
  and rows of these, see `cut`: one decomposition serves all ranks.

  Args:
    kernel: Floats [n, m] or [kh, kw, in, out], of known shape.
    rank: At least 0, at most the smaller side of the unrolled kernel; 0: empty
      factors, and nothing is computed.
  """
  matrix = unroll(kernel)
  if rank:
    values, left, right = tf.linalg.svd(matrix)
    root = tf.sqrt(values[:rank])
    v = left[:, :rank] * root
    u = root[:, None] * tf.transpose(right[:, :rank])
  else:
    v, u = matrix[:, :0], matrix[:0]
  return _fold(v, u, kernel.shape)


def recover(factors: low_rank.Factors) -> Any:
  """Returns the kernel that the factors stand for; their rank may be unknown.

  Args:
    factors: [n, r] and [r, m], or [kh, 1, in, r] and [1, kw, r, out].
  """
  if len(factors.v.shape) == 2:
    return tf.matmul(*factors)
  height, _, inputs, _ = factors.v.shape
  _, width, _, outputs = factors.u.shape
  product = tf.matmul(*as_matrices(factors))
  product = tf.reshape(product, [inputs, height, outputs, width])
  return tf.transpose(product, [1, 3, 0, 2])


def cut(factors: low_rank.Factors, rank: int) -> low_rank.Factors:
  """Returns the leading columns of v and rows of u."""
  if len(factors.v.shape) == 2:
    return low_rank.Factors(factors.v[:, :rank], factors.u[:rank])
  return low_rank.Factors(factors.v[..., :rank], factors.u[:, :, :rank])


def as_matrices(factors: low_rank.Factors) -> low_rank.Factors:
  """Returns the factors of the unrolled kernel, [n, r] and [r, m]."""
  if len(factors.v.shape) == 2:
    return factors
  height, _, inputs, _ = factors.v.shape
  _, width, _, outputs = factors.u.shape
  return low_rank.Factors(
      tf.reshape(
          tf.transpose(factors.v[:, 0], [1, 0, 2]), [inputs * height, -1]
      ),
      tf.reshape(tf.transpose(factors.u[0], [1, 2, 0]), [-1, outputs * width]),
  )


def _fold(v, u, shape) -> low_rank.Factors:
  """Returns the factors of a kernel of `shape`: `as_matrices` undone."""
  if len(shape) == 2:
    return low_rank.Factors(v, u)
  height, width, inputs, outputs = shape
  rank = v.shape[-1]
  v = tf.transpose(tf.reshape(v, [inputs, height, rank]), [1, 0, 2])
  u = tf.transpose(tf.reshape(u, [rank, outputs, width]), [2, 0, 1])
  return low_rank.Factors(v[:, None], u[None])


def squared_norm(factors: low_rank.Factors) -> Any:
  """Returns ||v u||_F^2 = tr((v^T v)(u u^T)) of the unrolled kernel.

  The product is never formed.
  """
  v, u = as_matrices(factors)
  return tf.reduce_sum(
      tf.matmul(v, v, transpose_a=True) * tf.matmul(u, u, transpose_b=True)
  )


def squared_norm_gradient(factors: low_rank.Factors) -> low_rank.Factors:
  """Returns the gradient of ||v u||_F^2 / 2: v (u u^T) and (v^T v) u."""
  v, u = as_matrices(factors)
  of_v = tf.matmul(v, tf.matmul(u, u, transpose_b=True))
  of_u = tf.matmul(tf.matmul(v, v, transpose_a=True), u)
  if len(factors.v.shape) == 2:
    return low_rank.Factors(of_v, of_u)
  height, _, inputs, _ = factors.v.shape
  _, width, _, outputs = factors.u.shape
  return _fold(of_v, of_u, (height, width, inputs, outputs))


def either(kernel: tf.Tensor, factors: low_rank.Factors) -> Any:
  """Returns the kernel that one of the two holds; the other one is empty.

  Devices of different capacity then send values of one type: a kernel of all
  its rows beside factors of rank 0, or no rows beside factors of any rank.

  Args:
    kernel: Floats [n or 0, ...].
    factors: Of the kernel [n, ...], or of rank 0; the rank may be unknown.
  """
  product = recover(factors)
  missing = product.shape[0] - tf.shape(kernel)[0]
  none = [[0, 0]] * (len(product.shape) - 1)
  whole = tf.pad(kernel, [[0, missing], *none])
  return tf.reshape(whole, product.shape) + product
