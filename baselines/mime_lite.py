"""Mime Lite: local steps that use the momentum of the server.

It mimics one machine with all data: momentum is computed from gradients at the
server's model, and clients use it without changing it.

Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning
    Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh. 2020.
    https://arxiv.org/abs/2008.03606
"""

import collections
import dataclasses
from typing import Any

import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.aggregators import entry_weight
from tff_pers.client_works import client_work
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class MimeLiteHyperparameters(hp.Aggregation, hp.LocalBatches):
  """Hyperparameters of Mime Lite."""

  beta: float = hp.field(
      0.9, 'Momentum of the server; 0 is FedAvg.', minimum=0.0, below=1.0,
      search=hp.Between(0.5, 0.95),
  )
  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g; 1 is plain averaging.', above=0.0
  )


@builders.checked
def build_mime_lite(
    model: functional.FunctionalModel,
    hyperparameters: MimeLiteHyperparameters = MimeLiteHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds Mime Lite.

    client i: u <- w;  K times: u <- u - eta ((1 - beta) g_i(u; b) + beta m)
              G_i <- grad f_i(w), of all its examples
    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i
              m <- (1 - beta) sum_i n_i G_i / sum_i n_i + beta m

  m is constant while clients train, and is updated with gradients at the old w.
  It is a mean of gradients; momentum as a sum, m <- g + beta m, would be
  1 / (1 - beta) times as large. Server state: `weights` w and `momentum` m,
  initially 0. Clients are stateless. beta = 0 is FedAvg; K = 1 with full
  batches and all clients is SGD with momentum on one machine.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `MimeLiteHyperparameters`.
    client_weighting: q_i, see `client_work.client_weight`. Gradients are always
      weighted by examples.
  """

  def init(seed):
    weights = model.initial_weights(seed)
    return collections.OrderedDict(
        weights=weights, momentum=tf.nest.map_structure(tf.zeros_like, weights)
    )

  def finalize(state, mean):
    return dict(
        weights=local_sgd.descend(
            state['weights'], mean['weights'],
            hyperparameters.server_learning_rate,
        ),
        momentum=blend(
            mean['momentum'], state['momentum'], hyperparameters.beta
        ),
    )

  mean = choice.chosen(hyperparameters)
  return composition.compose(
      model,
      init=init,
      send=lambda state: dict(
          weights=state['weights'], momentum=state['momentum']
      ),
      work=build_mime_lite_work(model, hyperparameters, client_weighting),
      aggregator=dict(
          weights=entry_weight.EntryWeightFactory(0, mean),
          momentum=entry_weight.EntryWeightFactory(1, mean),
      ),
      finalize=finalize,
      deploy=lambda message, own, data: message['weights'],
      client_model=lambda state, own, index: state['weights'],
      tiers={'1': composition.Tier(model, lambda state: state['weights'])},
  )


def build_mime_lite_work(
    model: functional.FunctionalModel,
    hyperparameters: MimeLiteHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work; it sends <weights=w - u, momentum=G_i>.

  Its weight is (q_i, n_i), one entry for each of them.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_mime_lite`.
    client_weighting: See `build_mime_lite`.
  """

  def update(message, client_state, data):
    w, m = message['weights'], message['momentum']
    seed = client_work.key(message, data)

    def step(u, batch):
      loss, gradient = model.loss_and_gradient(u, batch)
      direction = blend(gradient, m, hyperparameters.beta)
      u = local_sgd.descend(u, direction, hyperparameters.learning_rate)
      return u, loss

    u, loss = client_data.fold_batches(
        data, step, w, seed=seed, reports=True, **hyperparameters.budget()
    )
    weight = tf.stack([
        client_work.client_weight(kind, data, hyperparameters.batch_size)
        for kind in (client_weighting, 'examples')
    ])
    return client_work.ClientOutput(
        client_state=client_state,
        update=collections.OrderedDict(
            weights=local_sgd.difference(w, u),
            # At the old w, not at u.
            momentum=local_gradient.compute(
                model, w, data, seed=seed
            ).gradient,
        ),
        weight=weight,
        loss=loss,
    )

  return client_work.ClientWork(update)


def blend(gradient: Any, momentum: Any, beta: float) -> Any:
  """Returns (1 - beta) gradient + beta momentum."""
  return tf.nest.map_structure(
      lambda g, m: (
          tf.constant(1 - beta, g.dtype) * g + tf.constant(beta, g.dtype) * m
      ),
      gradient, momentum,
  )


@methods.register(
    'mime_lite', MimeLiteHyperparameters,
    summary='FedAvg whose clients use the momentum of the server'
    ' (Karimireddy 2020)',
    travels=methods.Travels(
        down=('weights', 'momentum'), up=('weights', 'momentum')
    ),
)
def _build(task, hyperparameters):
  return build_mime_lite(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
