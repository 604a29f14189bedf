"""Hyperparameters of methods whose clients train models of different width."""

import dataclasses
from typing import Sequence

from tff_pers.config import hyperparameters as hp
from tff_pers.models import factorized
from tff_pers.models import functional
from tff_pers.models import submodels
from tff_pers.models import tiers as tiers_lib


@dataclasses.dataclass(frozen=True)
class WidthHyperparameters(hp.LocalTraining):
  """Hyperparameters of local training in tiers of several widths."""

  tiers: str = hp.field(
      'all',
      'Widths of the tiers of clients, as 1:0.62:0.5:0.35, shares of the units'
      ' of hidden layers, possibly with repetitions; all: models as large as'
      ' those of FedHM with the rank ratios of the task, which then name the'
      ' tiers; all_smallest: as many tiers, all with the smallest of them.',
  )
  width_rounding: str = hp.field(
      'round', 'Rounding of the numbers of units.',
      choices=submodels.ROUNDINGS,
  )

  def __post_init__(self):
    super().__post_init__()
    self.ratios((1.0,))

  def ratios(self, of_task: Sequence[float]) -> tuple[float, ...]:
    """Returns the names of the tiers: their widths or rank ratios.

    `of_task` are `Task.rank_ratios`.

    Raises:
      ValueError: If `tiers` is not a list of widths in (0, 1].
    """
    return tiers_lib.parse_ratios(self.tiers, of_task)

  def submodels(
      self, model: functional.FunctionalModel, of_task: Sequence[float]
  ) -> submodels.Submodels:
    """Returns the sub-models of all tiers; see `ratios`.

    Raises:
      ValueError: If the model has only one size.
    """
    widths = self.ratios(of_task)
    if self.tiers in ('all', 'all_smallest'):
      widths = tuple(self._as_large(model, ratio) for ratio in widths)
    return submodels.Submodels(model, widths, self.width_rounding)

  def _as_large(self, model, ratio: float) -> float:
    """Returns the width with as many parameters as FedHM's tier."""
    if ratio == 1:
      return 1.0
    size = factorized.Factorization(model, ratio).num_parameters
    return factorized.slim_width(model, size, self.width_rounding)
