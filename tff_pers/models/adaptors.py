"""FLoRAL: a model whose weights are mixtures of small shared adaptors.

A base model, C adaptors of all its layers, and one router per client:

    W + sum_c pi_c U_c V_c^T,  b + sum_c pi_c L_c,  pi = softmax(router)

Products are mixed, never factors. Adaptors act on weights, not on layers: any
functional model can be adapted, and `merge` returns plain weights.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    Almansoori, Horvath, Takac. CPAL 2025. https://arxiv.org/abs/2410.03497
    (sections: papers/floral.md).
"""

import dataclasses
from typing import Callable, Optional

from absl import logging

from tff_pers.models import adapted_model
from tff_pers.models import adaptor_layers
from tff_pers.models import adaptor_plan
from tff_pers.models import functional
from tff_pers.models import layers
from tff_pers.models import moving_statistics

# Exported here, next to the functions that build it.
AdaptedModel = adapted_model.AdaptedModel


def floral(
    model: functional.FunctionalModel,
    num_adaptors: int = 4,
    budget: Optional[float] = None,
    *,
    rank: Optional[int] = None,
    min_rank: int = 1,
    conv_form: str = 'balanced_2d',
    adapt_bias: bool = True,
    bias_only: bool = False,
    adapt_norm: bool = False,
    adapt_embedding: bool = False,
    zero_factor: str = 'output',
    rank_rule: str = 'paper',
    predicate: Optional[Callable[[functional.LayerWeight], bool]] = None,
) -> AdaptedModel:
  """Returns `model` with C adaptors: low rank for kernels, full for vectors.

  At first no adaptor changes anything, whatever the router; input factors are
  random and differ between adaptors. Without adaptors the adapted model equals
  the model. Frozen weights have adaptors like all others: they stay fixed, and
  what is added to them is trained.

  Args:
    model: The base model; `layers.describe` describes its weights.
    num_adaptors: C >= 0.
    budget: rho > 0: parameters of one adaptor of a kernel relative to the
      kernel, which determines its rank. None: 0.01, unless `rank` is given.
      Biases do not count.
    rank: r >= 1 of every kernel, at most its full rank.
    min_rank: Least rank of a kernel whose budget allows less, at most its full
      rank. If adaptors then exceed the budget, a warning says by how much.
    conv_form: How convolution kernels are factorised: see
      `adaptor_forms.convolution`.
    adapt_bias: Whether a bias has adaptors; only if its kernel has, as in the
      authors' code.
    bias_only: Whether only biases have adaptors, in all layers.
    adapt_norm: Whether scales and offsets of normalizations have adaptors.
    adapt_embedding: Whether embedding tables have low-rank adaptors.
    zero_factor: The factor that starts at zero, 'output' (U) or 'input' (V).
    rank_rule: 'paper', or 'release' (the authors' code), see
      `adaptor_forms.budget_rank`.
    predicate: Decides whether a kernel, table or norm (with `bias_only`, a
      bias) has adaptors; biases follow their kernels. None: all have.

  Raises:
    ValueError: If an argument is out of its range, if `rank` and `budget` are
      both given, or, without `predicate`, if no weight can have adaptors.
  """
  _check_num_adaptors(num_adaptors)
  rules = adaptor_plan.Rules(
      budget=budget, rank=rank, min_rank=min_rank, conv_form=conv_form,
      adapt_bias=adapt_bias, bias_only=bias_only, adapt_norm=adapt_norm,
      adapt_embedding=adapt_embedding, zero_factor=zero_factor,
      rank_rule=rank_rule, predicate=predicate,
  )
  plan = rules.plan(layers.describe(model.of_all_weights))
  if num_adaptors and predicate is None and not any(x.adaptor for x in plan):
    reasons = sorted({x.reason for x in plan})
    raise ValueError(
        '`model` must have a weight that can be adapted, found'
        f' {"; ".join(reasons)}. Tip: describe its weights in `layers`.'
    )
  share = adaptor_plan.kernel_share(plan)
  if num_adaptors and rules.rho is not None and share > rules.rho:
    logging.warning(
        'One adaptor of %s has %s %% of the size of the kernels that it'
        ' adapts, more than the budget of %g %%, because no rank is below %d.'
        ' %s', model.name,
        f'{100 * share:.2g}' if share < 0.1 else round(100 * share),
        100 * rules.rho, min_rank,
        'That costs bytes, not accuracy. Tip: min_rank=1 sends less.'
        if min_rank > 1 else
        'Tip: min_rank=4 sends more and learns faster.',
    )
  return AdaptedModel(model, num_adaptors, plan)


def full(
    model: functional.FunctionalModel, num_adaptors: int
) -> AdaptedModel:
  """Returns `model` with C adaptors of its own size, zero at first.

  With one-hot routers and a base that does not move, these are C models. Frozen
  weights have no adaptors here.

  Raises:
    ValueError: If `num_adaptors` < 0.
  """
  _check_num_adaptors(num_adaptors)
  model = dataclasses.replace(model, frozen=None)
  return AdaptedModel(model, num_adaptors, tuple(
      adaptor_plan.AdaptedWeight(
          weight, None if weight.kind == moving_statistics.KIND
          else adaptor_layers.Additive(weight.shape),
      )
      for weight in layers.describe(model)
  ))


def _check_num_adaptors(num_adaptors: int) -> None:
  if num_adaptors < 0 or num_adaptors % 1:
    raise ValueError(
        f'`num_adaptors` must be an integer >= 0, found {num_adaptors}.'
    )
