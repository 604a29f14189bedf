"""pFedMe: personal models regularized by Moreau envelopes.

Personalized Federated Learning with Moreau Envelopes.
    T. Dinh, Tran, Nguyen. NeurIPS 2020.
"""

import dataclasses
from typing import Any, Callable, Mapping

from absl import logging
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
class PFedMeHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of pFedMe; its R, K are our local_steps, inner_steps."""

  # Smaller than elsewhere: learning_rate * lam should be <= 1.
  learning_rate: float = hp.field(
      0.05, 'Step size eta of u on the Moreau envelope, per step.', above=0.0,
      search=hp.Around(20),
  )
  inner_steps: int = hp.field(
      5, 'Gradient steps towards theta per minibatch.', minimum=1
  )
  inner_lr: float = hp.field(
      0.05,
      'Step size eta_p of these steps; stable if eta_p (lam + curvature) < 2.',
      above=0.0, search=hp.Around(10),
  )
  lam: float = hp.field(
      15.0, 'Strength lam of the pull of theta towards u.', above=0.0,
      search=hp.Between(0.1, 30.0, log=True),
  )
  beta: float = hp.field(
      1.0, 'Server step size; 1 replaces w by the mean of the clients.',
      above=0.0,
  )
  warm_start: bool = hp.field(
      False, 'Whether theta starts at its previous value rather than at u.'
  )
  deploy: str = hp.field(
      'recompute',
      'The personal model: recompute theta from the current w, or use the one'
      ' stored when the client last took part.',
      choices=('recompute', 'stored'),
  )


@builders.checked
def build_pfedme(
    model: functional.FunctionalModel,
    hyperparameters: PFedMeHyperparameters = PFedMeHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds pFedMe.

  Objective: sum_i q_i min_theta f_i(theta) + lam/2 ||theta - w||^2.

    client i: u <- w;  K times, with a minibatch b:
                theta <- u  (warm start: stays; w in the first step)
                `inner_steps` times:
                  theta <- theta - eta_p (g_i(theta; b) + lam (theta - u))
                u <- u - eta lam (u - theta)
    server  : w <- (1 - beta) w + beta * sum_i q_i u_i / sum_i q_i
    deploy  : the last theta of such a client round from the current w, on
              training data: K * `inner_steps` prox steps, u moving as above

  Server state: `weights` w. Clients are stateless, unless `deploy` is `stored`:
  then they keep theta, initially w^0. The local step (schedule, momentum,
  weight decay, clipping) is that of u, with the gradient lam (u - theta) of the
  Moreau envelope; the inner steps only solve for theta and are plain. The paper
  averages with q_i = 1. For lam -> inf it tends to FedAvg, at the rate 1/lam.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `PFedMeHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  # Only a warning, because the outer step may still converge: for an exact
  # theta if eta lam L / (lam + L) < 2.
  pull = hyperparameters.learning_rate * hyperparameters.lam
  if pull > 1:
    logging.warning(
        'pFedMe: learning_rate * lam should be <= 1, so that u stays between u'
        ' and theta, found %g.', pull,
    )
  work = build_moreau_sgd(model, hyperparameters, client_weighting)
  if hyperparameters.deploy == 'stored':
    return fedavg.build_averaging(
        model, work, server_learning_rate=hyperparameters.beta,
        init_client=model.initial_weights,
        combine=lambda weights, theta: theta,
        model_aggregator=choice.chosen(hyperparameters),
    )
  return fedavg.build_averaging(
      model, work, server_learning_rate=hyperparameters.beta,
      deploy=build_recompute(model, hyperparameters),
      model_aggregator=choice.chosen(hyperparameters),
  )


def build_moreau_sgd(
    model: functional.FunctionalModel,
    hyperparameters: PFedMeHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: K steps on the Moreau envelope.

  The client state is the last theta if it is deployed as stored, else unused.
  The reported loss is that of theta.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_pfedme`.
    client_weighting: See `build_pfedme`.
  """

  def update(message, client_state, data):
    u, theta, loss = local_round(model, hyperparameters, message, data)
    is_stored = hyperparameters.deploy == 'stored'
    return client_work.ClientOutput(
        client_state=theta if is_stored else client_state,
        update=local_sgd.difference(message['weights'], u),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def build_recompute(
    model: functional.FunctionalModel, hyperparameters: PFedMeHyperparameters
) -> Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Any]:
  """Returns `(message, C, D) -> theta`, a TensorFlow function.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_pfedme`.
  """

  def recompute(message, client_state, data):
    del client_state  # Clients are stateless.
    return local_round(model, hyperparameters, message, data)[1]

  return recompute


def local_round(
    model: functional.FunctionalModel,
    hyperparameters: PFedMeHyperparameters,
    message: Mapping[str, Any],
    data: Mapping[str, Any],
) -> tuple[Any, Any, tf.Tensor]:
  """Returns (u, theta, mean loss of theta) after K steps from w."""
  eta, lam = hyperparameters.learning_rate, hyperparameters.lam
  local = local_step.build(hyperparameters)
  # The gradient is lam (u - theta), of which lam is moved into the step size.
  # Clipping norm and weight decay belong to the whole gradient, and are divided
  # by lam to compensate.
  local = dataclasses.replace(
      local, weight_decay=local.weight_decay / lam,
      clip_norm=local.clip_norm / lam,
  )
  rate = local_step.scheduled(hyperparameters, message, eta * lam)

  def step(state, batch):
    sgd, theta = state
    u = sgd.weights
    # The authors' code starts theta at its previous value.
    theta_0 = theta if hyperparameters.warm_start else u
    theta, loss = prox_steps(model, hyperparameters, theta_0, u, batch)
    # u <- u - eta lam (u - theta); lam is in `rate`.
    sgd = local.apply(sgd, local_sgd.difference(u, theta), rate)
    return (sgd, theta), loss

  # theta starts at w: the value of a warm start in the first step.
  w = message['weights']
  (sgd, theta), loss = client_data.fold_batches(
      data, step, (local.start(w), w), seed=client_work.key(message, data),
      reports=True, **hyperparameters.budget(),
  )
  return sgd.weights, theta, loss


def prox_steps(
    model: functional.FunctionalModel, hyperparameters: Any, theta: Any,
    anchor: Any, batch: Any,
) -> tuple[Any, tf.Tensor]:
  """Returns (theta after `inner_steps` steps, the last loss before it).

  Steps of size eta_p on f_i(theta; b) + lam/2 ||theta - anchor||^2.
  """
  loss = None
  for _ in range(hyperparameters.inner_steps):
    loss, gradient = model.loss_and_gradient(theta, batch)
    pulled = local_sgd.pulled(gradient, theta, anchor, hyperparameters.lam)
    theta = local_sgd.descend(theta, pulled, hyperparameters.inner_lr)
  return theta, loss


@methods.register(
    'pfedme', PFedMeHyperparameters,
    summary='personal models pulled towards a global one (T. Dinh 2020)',
)
def _build(task, hyperparameters):
  return build_pfedme(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
