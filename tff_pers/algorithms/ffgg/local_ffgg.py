"""Local FFGG: fine-tuning, then alternating private and global steps.

Partially Personalized Federated Learning: Breaking the Curse of Data
Heterogeneity
    Mishchenko, Islamov, Gorbunov, Horvath. TMLR 2025. Algorithm 4.
"""

import collections
from typing import Optional

from tff_pers import composition
from tff_pers.aggregators import choice
from tff_pers.algorithms.ffgg import ffgg_hyperparameters as ffgg_hp
from tff_pers.algorithms.ffgg import ffgg_private
from tff_pers.algorithms.ffgg import ffgg_stages
from tff_pers.client_works import client_work
from tff_pers.client_works import fine_tuners
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import split_training
from tff_pers.composition import builders
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import partition
from tff_pers.models import split_hyperparameters


@builders.checked
@builders.takes_statistics('private')
def build_local_ffgg(
    parts: partition.Partition,
    hyperparameters: ffgg_hp.LocalFFGGHyperparameters = (
        ffgg_hp.LocalFFGGHyperparameters()
    ),
    *,
    client_weighting: str = 'uniform',
    tuner: Optional[fine_tuners.FineTuner] = None,
    model_aggregator: Optional[composition.Aggregator] = None,
) -> process.PersonalizedProcess:
  """Builds Local FFGG (Algorithm 4).

    client m: a <- theta
              w <- approximate argmin_w f_m(theta, w)         (Algorithm 2)
              K times, with a minibatch b:
                w <- w - gamma_w     grad_w f_m(a, w; b)
                a <- a - gamma_theta grad_a f_m(a, w; b)      at the new w
              Delta <- theta - a
    server  : theta <- theta - sum_m q_m Delta_m / sum_m q_m

  The paper uses the server step 1, its experiments FedAdam. Private weights
  restart whenever a client takes part and are then discarded; stateful clients
  keep them. See `ffgg_stages.compose` for the server, deployment and metrics,
  in which F_m is the sum of a client's K gradients.

  Limit cases: without private weights it is FedAvg; with K = 1, an exact w and
  full batches it is FFGG with the same gamma_theta.

  Args:
    parts: The model and its split.
    hyperparameters: See `LocalFFGGHyperparameters`; `split` is `parts` already.
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
  local = local_step.build(hyperparameters)

  def rates(message):
    return split_training.Rates(*(
        hyperparameters.scheduled(message, rate) for rate in
        (hyperparameters.learning_rate, hyperparameters.private_rate)
    ))

  def update(message, kept, data):
    theta = message['weights']
    own = private.tune(message, kept, data, use=ffgg_private.FINE_TUNING)
    shared, own, loss = split_training.train_alternately(
        parts, theta, own, data, local=local, rates=rates(message),
        seed=client_work.key(message, data), **hyperparameters.budget(),
    )
    delta = local_sgd.difference(theta, shared)
    return client_work.ClientOutput(
        client_state=private.keep(kept, own),
        # Only theta's: w never leaves its client.
        update=collections.OrderedDict(weights=delta),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return ffgg_stages.compose(
      parts, client_work.ClientWork(update), private, hyperparameters,
      # Delta is gamma_theta times the sum of the gradients.
      scale=lambda message: rates(message).theta,
      client_weighting=client_weighting,
      model_aggregator=model_aggregator or choice.chosen(hyperparameters),
  )


@methods.register(
    'local_ffgg', ffgg_hp.LocalFFGGHyperparameters,
    needs=split_hyperparameters.NEEDS, recipes=ffgg_hp.RECIPES, revision=2,
    summary='FFGG with alternating local steps of both parts',
)
def _build(task, hyperparameters):
  return build_local_ffgg(
      hyperparameters.partition(task.model), hyperparameters,
      client_weighting=task.client_weighting,
  )
