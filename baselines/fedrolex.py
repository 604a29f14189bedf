"""FedRolex: sub-models whose window over the units rolls from round to round.

FedRolex: Model-Heterogeneous Federated Learning with Rolling Sub-Model
Extraction
    Alam, Liu, Yan, Zhang. NeurIPS 2022.
Expanding the Reach of Federated Learning by Reducing Client Resource
Requirements (window=random)
    Caldas, Konecny, McMahan, Talwalkar. 2018.
"""

import dataclasses
from typing import Sequence

from baselines import fedavg
from baselines import heterofl
from tff_pers import composition
from tff_pers.aggregators import partial
from tff_pers.client_works import client_work
from tff_pers.client_works import submodel_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import submodels

_WINDOW_USE = 1  # Separates this draw from a client's batches.
# No window is special, so a tier is evaluated at several.
_EVALUATED = 5


@dataclasses.dataclass(frozen=True)
class FedRolexHyperparameters(heterofl.ScaledHyperparameters):
  """Hyperparameters of FedRolex."""

  window: str = hp.field(
      'rolling',
      'Units that a client trains: rolling (starting at unit t in round t),'
      ' random (drawn for each client and round) or static (the first ones).',
      choices=submodels.WINDOWS,
  )


@builders.checked
def build_fedrolex(
    parts: submodels.Submodels,
    names: Sequence[float],
    assign: tier_assignment.Assign,
    hyperparameters: FedRolexHyperparameters = FedRolexHyperparameters(),
    *,
    client_weighting: str = 'uniform',
) -> process.PersonalizedProcess:
  """Builds FedRolex.

    client i: w_i <- the weights between units (t + k) mod C, k < beta_i C, of
                     each layer of C units, in round t
              K times: w_i <- w_i - eta g_i(w_i; b)
    server  : w[p] <- w[p] - sum_i q_i (w - w_i)[p] / sum_i q_i, over the
              clients i that have coordinate p; if there is none, w[p] stays

  In C rounds every unit is trained equally often. Server state: `weights` w.
  Clients are stateless and deploy the whole model. `evaluate_global` reports
  for every tier the mean over 5 evenly spaced windows (with window=static, the
  first units). With all widths 1 it is FedAvg.

  Args:
    parts: The sub-models of the tiers.
    names: Numbers of the tiers.
    assign: The tier of a client, see `data.tiers.assign`.
    hyperparameters: See `FedRolexHyperparameters`; `tiers` and `width_rounding`
      are in `parts`.
    client_weighting: q_i, see `client_work.client_weight`; the paper's is
      `uniform`.
  """

  def keep(tier, message, data):
    return parts.window(
        hyperparameters.window, tier, offset=message['round'],
        key=client_work.key(message, data, use=_WINDOW_USE),
    )

  def tier(k):
    def at(state, kept):
      return submodels.extract(parts.base, state['weights'], kept)

    variants = None
    if parts.widths[k] < 1 and hyperparameters.window != 'static':
      variants = lambda state: [
          at(state, parts.rolling(k, offset))
          for offset in evaluated_offsets(parts)
      ]
    return composition.Tier(
        parts.tiers[k], lambda state: at(state, parts.static(k)), variants
    )

  return fedavg.build_averaging(
      parts.base,
      submodel_sgd.build_submodel_sgd(
          parts, assign, hyperparameters, client_weighting, keep=keep,
          models=hyperparameters.trained(parts),
      ),
      model_aggregator=partial.PartialMeanFactory(),
      tiers={f'{name:g}': tier(k) for k, name in enumerate(names)},
  )


def evaluated_offsets(parts: submodels.Submodels) -> list[int]:
  """Returns 5 offsets, evenly spaced over the largest group of units."""
  largest = max(parts.groups.values())
  return [number * largest // _EVALUATED for number in range(_EVALUATED)]


@methods.register(
    'fedrolex', FedRolexHyperparameters, needs=('widths',),
    summary='sub-models of rolling windows over the units (Alam 2022)',
    travels=heterofl.TRAVELS,
)
def _build(task, hyperparameters):
  return build_fedrolex(
      *heterofl.of_task(task, hyperparameters), hyperparameters,
      client_weighting=task.client_weighting,
  )
