"""FedRep: a shared representation under private heads.

Exploiting Shared Representations for Personalized Federated Learning
    Collins, Hassani, Mokhtari, Shakkottai. ICML 2021.
"""

import dataclasses
from typing import Optional

from baselines import fedalt
from baselines import fedsim
from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import process
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class FedRepHyperparameters(fedalt.PhasesHyperparameters):
  """Hyperparameters of FedRep: FedAlt's, with other defaults."""

  private_epochs: int = hp.inherited(
      fedalt.PhasesHyperparameters, 'private_epochs', default=10
  )
  local_steps: int = hp.inherited(hp.LocalTraining, 'local_steps', default=0)
  local_epochs: int = hp.inherited(hp.LocalTraining, 'local_epochs', default=1)


def build_fedrep(
    parts: partition.Partition,
    hyperparameters: FedRepHyperparameters = FedRepHyperparameters(),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedRep: FedAlt whose heads are trained to fit the representation.

    client i: a <- theta, w <- w_i
              many epochs: w <- w - eta_w grad_w f_i(a, w; b)
              few epochs : a <- a - eta   grad_a f_i(a, w; b)
              w_i <- w
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i

  Two things that the authors do are left out: ten more epochs of every head
  after the last round, and theta made orthonormal in their linear examples.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedRepHyperparameters`; `split` is `parts` already.
    num_clients: See `fedsim.build_fedsim`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  return fedalt.build_fedalt(
      parts, hyperparameters, num_clients=num_clients,
      client_weighting=client_weighting,
  )


@methods.register(
    'fedrep', FedRepHyperparameters, needs=fedsim.NEEDS,
    summary='a shared representation under private heads (Collins 2021)',
)
def _build(task, hyperparameters):
  return build_fedrep(
      hyperparameters.partition(task.model), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
