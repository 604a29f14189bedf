"""Splits the axes of a kernel between the factors of a low-rank adaptor.

See `adaptors` for the paper.
"""

import math
from typing import NamedTuple

CONV_FORMS = (
    'balanced_2d', 'balanced', 'in', 'out', 'filter_wise', 'reshaped_linear',
)
RANK_RULES = ('paper', 'release')

# Axes of a convolution kernel [height, width, in, out].
_HEIGHT, _WIDTH, _IN, _OUT = range(4)


class Form(NamedTuple):
  """A kernel as a sum of products of two factors over complementary axes.

  delta[axes] = sum_q V[q, input axes] U[q, output axes], where the number of
  products is the rank `r` times `multiplicity`.

  Attributes:
    shape: Shape of the kernel.
    input_axes: Axes of the kernel that V takes, ascending; U takes the others.
    multiplicity: Products per unit of the rank.
  """

  shape: tuple[int, ...]
  input_axes: tuple[int, ...]
  multiplicity: int = 1

  @property
  def output_axes(self) -> tuple[int, ...]:
    """Axes of the kernel that U takes."""
    return tuple(
        axis for axis in range(len(self.shape)) if axis not in self.input_axes
    )

  @property
  def input_shape(self) -> tuple[int, ...]:
    """Shape of one row of V; the channels are last."""
    return tuple(self.shape[axis] for axis in self.input_axes)

  @property
  def output_shape(self) -> tuple[int, ...]:
    """Shape of one row of U; the channels are last."""
    return tuple(self.shape[axis] for axis in self.output_axes)

  @property
  def parameters_per_rank(self) -> int:
    """Entries of U and V together for rank 1."""
    return self.multiplicity * (
        math.prod(self.input_shape) + math.prod(self.output_shape)
    )


def convolution(shape: tuple[int, ...], conv_form: str) -> Form:
  """The form of a kernel [height, width, in, out] (section 3.2 of the sheet).

  'out' and 'in' give the whole window to U or V, 'balanced' to the side with
  fewer channels. 'balanced_2d' splits the window into a column and a row,
  whichever way takes fewer parameters; 'filter_wise' does so separately for
  each of `out` channels. 'reshaped_linear' is 'out', viewed as one matrix.
  """
  channels_in, channels_out = shape[_IN:]
  whole_in_v = Form(shape, (_HEIGHT, _WIDTH, _IN))
  whole_in_u = Form(shape, (_IN,))
  column_in_v = Form(shape, (_HEIGHT, _IN))
  row_in_v = Form(shape, (_WIDTH, _IN))
  return {
      'balanced_2d': min(
          column_in_v, row_in_v, key=lambda form: form.parameters_per_rank
      ),
      'balanced': whole_in_v if channels_in <= channels_out else whole_in_u,
      'in': whole_in_v,
      'out': whole_in_u,
      'filter_wise': column_in_v._replace(multiplicity=channels_out),
      'reshaped_linear': whole_in_u,
  }[conv_form]


def budget_rank(form: Form, budget: float, rank_rule: str) -> int:
  """Returns the rank that a budget allows, 0 if it is too small for any.

  paper  : the largest r whose parameters are at most budget * kernel size
  release: the same, but every convolution counts as 'balanced_2d' of window
           2 x 2, as in the authors' code: 2 budget c_in c_out /
           (c_in + c_out), rounded down (section 3.2 of the sheet).

  The budget is rho > 0, parameters of one adaptor relative to its kernel; the
  rule is 'paper' unless it is a convolution.
  """
  if rank_rule == 'release':
    form = convolution((2, 2, *form.shape[_IN:]), 'balanced_2d')
  share = math.prod(form.shape) / form.parameters_per_rank
  # A product that is an integer in exact arithmetic may come out just below it
  # in floating point, and would be rounded down to the next smaller rank.
  return math.floor(budget * share + 1e-9)


def clip_rank(form: Form, rank: int) -> int:
  """Returns the rank, at least 1 and at most the full rank of the kernel."""
  full = min(math.prod(form.input_shape), math.prod(form.output_shape))
  return max(1, min(rank, full // form.multiplicity))
