"""FedSim and FedPer: shared and private weights, trained by simultaneous steps.

FedPer uses one step size for all weights; in the original, the last layers are
private and clients are weighted by examples.

Federated Learning with Partial Model Personalization
    Pillutla, Malik, Mohamed, Rabbat, Sanjabi, Xiao. ICML 2022. Algorithm 2.
Federated Learning with Personalization Layers (FedPer)
    Arivazhagan, Aggarwal, Singh, Choudhary. 2019. arXiv:1912.00818
"""

import dataclasses
import functools
from typing import Any, Callable, Optional

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import split_training
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters
from tff_pers import tff

NEEDS = split_hyperparameters.NEEDS


@dataclasses.dataclass(frozen=True)
class SharedHyperparameters(
    fedavg.AveragingHyperparameters, split_hyperparameters.SplitHyperparameters
):
  """Hyperparameters of methods that average the global weights."""

  private_learning_rate: float = hp.field(
      0.0,
      'Step size eta_w of the private weights, per step; 0: learning_rate.',
      minimum=0.0, search=hp.Around(20, of='learning_rate'),
  )

  @property
  def private_rate(self) -> float:
    return self.private_learning_rate or self.learning_rate


@dataclasses.dataclass(frozen=True)
class FedSimHyperparameters(SharedHyperparameters):
  """Hyperparameters of FedSim."""

  final_epochs: int = hp.field(
      0,
      'Extra passes over its training data in which a trained client refines'
      ' its private weights before it is evaluated, with frozen global weights;'
      ' for fair comparisons use it for all methods or for none.',
      minimum=0,
  )


@dataclasses.dataclass(frozen=True)
class FedPerHyperparameters(
    fedavg.AveragingHyperparameters, split_hyperparameters.SplitHyperparameters
):
  """Hyperparameters of FedPer."""

  final_epochs: int = hp.inherited(FedSimHyperparameters, 'final_epochs')
  head_init: str = hp.field(
      'common',
      'Initial private weights: common (from the initial weights of the run,'
      ' for all clients) or random (drawn by each client).',
      choices=('common', 'random'),
  )


@builders.checked
@builders.takes_statistics('averaged')
def build_fedsim(
    parts: partition.Partition,
    hyperparameters: split_hyperparameters.SplitHyperparameters = (
        FedSimHyperparameters()
    ),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedSim.

    client i: a <- theta, w <- w_i
              K times, both at the old point and on the same batch b:
                a <- a - eta   grad_a f_i(a, w; b)
                w <- w - eta_w grad_w f_i(a, w; b)
              w_i <- w
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i

  Server state: `weights` theta. Client state: w_i, initially that part of w^0.
  Deploys (theta, w_i), see `split_training.build_deploy`. Without private
  weights it is FedAvg, without shared ones local training. The authors' q_i is
  the number of batches.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedSimHyperparameters`, or `FedPerHyperparameters` for
      FedPer; `split` is `parts` already.
    num_clients: N; a client of a larger index never trains, and learns w_i when
      it is evaluated. None: every client may train.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  local = local_step.build(hyperparameters)

  def update(message, own, data):
    theta = message['weights']
    shared, own, loss = split_training.train_jointly(
        parts, theta, own, data, local=local,
        rates=split_training.scheduled_rates(hyperparameters, message),
        seed=client_work.key(message, data), **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=own,
        # Only theta: w_i never leaves its client.
        update=local_sgd.difference(theta, shared),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return average_shared(
      parts, client_work.ClientWork(update), hyperparameters, num_clients,
      random_start=(
          isinstance(hyperparameters, FedPerHyperparameters)
          and hyperparameters.head_init == 'random'
      ),
  )


def average_shared(
    parts: partition.Partition,
    work: client_work.ClientWork,
    hyperparameters: Any,
    num_clients: Optional[int],
    *,
    stateless: bool = False,
    random_start: bool = False,
    server_optimizer: Optional[tff.learning.optimizers.Optimizer] = None,
    project: Optional[Callable[[Any], Any]] = None,
) -> process.PersonalizedProcess:
  """Returns the method that averages theta and keeps w_i at its client.

  Args:
    parts: The model and its split.
    work: The client work; its update is theta - a_i, its client state w_i.
    hyperparameters: A `SplitHyperparameters` with `server_learning_rate`.
    num_clients: See `build_fedsim`.
    stateless: Whether clients keep nothing. They are then all evaluated as
      clients that never trained.
    random_start: Whether each client draws its initial w_i, instead of using
      that part of w^0.
    server_optimizer: See `fedavg.build_averaging`.
    project: See `fedavg.build_averaging`.
  """
  initial = functools.partial(split_training.initial_private, parts)
  deploy = split_training.build_deploy(
      parts, hyperparameters, 0 if stateless else num_clients
  )
  kept: dict[str, Any] = dict(
      init_client=lambda seed: parts.initial_weights(seed)[1],
      init_each_client=random_start, combine=parts.merge, deploy=deploy,
  )
  if stateless:
    kept = dict(
        client_model=lambda state, own, index: parts.merge(
            state['weights'], initial(state)
        ),
        deploy=lambda message, own, data: deploy(
            message, initial(message), data
        ),
    )
  return fedavg.build_averaging(
      parts.model, work,
      server_learning_rate=(
          1.0 if server_optimizer else hyperparameters.server_learning_rate
      ),
      server_optimizer=server_optimizer,
      model_aggregator=choice.chosen(hyperparameters),
      initial_weights=lambda seed: parts.initial_weights(seed)[0],
      project=project, statistics=parts.statistics[0],
      **kept,
  )


@methods.register(
    'fedper', FedPerHyperparameters, needs=NEEDS,
    summary='shared base layers and private last layers (Arivazhagan 2019)',
)
@methods.register(
    'fedsim', FedSimHyperparameters, needs=NEEDS,
    summary='shared and private weights, simultaneous steps (Pillutla 2022)',
)
def _build(task, hyperparameters):
  return build_fedsim(
      hyperparameters.partition(task.model), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
