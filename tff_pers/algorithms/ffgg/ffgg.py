"""FFGG: fine-tuning followed by a global gradient.

A client fits its private weights to the global weights that it received, then
sends one gradient of the global weights, with the private ones held constant.

    F_m(theta) = grad_theta f_m(theta, w) at w = w_m*(theta)

If every client can fit its data after fine-tuning at one common theta* ("the
model is overpersonalized"), all F_m(theta*) are 0, and heterogeneity costs
nothing: training converges to theta* exactly, with any cohort.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025. Algorithms 1, 2 and 3.
"""

import collections
import dataclasses
from typing import Optional

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.algorithms.ffgg import ffgg_private
from tff_pers.algorithms.ffgg import ffgg_stages
from tff_pers.client_works import client_work
from tff_pers.client_works import fine_tuners
from tff_pers.client_works import local_gradient
from tff_pers.composition import builders
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import least_squares
from tff_pers.data import task as task_lib
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters


@builders.checked
@builders.takes_statistics('private')
def build_ffgg(
    parts: partition.Partition,
    hyperparameters: ffgg_hp.FFGGHyperparameters = (
        ffgg_hp.FFGGHyperparameters()
    ),
    *,
    client_weighting: str = 'uniform',
    tuner: Optional[fine_tuners.FineTuner] = None,
    model_aggregator: Optional[composition.Aggregator] = None,
) -> process.PersonalizedProcess:
  """Builds FFGG (Algorithm 1).

    client m: w     <- approximate argmin_w f_m(theta, w)     (Algorithm 2)
              Delta <- grad_theta f_m(theta, w)               w is constant
    server  : theta <- theta - gamma_theta * sum_m q_m Delta_m / sum_m q_m

  Delta is the gradient of the mean loss over all examples of the client, or
  over `gradient_examples` random ones, without dropout. Private weights restart
  whenever a client takes part and are then discarded; stateful clients keep
  them. For the server, deployment, and metrics that tell whether the split
  suits the data, see `ffgg_stages.compose`.

  As `async_ffgg` (Algorithm 3, Theorem 7), the server takes a step on each
  message when it arrives, and stale messages have the same weight as fresh
  ones: at a theta* that suits all clients every Delta is 0, so that delays cost
  time but cause no error. Event-driven programs use the `parts` of the process;
  a round of `next` is a round of FFGG with staleness 0.

  Limit case: without private weights it is FedSGD, gradient descent on the mean
  loss. Theorem 1 assumes gamma_theta <= 1 / L, with F_m 1/L-cocoercive.

  Args:
    parts: The model and its split.
    hyperparameters: See `FFGGHyperparameters`; `split` is `parts` already.
    client_weighting: q_m, see `client_work.client_weight`; uniform in theory.
    tuner: Replaces the fine-tuner of the hyperparameters.
    model_aggregator: Replaces the `aggregator` of the hyperparameters.

  Returns:
    A `PersonalizedProcess` with `parts`. A client deploys theta with its w
    after the final fine-tuning, as weights of the unsplit model.

  Raises:
    TypeError: If `parts` or `hyperparameters` has the wrong type.
    ValueError: If no weight is global, or if the fine-tuner is for quadratics
      and the loss is not quadratic in the private weights.
  """
  private = ffgg_private.PrivateWeights(parts, hyperparameters, tuner)

  def update(message, kept, data):
    theta = message['weights']  # theta^r
    own = private.tune(  # w_m^r, Algorithm 2
        message, kept, data, use=ffgg_private.FINE_TUNING
    )
    # Delta_m^r. A separate tape that has not recorded the fine-tuning, so that
    # w is a constant; otherwise the gradient through its steps would be added.
    delta = local_gradient.compute(
        parts.global_model(own), theta, data,
        seed=client_work.key(message, data),
        num_rows=hyperparameters.gradient_examples,
    )
    return client_work.ClientOutput(
        client_state=private.keep(kept, own),
        # Only theta's: w never leaves its client.
        update=collections.OrderedDict(weights=delta.gradient),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=delta.loss,
    )

  return ffgg_stages.compose(
      parts, client_work.ClientWork(update), private, hyperparameters,
      scale=lambda message: 1.0, client_weighting=client_weighting,
      model_aggregator=model_aggregator or choice.chosen(hyperparameters),
  )


@methods.register(
    'ffgg', ffgg_hp.FFGGHyperparameters, needs=split_hyperparameters.NEEDS,
    summary='fine-tuning of private weights, then one global gradient',
)
def _build(task, hyperparameters):
  return build_ffgg(
      hyperparameters.partition(task.model), hyperparameters,
      client_weighting=task.client_weighting,
  )


def known_smoothness(
    task: task_lib.Task, parts: partition.Partition
) -> Optional[float]:
  """Returns L = max_m lambda_max(G_m) over honest clients, or None.

  It is known for least squares with a private w (section 5.1).
  """
  is_known = task.model.name == 'least_squares'
  if not is_known or list(parts.is_private) != [False, True]:
    return None
  (theta_dim,), _ = (weight.shape for weight in task.model.layers or ())
  return least_squares.smoothness(
      [task.train[client]['examples'] for client in task.honest], theta_dim
  )


@methods.register(
    'async_ffgg', ffgg_hp.AsyncFFGGHyperparameters, driver='events',
    weighs_clients=False, needs=split_hyperparameters.NEEDS, revision=2,
    summary='FFGG whose gradients are applied one by one as they arrive',
)
def _build_async(task, hyperparameters):
  parts = hyperparameters.partition(task.model)
  step = hyperparameters.step(task.arrivals, known_smoothness(task, parts))
  return build_ffgg(
      parts, dataclasses.replace(hyperparameters, server_learning_rate=step),
      client_weighting='uniform',
  )
