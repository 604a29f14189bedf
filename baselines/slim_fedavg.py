"""Slim FedAvg: one model that fits every device, FedHM's baseline.

FedHM: Efficient Federated Learning for Heterogeneous Models via Low-rank
Factorization
    Yao, Pan, Dai, Wan, Ding, Jin, Xu, Sun. 2021 (Tables 2 and 3, FedAvg).
"""

from baselines import fedavg
from tff_pers.composition import builders
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import factorized
from tff_pers.models import functional


@builders.checked
def build_slim_fedavg(
    model: functional.FunctionalModel,
    hyperparameters: fedavg.FedAvgHyperparameters = (
        fedavg.FedAvgHyperparameters()
    ),
    *,
    rank_ratio: float = 0.125,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedAvg of a model with narrower hidden layers.

    model   : of a width such that it has about as many parameters as FedHM's
              low-rank model of ratio gamma; the model itself if gamma is 1
    client i: u <- w;  K times: u <- u - eta g_i(u; b)
    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i

  Server state: `weights` w. Clients are stateless.

  Args:
    model: The model of full width, which must have narrower versions.
    hyperparameters: See `fedavg.FedAvgHyperparameters`.
    rank_ratio: gamma of FedHM's smallest tier, in (0, 1].
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Returns:
    A `PersonalizedProcess` that deploys w, weights of the slim model.

  Raises:
    ValueError: If the model cannot be made narrower.
  """
  if rank_ratio < 1:
    smallest = factorized.Factorization(model, rank_ratio)
    model = factorized.slim(model, smallest.num_parameters)
  return fedavg.build_fedavg(
      model, hyperparameters, client_weighting=client_weighting
  )


@methods.register(
    'slim_fedavg', fedavg.FedAvgHyperparameters, needs=('widths',),
    summary="FedAvg with a model of FedHM's smallest size (Yao 2021)",
)
def _build(task, hyperparameters):
  return build_slim_fedavg(
      task.model, hyperparameters, rank_ratio=min(task.rank_ratios),
      client_weighting=task.client_weighting,
  )
