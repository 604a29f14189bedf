"""APFL: a personal model, interpolated with the global one.

Adaptive Personalized Federated Learning.
    Deng, Kamani, Mahdavi. 2020. https://arxiv.org/abs/2003.13461
"""

import collections
import dataclasses
from typing import Any

import tensorflow as tf

from baselines import fedavg
from tff_pers.aggregators import choice
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
class ApflHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of APFL."""

  alpha0: float = hp.field(
      0.5, 'Initial share alpha of the personal model.', minimum=0.0,
      maximum=1.0, search=hp.Between(0.05, 0.95),
  )
  adaptive: bool = hp.field(
      True, 'Whether clients learn alpha.', search=hp.Among((True, False))
  )


@builders.checked
def build_apfl(
    model: functional.FunctionalModel,
    hyperparameters: ApflHyperparameters = ApflHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds APFL.

    client i: u <- w;  K times, with a minibatch b:
                vbar = alpha v + (1 - alpha) u
                G_u = g_i(u; b);  G = g_i(vbar; b)
                alpha' = clip(alpha - eta <v - u, G>, 0, 1)         (first step)
                u <- u - eta G_u;  v <- v - eta alpha G;  alpha <- alpha'
    server  : w <- w - sum_i q_i (w - u_i) / sum_i q_i
    deploy  : alpha v + (1 - alpha) w

  Server state: `weights` w. Client state: `alpha`, scalar, and `weights` v, at
  first alpha0 and w^0. The paper averages with q_i = 1. w evolves as in FedAvg;
  alpha = 1 is local training, alpha = 0 deploys FedAvg's model. u and v each
  have their own momentum and clipping norm (see `local_step`); of these
  hyperparameters, only the schedule applies to alpha.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `ApflHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  return fedavg.build_averaging(
      model, build_apfl_work(model, hyperparameters, client_weighting),
      init_client=lambda seed: init_client_state(
          hyperparameters, model.initial_weights(seed)
      ),
      # With the server's current w, because clients do not keep u.
      combine=lambda w, state: mix(state['alpha'], state['weights'], w),
      model_aggregator=choice.chosen(hyperparameters),
  )


def init_client_state(
    hyperparameters: ApflHyperparameters, weights: Any
) -> Any:
  """Returns the initial state `<alpha, weights>` of a client."""
  dtype = tf.nest.flatten(weights)[0].dtype
  return collections.OrderedDict(
      alpha=tf.convert_to_tensor(hyperparameters.alpha0, dtype),
      weights=weights,
  )


def mix(alpha: tf.Tensor, personal: Any, shared: Any) -> Any:
  """Returns alpha * personal + (1 - alpha) * shared, leaf by leaf."""
  return tf.nest.map_structure(
      lambda v, w: alpha * v + (1 - alpha) * w, personal, shared
  )


def alpha_gradient(personal: Any, shared: Any, gradient: Any) -> tf.Tensor:
  """Returns d f(mix(alpha)) / d alpha = <v - u, G>, G = grad f(mix)."""
  products = tf.nest.map_structure(
      lambda v, u, g: tf.reduce_sum((v - u) * g), personal, shared, gradient
  )
  return tf.add_n(tf.nest.flatten(products))


def build_apfl_work(
    model: functional.FunctionalModel,
    hyperparameters: ApflHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: K steps of u, v and alpha on the same batches.

  The reported loss is that of vbar.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_apfl`.
    client_weighting: See `build_apfl`.
  """
  local = local_step.build(hyperparameters)

  def next_alpha(alpha, gradient, steps, rate):
    if not hyperparameters.adaptive:
      return alpha
    # alpha' = clip(alpha - eta <v - u, G>, 0, 1)
    moved = tf.clip_by_value(local_sgd.descend(alpha, gradient, rate), 0, 1)
    # Once per round, as in the authors' code; FedJAX updates it in every step.
    return tf.where(tf.equal(steps, 0), moved, alpha)

  def train(message, client_state, data):
    """Returns (u, v, alpha, mean loss of vbar)."""
    rate = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )

    def step(state, batch):
      shared, personal, alpha, steps = state
      u, v = shared.weights, personal.weights
      # Both gradients are taken on the same batch, at the old u, v and alpha.
      _, shared_gradient = model.loss_and_gradient(u, batch)  # G_u
      loss, gradient = model.loss_and_gradient(mix(alpha, v, u), batch)  # G
      # The chain rule: d vbar / d v = alpha.
      personal_gradient = tf.nest.map_structure(lambda g: alpha * g, gradient)
      after = (
          local.apply(shared, shared_gradient, rate),
          local.apply(personal, personal_gradient, rate),
          next_alpha(alpha, alpha_gradient(v, u, gradient), steps, rate),
          steps + 1,
      )
      return after, loss

    start = (
        local.start(message['weights']), local.start(client_state['weights']),
        client_state['alpha'], tf.constant(0),
    )
    (shared, personal, alpha, _), loss = client_data.fold_batches(
        data, step, start, seed=client_work.key(message, data), reports=True,
        **hyperparameters.budget(),
    )
    return shared.weights, personal.weights, alpha, loss

  def update(message, client_state, data):
    u, v, alpha, loss = train(message, client_state, data)
    return client_work.ClientOutput(
        client_state=collections.OrderedDict(alpha=alpha, weights=v),
        update=local_sgd.difference(message['weights'], u),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


@methods.register(
    'apfl', ApflHyperparameters,
    summary='a personal model interpolated with the global one (Deng 2020)',
)
def _build(task, hyperparameters):
  return build_apfl(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
