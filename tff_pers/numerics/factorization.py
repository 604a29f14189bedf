"""Truncated singular value decompositions of the kernels of layers.

A kernel is unrolled to a matrix: a dense one [n, m] is a matrix already; for a
convolution [kh, kw, in, out] the rows are pairs (in, vertical tap), the columns
(out, horizontal tap). This takes a transposition before the reshape: other
groupings give matrices of the same shape that two thin convolutions cannot
represent.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, O'Neill, Dai, Wan, Jin, Sun. 2021.
    https://arxiv.org/abs/2111.14655
"""

from typing import Any, Sequence

import numpy as np
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
  """Returns the best rank-r approximation: v = U sqrt(S), u = sqrt(S) V^T.

  Both factors get the root of the singular values, so that v^T v = u u^T = S:
  spectral initialization. The factors of a smaller rank are the leading columns
  and rows of these, see `cut`: one decomposition serves all ranks.

  Args:
    kernel: Floats [n, m] or [kh, kw, in, out], of known shape.
    rank: Between 0 and the smaller side of the unrolled kernel; 0 gives empty
      factors without any computation.
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


def revive(factors: low_rank.Factors, key: tf.Tensor) -> low_rank.Factors:
  """Returns factors with the same product in which all directions can learn.

  A column of v and a row of u that are both 0 have gradients 0 and would stay
  0: the column becomes a random one of norm 1, the row exactly 0. This is done
  if the singular value is below the rounding error of the largest.

  Args:
    factors: See `factorize`.
    key: int64[2], key of the random columns.
  """
  v, u = as_matrices(factors)
  values = tf.norm(v, axis=0) * tf.norm(u, axis=1)
  error = max(v.shape[0], u.shape[1]) * np.finfo(v.dtype.as_numpy_dtype).eps
  # `<=`, so that NaN stays NaN.
  is_dead = values <= error * tf.reduce_max(values)
  drawn = tf.random.stateless_normal(v.shape, key, dtype=v.dtype)
  return _fold(
      tf.where(is_dead, tf.math.l2_normalize(drawn, axis=0), v),
      tf.where(is_dead[:, None], tf.zeros_like(u), u), _kernel_shape(factors),
  )


def recover(factors: low_rank.Factors) -> Any:
  """Returns the kernel that the factors represent; the rank may be unknown.

  Args:
    factors: [n, r] and [r, m], or [kh, 1, in, r] and [1, kw, r, out].
  """
  if len(factors.v.shape) == 2:
    return tf.matmul(*factors)
  height, width, inputs, outputs = _kernel_shape(factors)
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
  height, width, inputs, outputs = _kernel_shape(factors)
  return low_rank.Factors(
      tf.reshape(
          tf.transpose(factors.v[:, 0], [1, 0, 2]), [inputs * height, -1]
      ),
      tf.reshape(tf.transpose(factors.u[0], [1, 2, 0]), [-1, outputs * width]),
  )


def _kernel_shape(factors: low_rank.Factors) -> tuple:
  """Returns the shape of the kernel that the factors represent."""
  if len(factors.v.shape) == 2:
    return factors.v.shape[0], factors.u.shape[1]
  height, _, inputs, _ = factors.v.shape
  _, width, _, outputs = factors.u.shape
  return height, width, inputs, outputs


def _fold(v, u, shape) -> low_rank.Factors:
  """Returns the factors of a kernel of `shape`; inverts `as_matrices`."""
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
  return _fold(of_v, of_u, _kernel_shape(factors))


def either(kernel: tf.Tensor, factors: low_rank.Factors) -> Any:
  """Returns the kernel held by one of the two arguments; the other is empty.

  Devices of different capacity can thus send values of one type: a complete
  kernel with factors of rank 0, or a kernel without rows with factors.

  Args:
    kernel: Floats [n or 0, ...].
    factors: Factors of the kernel [n, ...], or of rank 0; rank may be unknown.
  """
  product = recover(factors)
  missing = product.shape[0] - tf.shape(kernel)[0]
  none = [[0, 0]] * (len(product.shape) - 1)
  whole = tf.pad(kernel, [[0, missing], *none])
  return tf.reshape(whole, product.shape) + product
