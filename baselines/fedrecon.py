"""FedRecon: private weights, reconstructed in every round, then discarded.

Federated Reconstruction: Partially Local Federated Learning
    Singhal, Sidahmed, Garrett, Wu, Rush, Prakash. NeurIPS 2021.
"""

import collections
import dataclasses
from typing import Any, Mapping

import tensorflow as tf

from baselines import fedalt
from baselines import fedsim
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import split_training
from tff_pers.composition import builders
from tff_pers.composition import server_optimizers
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import partition


@dataclasses.dataclass(frozen=True)
class FedReconHyperparameters(fedalt.PhasesHyperparameters):
  """Hyperparameters of FedRecon."""

  private_epochs: int = hp.inherited(
      fedalt.PhasesHyperparameters, 'private_epochs', default=5
  )
  private_steps: int = hp.inherited(
      fedalt.PhasesHyperparameters, 'private_steps', default=50
  )
  halves: bool = hp.field(
      True,
      'Whether private weights are learned on every other example and the'
      ' shared ones on the rest; false: both on all.',
  )
  joint: bool = hp.field(
      False, 'Whether private weights also train while shared ones are trained.'
  )
  server_optimizer: str = hp.field(
      'sgd',
      'Server optimizer; the authors use Yogi with server_learning_rate 0.1.',
      choices=('sgd', 'yogi'),
  )


@builders.checked
def build_fedrecon(
    parts: partition.Partition,
    hyperparameters: FedReconHyperparameters = FedReconHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedRecon.

    client i: a <- theta, w <- that part of w^0
              on examples 0, 2, 4, ..., in a few epochs of at most s steps:
                w <- w - eta_w grad_w f_i(a, w; b)
              on examples 1, 3, 5, ..., K times:
                a <- a - eta grad_a f_i(a, w; b)
                [joint: w <- w - eta_w grad_w f_i(a, w; b) in the same step]
    server  : theta <- theta - eta_g * sum_i q_i (theta - a_i) / sum_i q_i

  The weight q_i is that of the second half only, and no gradient passes through
  the reconstruction of w. Server state: `weights` theta, and `optimizer` if
  there is one. Clients keep nothing: for evaluation they learn w from w^0 on
  all their training data, in `adapt_epochs` passes. If both parts use all data,
  this is stateless FedAlt.

  Args:
    parts: The model and its split.
    hyperparameters: See `FedReconHyperparameters`; `split` is `parts` already.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  local = local_step.build(hyperparameters)

  def update(message, kept, data):
    theta = message['weights']
    own = split_training.initial_private(parts, message)
    rates = split_training.scheduled_rates(hyperparameters, message)
    options = dict(seed=client_work.key(message, data), local=local)
    support, query = data, data
    if hyperparameters.halves:
      support, query = every_other(data, first=0), every_other(data, first=1)
    own, private_loss = split_training.train_private(
        parts, theta, own, support, learning_rate=rates.own, **options,
        **hyperparameters.private_budget(support),
    )
    if hyperparameters.joint:
      shared, _, loss = split_training.train_jointly(
          parts, theta, own, query, rates=rates, **options,
          **hyperparameters.budget(),
      )
    else:
      shared, loss = split_training.train_global(
          parts, theta, own, query, learning_rate=rates.theta, **options,
          **hyperparameters.budget(),
      )
    return client_work.ClientOutput(
        client_state=kept,
        # Only theta: w never leaves its client.
        update=local_sgd.difference(theta, shared),
        # Examples on which only w was learned carry no weight for theta.
        weight=tf.where(
            query['num_examples'] > 0,
            client_work.client_weight(
                client_weighting, query, hyperparameters.batch_size
            ), 0.0,
        ),
        loss=private_loss if loss is None else loss,
    )

  yogi = None
  if hyperparameters.server_optimizer == 'yogi':
    yogi = server_optimizers.build_fedyogi(
        hyperparameters.server_learning_rate, initial_v=0.0
    )
  return fedsim.average_shared(
      parts, client_work.ClientWork(update), hyperparameters, num_clients=None,
      stateless=True, server_optimizer=yogi,
  )


def every_other(data: Mapping[str, Any], first: int) -> Mapping[str, Any]:
  """Returns dense client data with only the examples first, first + 2, ..."""
  return collections.OrderedDict(
      data,
      num_examples=(data['num_examples'] + 1 - first) // 2,
      examples=tf.nest.map_structure(
          lambda rows: rows[first::2], data['examples']
      ),
  )


@methods.register(
    'fedrecon', FedReconHyperparameters,
    needs=dict(fedsim.NEEDS, examples=lambda values: values.halves),
    summary='private weights reconstructed in every round (Singhal 2021)',
)
def _build(task, hyperparameters):
  return build_fedrecon(
      hyperparameters.partition(task.model), hyperparameters,
      client_weighting=task.client_weighting,
  )
