"""Plans which weights of a model have adaptors, and of which kind and rank.

See `adaptors` for the paper.
"""

import dataclasses
import math
from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence

from tff_pers.models import adaptor_forms
from tff_pers.models import adaptor_layers
from tff_pers.models import functional
from tff_pers.models import layers


_ADAPTED = (
    'dense', 'conv', 'depthwise', 'einsum', 'embedding', 'norm', 'vector',
)


class AdaptedWeight(NamedTuple):
  """A leaf of the base weights and its adaptor, if it has one.

  Attributes:
    weight: The description of the leaf.
    adaptor: An `adaptor_layers.LowRank` or `Additive`, or None.
    reason: Why there is none, if so.
  """

  weight: functional.LayerWeight
  adaptor: Any
  reason: str = ''


@dataclasses.dataclass(frozen=True)
class Rules:
  """The arguments of `adaptors.floral` that decide about adaptors."""

  budget: Optional[float]
  rank: Optional[int]
  min_rank: int
  conv_form: str
  adapt_bias: bool
  bias_only: bool
  adapt_norm: bool
  adapt_embedding: bool
  zero_factor: str
  rank_rule: str
  predicate: Optional[Callable[[functional.LayerWeight], bool]]

  def __post_init__(self):
    check_choice('conv_form', self.conv_form, adaptor_forms.CONV_FORMS)
    check_choice('zero_factor', self.zero_factor, adaptor_layers.ZERO_FACTORS)
    check_choice('rank_rule', self.rank_rule, adaptor_forms.RANK_RULES)
    if self.budget is not None and self.rank is not None:
      raise ValueError(
          '`rank` must be None with a `budget`, because each decides the ranks,'
          f' found rank={self.rank}, budget={self.budget}.'
      )
    if self.budget is not None and not 0 < self.budget < math.inf:
      raise ValueError(f'`budget` must be > 0 and finite, found {self.budget}.')
    if self.rank is not None and (self.rank < 1 or self.rank % 1):
      raise ValueError(f'`rank` must be an integer >= 1, found {self.rank}.')
    if self.min_rank < 1 or self.min_rank % 1:
      raise ValueError(
          f'`min_rank` must be an integer >= 1, found {self.min_rank}.'
      )
    if self.bias_only and not self.adapt_bias:
      raise ValueError(
          '`bias_only` must be False with adapt_bias=False, found True.'
      )

  @property
  def rho(self) -> Optional[float]:
    """The budget of a kernel; None if its rank is given."""
    if self.budget is None and self.rank is None:
      return 0.01  # The smaller budget of the paper.
    return self.budget

  def plan(
      self, weights: Sequence[functional.LayerWeight]
  ) -> tuple[AdaptedWeight, ...]:
    """Returns one entry per `functional.LayerWeight`, in their order."""
    # Kernels first, because a bias has an adaptor only if the kernel of its
    # layer has one (section 3.3 of the sheet).
    others = [None if w.kind == 'bias' else self._other(w) for w in weights]
    layers_with_kernel = {
        weight.layer for weight, adaptor in zip(weights, others)
        if isinstance(adaptor, adaptor_layers.LowRank)
    }
    found = [
        self._bias(weight, layers_with_kernel) if adaptor is None else adaptor
        for weight, adaptor in zip(weights, others)
    ]
    return tuple(
        AdaptedWeight(weight, None, x) if isinstance(x, str)
        else AdaptedWeight(weight, x)
        for weight, x in zip(weights, found)
    )

  def _bias(self, weight, layers_with_kernel):
    """Returns a bias's adaptor, or why it has none."""
    if not self.adapt_bias:
      return 'adapt_bias=False'
    if self.bias_only and not self._accepts(weight):
      return 'left out by `predicate`'
    if not self.bias_only and weight.layer not in layers_with_kernel:
      return 'its kernel has no adaptor'
    return adaptor_layers.Additive(weight.shape)

  def _other(self, weight):
    """Returns the adaptor of a kernel, table or norm, or why it has none."""
    if weight.kind not in _ADAPTED:
      return f'no adaptor for {weight.kind}'
    if self.bias_only:
      return 'bias_only=True'
    if weight.kind == 'norm' and not self.adapt_norm:
      return 'adapt_norm=False'
    if weight.kind == 'embedding' and not self.adapt_embedding:
      return 'adapt_embedding=False'
    if not self._accepts(weight):
      return 'left out by `predicate`'
    if weight.kind in ('norm', 'vector'):
      return adaptor_layers.Additive(weight.shape)  # Factors are not smaller.
    if weight.kind == 'conv':
      return self._low_rank(
          adaptor_forms.convolution(weight.shape, self.conv_form),
          self.rank_rule, has_matrix_gram=self.conv_form == 'reshaped_linear',
      )
    # V takes the inputs of a matrix, or the rows of a table. Ours, because the
    # paper has no such layers: it takes the windows of a depthwise kernel, and
    # the axes that an einsum sums over, as of a matrix [summed, others].
    axes = dict(depthwise=(0, 1), einsum=weight.summed_axes).get(
        weight.kind, (0,)
    )
    if len(axes) in (0, len(weight.shape)):
      return adaptor_layers.Additive(weight.shape)  # No matrix.
    return self._low_rank(
        adaptor_forms.Form(weight.shape, axes),
        is_table=weight.kind == 'embedding',
    )

  def _low_rank(
      self, form, rank_rule='paper', **options
  ) -> adaptor_layers.LowRank:
    rank = self.rank
    if rank is None:
      assert self.rho is not None  # One of the two is given.
      rank = max(
          self.min_rank, adaptor_forms.budget_rank(form, self.rho, rank_rule)
      )
    return adaptor_layers.LowRank(
        form, adaptor_forms.clip_rank(form, rank),
        zero_factor=self.zero_factor, **options,
    )

  def _accepts(self, weight) -> bool:
    return self.predicate is None or self.predicate(weight)


def kernel_share(plan: Sequence[AdaptedWeight]) -> float:
  """Returns an adaptor's parameters relative to the kernels it adapts.

  This is what a budget limits; biases and norms do not count. 0 without an
  adapted kernel.
  """
  kernels = [x for x in plan if isinstance(x.adaptor, adaptor_layers.LowRank)]
  size = sum(math.prod(kernel.weight.shape) for kernel in kernels)
  return sum(x.adaptor.num_parameters for x in kernels) / max(size, 1)


def with_rank(
    plan: Sequence[AdaptedWeight], rank: int
) -> tuple[AdaptedWeight, ...]:
  """Returns the plan with this rank of every kernel, at most its full rank."""
  return tuple(
      entry._replace(adaptor=dataclasses.replace(
          entry.adaptor, rank=adaptor_forms.clip_rank(entry.adaptor.form, rank)
      ))
      if isinstance(entry.adaptor, adaptor_layers.LowRank) else entry
      for entry in plan
  )


def least_rank(plan: Sequence[AdaptedWeight]) -> Optional[int]:
  """Returns the smallest rank of an adapted kernel; None without one."""
  return min(
      (x.adaptor.rank for x in plan if x.adaptor and x.adaptor.rank),
      default=None,
  )


def largest_rank(plan: Sequence[AdaptedWeight]) -> int:
  """Returns the smaller side of the adapted kernel in which that is largest.

  No gradient of these kernels has a larger rank. 1 if none is adapted.
  """
  return max((
      min(math.prod(form.input_shape), math.prod(form.output_shape))
      for form in (
          x.adaptor.form for x in plan
          if isinstance(x.adaptor, adaptor_layers.LowRank)
      )
  ), default=1)


def describe(
    plan: Sequence[AdaptedWeight], num_adaptors: int
) -> tuple[functional.LayerWeight, ...]:
  """Returns descriptions of the leaves of a plan's adaptors, in their order.

  They have layers of their own, e.g. 'adaptors/dense_0', because a search for
  the kernel or the bias of 'dense_0' must not find a factor.
  """
  return tuple(
      functional.LayerWeight(
          f'adaptors/{entry.weight.name}/{name}',
          f'adaptors/{entry.weight.layer}', 'adaptor', shape,
      )
      for entry in plan if entry.adaptor is not None
      for name, shape in entry.adaptor.shapes(num_adaptors).items()
  )


def table(plan: Sequence[AdaptedWeight]) -> str:
  """Returns the weights of a plan, their adaptors and sizes, one per line."""
  rows = [('weight', 'kind', 'shape', 'rank', 'parameters', 'budget')]
  for weight, adaptor, reason in plan:
    row = (weight.name, weight.kind, ' x '.join(map(str, weight.shape)))
    if adaptor is None:
      rows.append((*row, '-', '0', f'left alone: {reason}'))
      continue
    share = adaptor.num_parameters / math.prod(weight.shape)
    rank = '-' if adaptor.rank is None else str(adaptor.rank)
    rows.append((*row, rank, str(adaptor.num_parameters), f'{share:.2%}'))
  return layers.table(rows)


def check_choice(name: str, value: str, choices: Iterable[Any]) -> None:
  """Raises a ValueError if `value` is not one of the choices."""
  if value not in choices:
    raise ValueError(
        f'`{name}` must be one of {", ".join(choices)}, found {value!r}.'
    )
