"""FedALA: clients start from a mixture of their own and the global model.

FedALA: Adaptive Local Aggregation for Personalized Federated Learning
    Zhang, Hua, Wang, Song, Xue, Ma, Guan. AAAI 2023.
"""

import collections
import dataclasses
from typing import Any

import tensorflow as tf

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import held_out
from tff_pers.client_works import local_aggregation
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers.models import partition

_FIRST_PASSES = 100  # Upper limit when a client first learns W.


@dataclasses.dataclass(frozen=True)
class FedALAHyperparameters(fedavg.AveragingHyperparameters):
  """Hyperparameters of FedALA."""

  layers: int = hp.field(
      1, 'Number p of last layers that are mixed; 0: none, which is FedAvg.',
      minimum=0, search=hp.Between(1, 3),
  )
  share: float = hp.field(
      0.8, 'Share s of a client\'s examples on which it learns W in a round.',
      above=0.0, maximum=1.0, when='layers!=0 and mixing_learning_rate!=0.0',
  )
  mixing_learning_rate: float = hp.field(
      1.0, 'Step size eta_W of W.', minimum=0.0, when='layers!=0',
      search=hp.Between(0.1, 10.0, log=True),
  )


@builders.checked
def build_fedala(
    model: functional.FunctionalModel,
    hyperparameters: FedALAHyperparameters = FedALAHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedALA.

    client i: in passes over s of its examples, for each minibatch b:
                h = theta_i + (theta - theta_i) * [1, ..., 1, W_i]
                W_i <- clip(W_i - eta_W g_i(h; b) * (theta - theta_i), 0, 1)
              u <- h;  K times: u <- u - eta g_i(u; b)
              theta_i <- u
    server  : theta <- theta - eta_g * sum_i q_i (theta - u_i) / sum_i q_i
    deploy  : theta_i

  Products are elementwise. W_i covers the last p layers; the other layers are
  theta's. W_i is learned once theta_i and theta differ in these layers: at
  first until the standard deviation of the mean losses of the last 10 passes is
  below 0.01, for at most 100 passes; in later rounds in one pass. Server state:
  `weights` theta. Client state: `mixing` W_i, initially 1, `passes`, the number
  of passes in which it was learned, and `weights` theta_i, initially theta^0.
  With p = 0 it is FedAvg. Schedule, momentum and clipping do not apply to W_i.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedALAHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If the model does not declare the order of its layers.
  """
  parts = partition.last_layers(model, hyperparameters.layers)
  learns = hyperparameters.layers and hyperparameters.mixing_learning_rate

  def update(message, state, data):
    theta, mixing, passes = message['weights'], state['mixing'], state['passes']
    body, received = parts.split(theta)
    own = parts.split(state['weights'])[1]
    if learns:
      sample = held_out.split(
          data, hyperparameters.share, client_work.key(message, data, use=1)
      )[1]
      mixing, more = local_aggregation.learn(
          parts.private_model(body), own, received, mixing, sample,
          learning_rate=hyperparameters.mixing_learning_rate,
          batch_size=hyperparameters.batch_size,
          most_passes=tf.where(tf.equal(passes, 0), _FIRST_PASSES, 1),
          seed=client_work.key(message, data, use=2),
      )
      passes += more
    u, loss = local_sgd.train(
        model,
        parts.merge(body, local_aggregation.mix(own, received, mixing)),  # h
        data, seed=client_work.key(message, data),
        learning_rate=local_step.scheduled(
            hyperparameters, message, hyperparameters.learning_rate
        ),
        local=local_step.build(hyperparameters), **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=collections.OrderedDict(
            mixing=mixing, passes=passes, weights=u
        ),
        update=local_sgd.difference(theta, u),  # Not h - u.
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return fedavg.build_averaging(
      model, client_work.ClientWork(update),
      server_learning_rate=hyperparameters.server_learning_rate,
      init_client=lambda seed: init_client_state(
          parts, model.initial_weights(seed)
      ),
      combine=lambda theta, state: state['weights'],
      model_aggregator=choice.chosen(hyperparameters),
  )


def init_client_state(parts: partition.Partition, weights: Any) -> Any:
  """Returns the initial state of a client, given its theta_i."""
  return collections.OrderedDict(
      mixing=tf.nest.map_structure(tf.ones_like, parts.split(weights)[1]),
      passes=tf.constant(0), weights=weights,
  )


@methods.register(
    'fedala', FedALAHyperparameters,
    summary='starts from a learned mix of own and global weights (Zhang 2023)',
)
def _build(task, hyperparameters):
  return build_fedala(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
