"""FedAsync: the server mixes its model with each one that arrives.

Asynchronous Federated Optimization
    Xie, Koyejo, Gupta. OPT 2020. https://arxiv.org/abs/1903.03934
"""

import dataclasses

import tensorflow as tf

from baselines import stale_messages
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class FedAsyncHyperparameters(stale_messages.StaleTraining):
  """Hyperparameters of FedAsync."""

  alpha: float = hp.field(
      0.6, 'Weight alpha of a fresh model in the mixture.', above=0.0,
      maximum=1.0, search=hp.Between(0.05, 1.0, log=True),
  )
  rho: float = hp.field(
      0.0, 'Pull rho of local steps towards the received model; 0: none.',
      minimum=0.0,
  )


@builders.checked
def build_fedasync(
    model: functional.FunctionalModel,
    hyperparameters: FedAsyncHyperparameters = FedAsyncHyperparameters(),
) -> process.PersonalizedProcess:
  """Builds FedAsync.

    client i: u <- w_v;  K times: u <- u - eta (g_i(u; b) + rho (u - w_v))
    server  : a <- alpha s(tau);  w <- (1 - a) w + a u;  version + 1

  It mixes models, whereas FedBuff adds updates; these differ for tau > 0.
  Messages are not weighted by examples. In a round of `next`, u is the mean
  over the cohort, and tau is 0. Driven by events with alpha = 1 and one client
  in flight, it is local SGD on one client after the other.

  Server state: see `stale_messages.compose`.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedAsyncHyperparameters`.
  """
  local = local_step.build(hyperparameters)

  def update(message, data):
    received = message['weights']
    rate = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )

    def step(sgd, batch):
      loss, gradient = model.loss_and_gradient(sgd.weights, batch)
      if hyperparameters.rho:
        gradient = local_sgd.pulled(
            gradient, sgd.weights, received, hyperparameters.rho
        )
      return local.apply(sgd, gradient, rate), loss

    sgd, loss = client_data.fold_batches(
        data, step, local.start(received), seed=client_work.key(message, data),
        reports=True, **hyperparameters.budget(),
    )
    return sgd.weights, loss

  def arrive(state, arrived, tau):
    dtype = tf.nest.flatten(state['weights'])[0].dtype
    share = tf.convert_to_tensor(hyperparameters.alpha, dtype)
    share *= stale_messages.discount(hyperparameters, tau, dtype)
    number = tf.cast(arrived['weight'], dtype)
    return dict(
        weights=tf.nest.map_structure(
            lambda w, total: (1 - share) * w + share * (total / number),
            state['weights'], arrived['sum']['weights'],
        ),
        version=state['version'] + 1,
    )

  return stale_messages.compose(
      model, update,
      lambda data: client_work.client_weight(
          'uniform', data, hyperparameters.batch_size
      ), arrive=arrive,
  )


@methods.register(
    'fedasync', FedAsyncHyperparameters, driver='events', weighs_clients=False,
    travels=methods.Travels(stale_messages.TRAVELS, stale_messages.TRAVELS),
    summary='each model is mixed into the server\'s as it arrives',
)
def _build(task, hyperparameters):
  return build_fedasync(task.model, hyperparameters)
