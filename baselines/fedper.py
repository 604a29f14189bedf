"""FedPer: shared base layers, and personalization layers that stay private.

Federated Learning with Personalization Layers
    Arivazhagan, Aggarwal, Singh, Choudhary. 2019. arXiv:1912.00818
"""

import dataclasses
from typing import Optional

from baselines import fedavg
from baselines import fedsim
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters


@dataclasses.dataclass(frozen=True)
class FedPerHyperparameters(
    fedavg.FedAvgHyperparameters, split_hyperparameters.SplitHyperparameters
):
  """Hyperparameters of FedPer."""

  final_epochs: int = hp.inherited(fedsim.FedSimHyperparameters, 'final_epochs')

  head_init: str = hp.field(
      'common',
      'First private weights: common (their part of the first weights of the'
      ' run, at all clients) or random (each client draws its own).',
      choices=('common', 'random'),
  )


@builders.checked
def build_fedper(
    parts: partition.Partition,
    hyperparameters: FedPerHyperparameters = FedPerHyperparameters(),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedPer: FedSim with one step size for all weights.

    client i: a <- theta, v <- w_i
              K times, in one step: (a, v) <- (a, v) - eta g_i(a, v; b)
              w_i <- v
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i

  The private weights of the original are the last layers, and its q_i are n_i.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedPerHyperparameters`; `split` is `parts` already.
    num_clients: See `fedsim.build_fedsim`.
    client_weighting: See `fedsim.build_fedsim`.
  """
  return fedsim.build_fedsim(
      parts, hyperparameters, num_clients=num_clients,
      client_weighting=client_weighting,
      random_start=hyperparameters.head_init == 'random',
  )


@methods.register(
    'fedper', FedPerHyperparameters,
    needs=fedsim.NEEDS,
    summary='shared base layers and private last layers (Arivazhagan 2019)',
)
def _build(task, hyperparameters):
  return build_fedper(
      hyperparameters.partition(task.model), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
