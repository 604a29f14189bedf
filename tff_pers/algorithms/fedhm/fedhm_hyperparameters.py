"""Hyperparameters of FedHM."""

import dataclasses
import math
from typing import Any, Optional, Sequence

from tff_pers.config import hyperparameters as hp
from tff_pers.models import factorized
from tff_pers.models import functional
from tff_pers.models import layers
from tff_pers.models import tiered_model
from tff_pers.models import tiers as tiers_lib


@dataclasses.dataclass(frozen=True)
class FedHMHyperparameters(hp.MaskedLoss, hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of FedHM, beside those of local training."""

  tiers: str = hp.field(
      'all',
      'Rank ratios of the tiers of clients, such as 1:0.5:0.25:0.125; 1 is the'
      ' unfactorised model, and ratios may be repeated; all: the ratios of the'
      ' task; all_smallest: as many tiers, all with the smallest ratio.',
  )
  full_rank: str = hp.field(
      'auto',
      'Layers that are never factorised, such as conv_0:dense_3; none; auto:'
      ' as the model declares, or the first, the last and 1 x 1 convolutions.',
  )
  rank_base: str = hp.field(
      'out_channels',
      'Size of which the rank is a share: output channels of the layer, the'
      ' smaller of its input and output channels, or the smaller side of the'
      ' unrolled kernel.',
      choices=factorized.RANK_BASES,
  )
  tau: str = hp.field(
      'auto',
      'Temperature of the weights softmax(ratio / tau) of the clients of a'
      ' round, at least 0.02; inf: equal weights; auto: inf with fixed tiers, 5'
      ' with dynamic ones.',
  )
  frobenius_decay: float = hp.field(
      1e-4,
      'Penalty on the squared norm of the products of factors, which replaces'
      ' weight_decay on the factors.',
      minimum=0.0, search=hp.Around(10),
  )

  def __post_init__(self):
    super().__post_init__()
    self.ratios((1.0,))
    self.temperature('fixed')

  def ratios(self, of_task: Sequence[float]) -> tuple[float, ...]:
    """Returns the rank ratio of every tier.

    Args:
      of_task: `Task.rank_ratios`.

    Raises:
      ValueError: If `tiers` is not a list of ratios in (0, 1].
    """
    return tiers_lib.parse_ratios(self.tiers, of_task)

  def temperature(self, assignment: str) -> float:
    """Returns tau > 0, possibly infinite.

    Args:
      assignment: `Task.tier_assignment`.

    Raises:
      ValueError: If `tau` is neither a number of at least 0.02, inf nor auto.
    """
    if self.tau == 'auto':
      return 5.0 if assignment == 'dynamic' else math.inf
    tau = _number(self.tau)
    # exp(-1 / 0.02) = 2e-22 is still far above float32's underflow; a client of
    # weight 0 would count as absent.
    if not tau >= 0.02:
      raise ValueError(
          f'`tau` must be a number >= 0.02, inf or auto, found {self.tau!r}.'
      )
    return tau

  def layers_of_full_rank(self) -> Optional[tuple[str, ...]]:
    """Returns names of layers that are not factorized; None: the default."""
    if self.full_rank == 'auto':
      return None
    if self.full_rank == 'none':
      return ()
    return tuple(self.full_rank.split(':'))

  def tiered(
      self, model: functional.FunctionalModel, of_task: Sequence[float]
  ) -> tiered_model.TieredModel:
    """Returns the models of all tiers.

    Args:
      model: The model of the largest tier.
      of_task: See `ratios`.

    Raises:
      ValueError: See `ratios`.
    """
    return tiered_model.TieredModel(
        model, self.ratios(of_task), self.layers_of_full_rank(), self.rank_base
    )

  def wants(self, task: Any) -> Sequence[str]:
    """Returns `ranks` where the smallest one cannot separate the classes."""
    tiered = self.tiered(task.model, task.rank_ratios)
    return ('ranks',) if _ranks_below(tiered, task.num_classes - 1) else ()

  def describe(self, task: Any) -> str:
    """Returns ranks and sizes of the tiers, and a warning if too small."""
    tiered = self.tiered(task.model, task.rank_ratios)
    names = [weight.name for weight in layers.describe(task.model)]
    lines = [
        f'tier {ratio:g}: {tier.num_parameters} parameters; ' + (
            ', '.join(f'{names[k]} of rank {r}' for k, r in tier.ranks.items())
            or 'no kernel is factorised'
        ) for ratio, tier in zip(tiered.ratios, tiered.tiers)
    ]
    too_small = _ranks_below(tiered, task.num_classes - 1)
    if too_small:
      rank, at = min(too_small)
      lines.append(
          f'The smallest rank, {rank} of {names[at]}, is less than the number'
          f' of classes minus 1, {task.num_classes - 1}: it cannot separate'
          f' {task.num_classes} classes. Tip: larger --fedhm_tiers, or a'
          ' --model with wider layers.'
      )
    return '\n'.join(lines)


def _ranks_below(
    tiered: tiered_model.TieredModel, least: int
) -> list[tuple[int, int]]:
  """Returns the smallest ranks below a number, with their weights' numbers."""
  return [(rank, at) for at, rank in tiered.least_ranks.items() if rank < least]


def _number(text: str) -> float:
  """Returns the number in a text, or NaN."""
  try:
    return float(text)
  except ValueError:
    return math.nan
