"""Products of low-rank factors in layers, and sums of such products.

A kernel that exists only as its factors is `Factors`. In sums of products, a
product is U V^T in the papers; there both factors are stored transposed,
v = V^T [r, n] and u = U^T [r, m], so that the kernel [n, m] of a layer y = x K,
K = V U^T, is v^T u.
"""

import dataclasses
from typing import Any, Callable, NamedTuple

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class UpdatedMatrix:
  """matrix + v^T u, not multiplied out.

  Attributes:
    matrix: Floats [n, m].
    v: Floats [k, n].
    u: Floats [k, m].
  """

  matrix: Any
  v: Any
  u: Any


@dataclasses.dataclass(frozen=True)
class Product:
  """A matrix [n, m] given by its action on rows.

  Attributes:
    of: `(x: floats [..., n]) -> x times the matrix`, floats [..., m].
  """

  of: Callable[[Any], Any]


class Factors(NamedTuple):
  """The kernel v u of rank r, not multiplied out; v is applied first.

  Attributes:
    v: Floats [n, r]; of a convolution [height, 1, in, r].
    u: Floats [r, m]; of a convolution [1, width, r, out].
  """

  v: Any
  u: Any


def matmul(x: tf.Tensor, matrix: Any) -> tf.Tensor:
  """Returns x times a matrix [n, m], in any of the forms of this module.

  Factors of rank r cost r (n + m) products per row of x, and so does an update,
  in addition to the n m of its matrix.

  Args:
    x: Floats [..., n].
    matrix: Floats [n, m], `Factors`, an `UpdatedMatrix` or a `Product`.
  """
  if isinstance(matrix, Product):
    return matrix.of(x)
  if isinstance(matrix, Factors):
    return tf.matmul(tf.matmul(x, matrix.v), matrix.u)
  if not isinstance(matrix, UpdatedMatrix):
    return tf.matmul(x, matrix)
  inner = tf.matmul(x, matrix.v, transpose_b=True)
  # `add_n` passes its gradient on unchanged; `+` adds operations to the
  # backward pass that undo a possible broadcast.
  return tf.add_n([tf.matmul(x, matrix.matrix), tf.matmul(inner, matrix.u)])


def conv2d(
    x: tf.Tensor, kernel: Any, strides: Any = 1, padding: Any = 'VALID'
) -> tf.Tensor:
  """Returns the convolution of x with a kernel, plain or `Factors`.

  Factors are two convolutions in sequence: height x 1 with strides (s, 1), then
  1 x width with (1, s). Padding acts on each axis separately, so this equals
  the convolution with the kernel that they represent, also with 'SAME' (FedHM;
  see `factorization`).

  Args:
    x: Floats [batch, height, width, in].
    kernel: Floats [height, width, in, out], or `Factors`.
    strides: One integer, or those of height and width.
    padding: 'SAME', 'VALID', or the rows and columns of zeros around x as
      [[0, 0], [top, bottom], [left, right], [0, 0]].
  """
  if not isinstance(kernel, Factors):
    return tf.nn.conv2d(x, kernel, strides, padding)
  down, right = (strides, strides) if isinstance(strides, int) else strides
  first = second = padding
  if not isinstance(padding, str):
    none = [0, 0]
    first = [none, padding[1], none, none]
    second = [none, none, padding[2], none]
  inner = tf.nn.conv2d(x, kernel.v, (down, 1), first)
  return tf.nn.conv2d(inner, kernel.u, (1, right), second)


def mixed_update(
    matrix: Any, v: tf.Tensor, u: tf.Tensor, coefficients: tf.Tensor
) -> UpdatedMatrix:
  """Returns `matrix` plus `mixed_product`, not multiplied out."""
  v, u = _mixed_rows(v, u, coefficients)
  return UpdatedMatrix(matrix, v, u)


def mixed_product(
    v: tf.Tensor, u: tf.Tensor, coefficients: tf.Tensor
) -> tf.Tensor:
  """Returns sum_c coefficients_c v_c^T u_c: products are mixed, not factors.

  It takes one matrix product over c and the rank together.

  Args:
    v: Floats [C, r, n].
    u: Floats [C, r, m].
    coefficients: Floats [C].

  Returns:
    [n, m].
  """
  v, u = _mixed_rows(v, u, coefficients)
  return tf.matmul(v, u, transpose_a=True)


def solve_gram(factor: tf.Tensor, gradient: tf.Tensor, eps: float) -> tf.Tensor:
  """Returns (F F^T + eps I)^-1 G for factors F [C, r, n], gradients [C, r, m].

  In the papers' orientation, G_U (V^T V + eps I)^-1 for F = V^T, G = G_U^T.
  """
  gram = _gram(factor)
  size = tf.linalg.trace(gram)[:, tf.newaxis, tf.newaxis]
  # At initialization one factor and its Gram matrix are zero: eps keeps it
  # invertible. The gradient that it divides is then zero too. In a run that
  # diverges eps grows with the matrix, in which rounding would lose it: the
  # solver ends the whole computation if a matrix is singular.
  rounding = np.finfo(gram.dtype.as_numpy_dtype).eps * size
  eps = tf.where(rounding > 1, rounding, tf.constant(eps, gram.dtype))
  if gram.shape[-1] == 1:
    return gradient / (gram + eps)  # Several times faster than a solver.
  identity = tf.eye(gram.shape[-1], dtype=gram.dtype)
  # A diverged run ends by its loss, which is not finite either.
  finite = tf.math.is_finite(size)
  regular = tf.where(finite, gram + eps * identity, identity)
  solved = tf.linalg.solve(regular, gradient)
  return tf.where(finite, solved, tf.constant(np.nan, gram.dtype))


def divide_by_gram_norm(
    factor: tf.Tensor, gradient: tf.Tensor, eps: float
) -> tf.Tensor:
  """Returns G / (||gram(F)||_F + eps), per c.

  gram(F)[p, q, s] = sum_n F[p, s, n] F[q, s, n], separately for each s.

  Args:
    factor: F, floats [C, r, s, n].
    gradient: G, floats [C, ...].
    eps: > 0.
  """
  gram = tf.einsum('cpsn,cqsn->cpqs', factor, factor)
  norm = tf.sqrt(tf.reduce_sum(tf.square(gram), axis=[1, 2, 3]))
  eps = tf.constant(eps, norm.dtype)
  return gradient / tf.reshape(
      norm + eps, [-1] + [1] * (gradient.shape.rank - 1)
  )


def step_share(
    v: tf.Tensor, u: tf.Tensor, v_step: tf.Tensor, u_step: tf.Tensor
) -> tf.Tensor:
  """Returns the share, at most 1, of a joint step that keeps products short.

  A step (dv, du) changes v^T u by v^T du + dv^T u + dv^T du. Preconditioned
  gradients make the last term eta^2 G (v^T u)^+ G, with the pseudo-inverse: it
  has no bound where a factor is near zero. The share is

    min(1, (||v^T du|| + ||dv^T u||) / ||v^T du + dv^T u + dv^T du||)

  in Frobenius norms, per c. So the step of one factor alone, and every step
  whose last term does not make the change longer, is taken as it is.

  Args:
    v: Floats [C, r, n].
    u: Floats [C, r, m].
    v_step: dv, like v.
    u_step: du, like u.

  Returns:
    [C].
  """
  longest = _product_norm(v, u_step) + _product_norm(v_step, u)
  change = _product_norm(
      tf.concat([v, v_step], axis=1), tf.concat([u_step, u + u_step], axis=1)
  )
  # A change that is not longer gives exactly 1.
  return tf.math.divide_no_nan(longest, tf.maximum(longest, change))


def centered(
    v: tf.Tensor, u: tf.Tensor, probabilities: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
  """Moves the mean of C products out of them, and truncates the rest.

  M = sum_c p_c v_c^T u_c;  v_c^T u_c <- SVD_r(v_c^T u_c - M), the best
  approximation of the old rank r, with singular values split evenly between the
  factors. Two zero factors would never learn again: a direction that vanishes
  keeps a v of norm one beside u = 0, and a product that vanishes keeps its v.

  Cost: QR of [n, C r] and [m, C r], then SVDs of [C r, C r]; never of [n, m].

  Args:
    v: Floats [C, r, n].
    u: Floats [C, r, m].
    probabilities: p, floats [C].

  Returns:
    (M [n, m], new v, new u).
  """
  num_products, rank = v.shape[:2]
  # L_c - M = sum_d (1[c = d] - p_d) v_d^T u_d: all share two bases.
  q_v, r_v = tf.linalg.qr(tf.transpose(_rows(v)))
  q_u, r_u = tf.linalg.qr(tf.transpose(_rows(u)))
  shares = tf.eye(num_products, dtype=v.dtype) - probabilities[None, :]
  shares = tf.repeat(shares, rank, axis=1)  # [C, C r]
  cores = tf.einsum('ik,ck,jk->cij', r_v, shares, r_u)
  values, left, right = tf.linalg.svd(cores)
  kept = min(rank, values.shape[-1])
  values = values[:, None, :kept]
  # Singular values at the level of rounding count as 0; their roots would not
  # be small: about 3e-4 in float32.
  rounding = 10 * np.finfo(v.dtype.as_numpy_dtype).eps
  is_left = values > rounding * tf.norm(r_v) * tf.norm(r_u)
  root = tf.sqrt(values)
  left = left[..., :kept] * tf.where(is_left, root, tf.ones_like(root))
  right = right[..., :kept] * tf.where(is_left, root, tf.zeros_like(root))
  padding = [[0, 0], [0, rank - kept], [0, 0]]
  new_v = tf.pad(tf.einsum('ni,cik->ckn', q_v, left), padding)
  new_u = tf.pad(tf.einsum('mi,cik->ckm', q_u, right), padding)
  new_v = tf.where(tf.reduce_any(is_left, axis=-1, keepdims=True), new_v, v)
  return mixed_product(v, u, probabilities), new_v, new_u


def _product_norm(v, u):
  """Returns ||v^T u||, [C], from Gram matrices: it never multiplies out."""
  grams = [_gram(f) for f in (v, u)]
  squared = tf.reduce_sum(grams[0] * grams[1], axis=[1, 2])
  return tf.sqrt(tf.maximum(squared, 0))  # Rounding may go below 0.


def _gram(factor):
  """Returns F F^T for factors F [C, r, n]."""
  if not factor.shape[0]:
    return tf.matmul(factor, factor, transpose_b=True)
  # TensorFlow's batched product takes 0.1 ms, however small it is.
  return tf.stack([
      tf.matmul(each, each, transpose_b=True) for each in tf.unstack(factor)
  ])


def _mixed_rows(v, u, coefficients):
  """Returns ([C r, n], [C r, m]), the smaller one scaled by coefficients."""
  scale = tf.reshape(coefficients, [-1, 1, 1])
  # sum_c s_c v_c^T u_c: either factor may be scaled, so take the smaller.
  if v.shape[-1] < u.shape[-1]:
    v = scale * v
  else:
    u = scale * u
  return _rows(v), _rows(u)


def _rows(factors):
  """[C, r, n] -> [C r, n]."""
  return tf.reshape(factors, [-1, factors.shape[-1]])
