"""kNN-Per: the global model, mixed with a client's nearest neighbours.

Personalized Federated Learning through Local Memorization
    Marfoq, Neglia, Kameni, Vidal. ICML 2022.
"""

import collections
import dataclasses

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import local_sgd
from tff_pers.client_works import memorization
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers.models import last_layer
from tff_pers.models import neighbours as neighbours_lib

_HELD_OUT = 0.2  # Share of the examples that choose lambda_i.


@dataclasses.dataclass(frozen=True)
class KnnPerHyperparameters(fedavg.AveragingHyperparameters):
  """Hyperparameters of kNN-Per."""

  k: int = hp.field(
      10, 'Number k of nearest neighbours.', minimum=1,
      search=hp.Between(1, 50, log=True),
  )
  max_store: int = hp.field(
      1000, 'Size of a store; of more examples, some are drawn.', minimum=1
  )


@builders.checked
def build_knn_per(
    model: functional.FunctionalModel,
    hyperparameters: KnnPerHyperparameters = KnnPerHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds kNN-Per.

    training: FedAvg
    deploy  : store of (phi(x_j), y_j) of the training examples j of client i
              p_kNN(y | x) ~ sum over the k nearest of
                             exp(-||phi(x) - phi(x_j)|| / s) [y_j = y]
              lambda_i p_kNN + (1 - lambda_i) p_w

  phi(x) is the input of the last layer under the current w. lambda_i is the one
  of 0, .1, ..., 1 with the smallest loss on a fifth of the examples (drawn by
  the client's key), using a store of the others; then all examples join the
  store. s is the median distance within a store. For regression, predictions
  are mixed with means of the neighbours' targets. Server state: `weights` w.
  Clients are stateless, so new ones work like others; a client deploys
  `<mixing, store, weights>`, see `neighbours`.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `KnnPerHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If the model does not end in a dense layer without activation,
      or examples do not have exactly one label or target.
  """
  neighbours = neighbours_lib.Neighbours(
      last_layer.of(model), hyperparameters.k, hyperparameters.max_store
  )

  def deploy(message, client_state, data):
    del client_state  # Clients are stateless.
    weights = message['weights']
    kept, apart = held_out.split(
        data, _HELD_OUT, client_work.key(message, data, use=1)
    )
    return collections.OrderedDict(
        mixing=memorization.best_mixing(
            neighbours, weights,
            memorization.build_store(neighbours, weights, kept), apart,
        ),
        store=memorization.build_store(neighbours, weights, held_out.split(
            data, 0.0, client_work.key(message, data, use=2)
        )[0]),
        weights=weights,
    )

  return fedavg.build_averaging(
      model,
      local_sgd.build_local_sgd(model, hyperparameters, client_weighting),
      server_learning_rate=hyperparameters.server_learning_rate,
      combine=lambda w, own: neighbours.without_store(w), deploy=deploy,
      model_aggregator=choice.chosen(hyperparameters),
      deployed=neighbours.deployed(),
  )


@methods.register(
    'knn_per', KnnPerHyperparameters, needs=('examples', 'features'),
    summary='a global model and nearest neighbours (Marfoq 2022)',
)
def _build(task, hyperparameters):
  return build_knn_per(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
