"""Adaptors of one weight: a low-rank product, or a full tensor.

Both parametrize C changes of the weight, stacked on the leading axis, whose
mixture sum_c pi_c L_c is added to it. All changes start at zero. See `adaptors`
for the paper.
"""

import collections
import dataclasses
import math
from typing import Any, ClassVar, Mapping, Tuple

import tensorflow as tf

from tff_pers.models import adaptor_forms
from tff_pers.numerics import low_rank

ZERO_FACTORS = ('output', 'input')
CONV_NORMS = ('spatial', 'matrix')


@dataclasses.dataclass(frozen=True)
class LowRank:
  """L_c = U_c V_c^T over the kernel axes that the form gives to each factor.

  Parameters: <u, v>, with u [C, r, *output_shape] and v [C, r, *input_shape];
  for a dense kernel [n, m] these are u [C, r, m] and v [C, r, n].

  Attributes:
    form: The axes of each factor.
    rank: r >= 1; for filter-wise convolutions the leaves have r * out instead.
    has_matrix_gram: Preconditioned by a matrix (dense), else by a scalar.
    zero_factor: The factor that starts at zero, 'output' (u) or 'input' (v).
    is_table: Whether the other factor is drawn from N(0, 1) like an embedding
      table, not uniformly on +-sqrt(6 / fan_in) (Kaiming) with fan_in its
      entries per rank.
  """

  form: adaptor_forms.Form
  rank: int
  has_matrix_gram: bool = True
  zero_factor: str = 'output'
  is_table: bool = False

  @property
  def num_parameters(self) -> int:
    """Number of scalars of one adaptor."""
    return self.rank * self.form.parameters_per_rank

  def shapes(self, num_adaptors: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the parameters by name."""
    stacked = (num_adaptors, self.rank * self.form.multiplicity)
    return dict(
        u=(*stacked, *self.form.output_shape),
        v=(*stacked, *self.form.input_shape),
    )

  def init(self, key: tf.Tensor, num_adaptors: int, dtype: tf.DType) -> Any:
    """Returns independent adaptors, each a zero change, drawn from `key`."""
    shapes = self.shapes(num_adaptors)
    def factor(name, side):
      if side == self.zero_factor:
        return tf.zeros(shapes[name], dtype)
      return self._draw(key, shapes[name], dtype)
    return collections.OrderedDict(
        u=factor('u', 'output'), v=factor('v', 'input')
    )

  def _draw(self, key, shape, dtype):
    if self.is_table:
      return tf.random.stateless_normal(shape, key, dtype=dtype)
    # Kaiming uniform. The first two axes are C and r; the others are fan-in.
    limit = tf.constant(math.sqrt(6 / math.prod(shape[2:])), dtype)
    return tf.random.stateless_uniform(shape, key, -limit, limit, dtype)

  def mixed_delta(
      self, factors: Mapping[str, Any], mix: tf.Tensor
  ) -> tf.Tensor:
    """Returns sum_c mix_c U_c V_c^T, of the kernel's shape."""
    product = low_rank.mixed_product(*self._as_matrices(factors), mix)
    return self._assemble(product)

  def mixed_update(
      self, kernel: tf.Tensor, factors: Mapping[str, Any], mix: tf.Tensor
  ) -> low_rank.UpdatedMatrix:
    """Returns a dense kernel plus `mixed_delta`, as factors."""
    return low_rank.mixed_update(kernel, factors['v'], factors['u'], mix)

  def precondition(
      self, factors: Mapping[str, Any], gradients: Any, eps: float,
      conv_norm: str,
  ) -> Any:
    """Returns each factor's gradient, rescaled by the other factor's Gram."""
    if self.has_matrix_gram:
      scale = low_rank.solve_gram
      reshape = _as_matrix
    else:
      scale = low_rank.divide_by_gram_norm
      # A convolution divides by a norm instead of solving (section 2.4); the
      # default Gram keeps the positions of the window apart.
      reshape = _as_windows if conv_norm == 'spatial' else _as_one_window
    def rescaled(name, other):
      gradient = gradients[name]
      new = scale(reshape(factors[other]), _as_matrix(gradient), eps)
      return _reshape(new, gradient.shape)
    return collections.OrderedDict(
        u=rescaled('u', 'v'), v=rescaled('v', 'u')
    )

  def bounded(
      self, factors: Mapping[str, Any], directions: Any, rate: Any
  ) -> Any:
    """Returns directions of a step, see `AdaptedModel.bounded`."""
    share = low_rank.step_share(
        *self._as_matrices(factors), *self._as_matrices(
            tf.nest.map_structure(lambda d: -rate * d, directions)
        )
    )
    return tf.nest.map_structure(
        lambda d: tf.reshape(share, [-1] + [1] * (d.shape.rank - 1)) * d,
        directions,
    )

  def centered(
      self, factors: Mapping[str, Any], probabilities: tf.Tensor
  ) -> tuple[tf.Tensor, Any]:
    """Returns (mean change, factors of the rest truncated to the rank)."""
    mean, v, u = low_rank.centered(*self._as_matrices(factors), probabilities)
    return self._assemble(mean), collections.OrderedDict(
        u=tf.reshape(u, factors['u'].shape),
        v=tf.reshape(v, factors['v'].shape),
    )

  def _as_matrices(self, factors) -> tuple[tf.Tensor, tf.Tensor]:
    return _as_matrix(factors['v']), _as_matrix(factors['u'])

  def _assemble(self, product):
    """Returns [n, m], axes of V then axes of U, as the kernel."""
    form = self.form
    axes = form.input_axes + form.output_axes
    split = tf.reshape(product, form.input_shape + form.output_shape)
    if axes == tuple(range(len(axes))):
      return split
    return tf.transpose(split, [axes.index(i) for i in range(len(axes))])


@dataclasses.dataclass(frozen=True)
class Additive:
  """L_c of the weight's own shape: for biases and norms' scales and offsets.

  Parameters: [C, *shape].
  """

  shape: Tuple[int, ...]
  rank: ClassVar[None] = None  # There are no factors.

  @property
  def num_parameters(self) -> int:
    """Number of scalars of one adaptor."""
    return math.prod(self.shape)

  def shapes(self, num_adaptors: int) -> dict[str, tuple[int, ...]]:
    """Returns the shape of the only parameter by name."""
    return dict(delta=(num_adaptors, *self.shape))

  def init(self, key: tf.Tensor, num_adaptors: int, dtype: tf.DType) -> Any:
    """Returns zeros."""
    del key  # Unused.
    return tf.zeros(self.shapes(num_adaptors)['delta'], dtype)

  def mixed_delta(self, parameters: Any, mix: tf.Tensor) -> tf.Tensor:
    """Returns sum_c mix_c L_c."""
    rows = _reshape(parameters, [mix.shape[0], self.num_parameters])
    mixed = tf.matmul(tf.reshape(mix, [1, -1]), rows)
    return tf.reshape(mixed, self.shape)

  def precondition(
      self, parameters: Any, gradients: Any, eps: float, conv_norm: str
  ) -> Any:
    """Returns `gradients` unchanged, because there are no factors."""
    del parameters, eps, conv_norm  # Unused.
    return gradients

  def bounded(self, parameters: Any, directions: Any, rate: Any) -> Any:
    """Returns `directions` unchanged, because there are no factors."""
    del parameters, rate  # Unused.
    return directions

  def centered(
      self, parameters: Any, probabilities: tf.Tensor
  ) -> tuple[tf.Tensor, Any]:
    """Returns (mean change, the rest); the mixture is unchanged."""
    mean = self.mixed_delta(parameters, probabilities)
    return mean, parameters - mean[None]


def _as_matrix(factor):
  """[C, r, ...] -> [C, r, n]."""
  return _reshape(factor, [*factor.shape[:2], math.prod(factor.shape[2:])])


def _as_windows(factor):
  """[C, r, *window, channels] -> [C, r, positions, channels]."""
  positions = math.prod(factor.shape[2:-1])
  return _reshape(factor, [*factor.shape[:2], positions, factor.shape[-1]])


def _as_one_window(factor):
  """[C, r, ...] -> [C, r, 1, n]."""
  return tf.expand_dims(_as_matrix(factor), 2)


def _reshape(tensor, shape):
  """`tf.reshape`, skipped if it would do nothing, because steps are short."""
  return tensor if tensor.shape == shape else tf.reshape(tensor, shape)
