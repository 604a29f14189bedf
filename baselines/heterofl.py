"""HeteroFL: devices of different capacity train the first units of one model.

HeteroFL: Computation and Communication Efficient Federated Learning for
Heterogeneous Clients
    Diao, Ding, Tarokh. ICLR 2021.
"""

import dataclasses
from typing import Any, Callable, Sequence

from baselines import fedavg
from tff_pers import composition
from tff_pers.aggregators import partial
from tff_pers.client_works import client_work
from tff_pers.client_works import submodel_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import task as task_lib
from tff_pers.data import tiers as tier_assignment
from tff_pers.models import functional
from tff_pers.models import masked
from tff_pers.models import submodels
from tff_pers.models import width_hyperparameters as width_hp

TRAVELS = methods.Travels(up=('weights', 'weights'))


@dataclasses.dataclass(frozen=True)
class ScaledHyperparameters(width_hp.WidthHyperparameters):
  """Hyperparameters of sub-models with a scaler."""

  scaler: str = hp.field(
      'auto',
      'Whether the outputs of hidden layers are divided by the width in'
      ' training; auto: if the model has a normalization.',
      choices=('auto', 'on', 'off'),
  )

  def trained(
      self, parts: submodels.Submodels
  ) -> tuple[functional.FunctionalModel, ...]:
    """Returns what the tiers train, with or without the scaler."""
    scales = self.scaler == 'on' or (
        self.scaler == 'auto' and submodels.has_norm(parts.base)
    )
    if not scales:
      return parts.tiers
    widest = max(parts.widths)
    return tuple(
        submodels.scaled(model, width / widest)
        for model, width in zip(parts.tiers, parts.widths)
    )


@dataclasses.dataclass(frozen=True)
class HeteroFLHyperparameters(hp.MaskedLoss, ScaledHyperparameters):
  """Hyperparameters of HeteroFL."""


@builders.checked
def build_heterofl(
    parts: submodels.Submodels,
    names: Sequence[float],
    assign: tier_assignment.Assign,
    hyperparameters: HeteroFLHyperparameters = HeteroFLHyperparameters(),
    *,
    client_weighting: str = 'uniform',
) -> process.PersonalizedProcess:
  """Builds HeteroFL.

    client i: w_i <- the weights between the first beta_i C units of each layer
              K times: w_i <- w_i - eta g_i(w_i; b), hidden layers / beta_i with
              the scaler
    server  : w[p] <- w[p] - sum_i q_i (w - w_i)[p] / sum_i q_i, over the
              clients i that have coordinate p; if there is none, w[p] stays

  Server state: `weights` w of the whole model. Clients are stateless. A client
  deploys, and `evaluate` evaluates, the first units of its tier, padded to one
  type for all tiers; `evaluate_global` evaluates those of every tier. With all
  widths 1 it is FedAvg.

  Args:
    parts: The sub-models of the tiers.
    names: Numbers of the tiers.
    assign: The tier of a client, see `data.tiers.assign`.
    hyperparameters: See `HeteroFLHyperparameters`; `tiers` and `width_rounding`
      are in `parts`.
    client_weighting: q_i, see `client_work.client_weight`; the paper's is
      `uniform`.

  Raises:
    ValueError: If the loss is masked and the model has no logit per class.
  """
  work = submodel_sgd.build_submodel_sgd(
      parts, assign, hyperparameters, client_weighting,
      models=hyperparameters.trained(parts),
      head=masked.head(parts.base) if hyperparameters.masked_loss else (),
  )
  return deploying_first_units(parts, names, assign, work)


def deploying_first_units(
    parts: submodels.Submodels, names: Sequence[float],
    assign: tier_assignment.Assign, work: client_work.ClientWork,
) -> process.PersonalizedProcess:
  """Returns the method whose clients deploy the first units of their tiers.

  Args:
    parts: The sub-models of the tiers.
    names: Numbers of the tiers.
    assign: The tier of a client.
    work: The client work; its update is `<kept, update>`.
  """

  def of_client(weights, fields, index):
    tier = assign(fields['seed'], fields['round'], index)
    return parts.first_units(weights, tier)

  def of_tier(k: int) -> Callable[[Any], Any]:
    return lambda state: submodels.extract(
        parts.base, state['weights'], parts.static(k)
    )

  return fedavg.build_averaging(
      parts.base, work,
      model_aggregator=partial.PartialMeanFactory(),
      deploy=lambda message, own, data: of_client(
          message['weights'], message, data['index']
      ),
      client_model=lambda state, own, index: of_client(
          state['weights'], state, index
      ),
      deployed=parts.deployed,
      tiers={
          f'{name:g}': composition.Tier(parts.tiers[k], of_tier(k))
          for k, name in enumerate(names)
      },
  )


def of_task(
    task: task_lib.Task, hyperparameters: width_hp.WidthHyperparameters
) -> tuple[submodels.Submodels, Sequence[Any], tier_assignment.Assign]:
  """Returns (sub-models, names of the tiers, tier of a client) of a task."""
  names = hyperparameters.ratios(task.rank_ratios)
  assign = tier_assignment.assign(
      task.num_clients, len(names), assignment=task.tier_assignment,
      given=task.tiers,
  )
  return (
      hyperparameters.submodels(task.model, task.rank_ratios), names, assign
  )


@methods.register(
    'heterofl', HeteroFLHyperparameters, needs=('widths',),
    summary='sub-models of the first units (Diao 2021)', travels=TRAVELS,
)
def _build(task, hyperparameters):
  return build_heterofl(
      *of_task(task, hyperparameters), hyperparameters,
      client_weighting=task.client_weighting,
  )
