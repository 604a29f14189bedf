"""Hyperparameters of PERM whose clients own models of different width."""

import dataclasses
from typing import Sequence

from tff_pers.config import hyperparameters as hp
from tff_pers.models import submodels
from tff_pers.models import tiers as tiers_lib

_HAS_TIERS = 'tiers!=none'


@dataclasses.dataclass(frozen=True)
class ArchitectureHyperparameters(hp.Aggregation):
  """Hyperparameters of architectures."""

  tiers: str = hp.field(
      'none',
      'Widths of the models that clients of each tier own, as 1:0.5:0.25,'
      ' shares of the units of hidden layers; none: all own the whole model.',
  )
  width_rounding: str = hp.field(
      'round', 'How numbers of units become whole.',
      choices=submodels.ROUNDINGS, when=_HAS_TIERS,
  )
  compare: str = hp.field(
      'intersection',
      'In which coordinates gradients of different architectures are compared:'
      ' intersection (those that both have, over their share) or all.',
      choices=('intersection', 'all'), when=_HAS_TIERS,
  )
  vc: float = hp.field(
      0.0,
      'rho: weight of sqrt(VC / n_j) beside the distance to client j, VC the'
      ' number of parameters of a class of models; 0: none.',
      minimum=0.0, when=_HAS_TIERS,
  )
  vc_of: str = hp.field(
      'learner', 'Whose class: that of the client that learns, or the source.',
      choices=('learner', 'source'), when=f'{_HAS_TIERS} and vc!=0',
  )

  def __post_init__(self):
    # Of the hyperparameters that these are part of.
    super().__post_init__()  # type: ignore[misc]
    self.ratios((1.0,))
    if self.tiers == 'none':
      return
    for name, needed in (
        ('aggregator', 'mean'), ('debias', 'none'), ('sketch', 0),
        ('models', 0),
    ):
      if getattr(self, name) != needed:
        raise ValueError(
            f'`{name}` must be {needed} with `tiers`, where clients have parts'
            f' of the model, found {getattr(self, name)}.'
        )

  def ratios(self, of_task: Sequence[float]) -> tuple[float, ...]:
    """Returns the width of every tier, (1,) without tiers."""
    if self.tiers == 'none':
      return (1.0,)
    return tiers_lib.parse_ratios(self.tiers, of_task)
