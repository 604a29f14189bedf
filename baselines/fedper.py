"""FedPer: shared base layers, and personalization layers that stay private.

Federated Learning with Personalization Layers
    Arivazhagan, Aggarwal, Singh, Choudhary. 2019. arXiv:1912.00818
"""

import dataclasses
from typing import Optional

from baselines import fedavg
from tff_pers import methods
from tff_pers import process
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import split_training
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters


@dataclasses.dataclass(frozen=True)
class FedPerHyperparameters(
    fedavg.FedAvgHyperparameters, split_hyperparameters.SplitHyperparameters
):
  """Hyperparameters of FedPer."""


def build_fedper(
    parts: partition.Partition,
    hyperparameters: FedPerHyperparameters = FedPerHyperparameters(),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedPer.

    client i: a <- theta, v <- w_i
              K times, in one step: (a, v) <- (a, v) - eta g_i(a, v; b)
              w_i <- v
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i

  Server state: `weights` theta. Client state: w_i, at first that part of w^0.
  Without private weights it is FedAvg, without global ones local training.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedPerHyperparameters`; `split` is `parts` already.
    num_clients: N; a client of a larger index never trains, and learns w_i when
      it is evaluated. None: every client may train.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  hp, local = hyperparameters, local_step.build(hyperparameters)

  def work(message, own, data):
    theta = message['weights']
    final, loss = local_sgd.train(
        parts.model, parts.merge(theta, own), data, local=local,
        learning_rate=local_step.scheduled(hp, message, hp.learning_rate),
        seed=client_work.key(message, data), **hp.budget(),
    )
    shared, own = parts.split(final)
    weight = client_work.client_weight(client_weighting, data, hp.batch_size)
    update = local_sgd.difference(theta, shared)
    return client_work.ClientOutput(own, update, weight, loss)

  return fedavg.build_averaging(
      parts.model, client_work.ClientWork(work),
      server_learning_rate=hp.server_learning_rate,
      initial_weights=lambda seed: parts.initial_weights(seed)[0],
      init_client=lambda seed: parts.initial_weights(seed)[1],
      combine=parts.merge,
      deploy=split_training.build_deploy(parts, hp, num_clients),
  )


@methods.register(
    'fedper', FedPerHyperparameters,
    needs=dict(hidden_layers=lambda hp: hp.split == 'output_layer'),
    summary='shared base layers and private last layers (Arivazhagan 2019)',
)
def _build(task, hyperparameters):
  return build_fedper(
      hyperparameters.partition(task.model), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
