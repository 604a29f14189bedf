"""FedSGD and mini-batch SGD: gradients at the model received, no local steps.

Communication-Efficient Learning of Deep Networks from Decentralized Data
(FedSGD).
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas. AISTATS 2017.
"""

import dataclasses

from tff_pers.aggregators import choice
from tff_pers.algorithms.local_update import local_update as family
from tff_pers.client_works import local_update
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class FedSgdHyperparameters(hp.Aggregation, hp.LocalBatches):
  """Hyperparameters of FedSGD."""

  learning_rate: float = hp.field(
      0.1, 'Step size eta of the server, per gradient of a minibatch.',
      above=0.0, search=hp.Around(20),
  )
  local_steps: int = hp.field(
      20, 'Minibatches K per client and round; 0: use local_epochs instead.',
      minimum=0, search=hp.Around(4),
  )


@dataclasses.dataclass(frozen=True)
class MinibatchSgdHyperparameters(hp.Aggregation, hp.Hyperparameters):
  """Hyperparameters of mini-batch SGD."""

  learning_rate: float = hp.inherited(FedSgdHyperparameters, 'learning_rate')
  batch_size: int = hp.inherited(hp.LocalBatches, 'batch_size')


@builders.checked
def build_fedsgd(
    model: functional.FunctionalModel,
    hyperparameters: FedSgdHyperparameters = FedSgdHyperparameters(),
) -> process.PersonalizedProcess:
  """Builds FedSGD.

    client i: K minibatches b: q_i = sum_b g_i(w; b), all at w
    server  : w <- w - eta * mean_i q_i

  It is Theta_1:K of the local update methods with gamma = 0. q_i is K times the
  gradient of one large batch, so that eta K is the step size of SGD, and eta
  is where FedAvg has the rate of its local steps. Clients weigh alike.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedSgdHyperparameters`.
  """
  return _at_the_received_model(
      model, hyperparameters, **hyperparameters.budget()
  )


@builders.checked
def build_minibatch_sgd(
    model: functional.FunctionalModel,
    hyperparameters: MinibatchSgdHyperparameters = (
        MinibatchSgdHyperparameters()
    ),
) -> process.PersonalizedProcess:
  """Builds mini-batch SGD: w <- w - eta * mean_i g_i(w; b).

  It is Theta_1 of the local update methods with gamma = 0. With a single client
  it is the method of that name; with a cohort, its minibatch is made of one of
  each client. Clients weigh alike.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `MinibatchSgdHyperparameters`.
  """
  return _at_the_received_model(
      model, hyperparameters, theta=local_update.all_of(1),
      batch_size=hyperparameters.batch_size,
  )


def _at_the_received_model(model, hyperparameters, **budget):
  work = local_update.build_local_update(model, gamma=0.0, **budget)
  return family.compose(
      model, work, eta=hyperparameters.learning_rate,
      model_aggregator=choice.chosen(hyperparameters),
  )


@methods.register(
    'fedsgd', FedSgdHyperparameters, weighs_clients=False,
    summary='several gradients at the received model (McMahan 2017)',
)
def _build_fedsgd(task, hyperparameters):
  return build_fedsgd(task.model, hyperparameters)


@methods.register(
    'minibatch_sgd', MinibatchSgdHyperparameters, weighs_clients=False,
    summary='one gradient at the received model',
)
def _build_minibatch_sgd(task, hyperparameters):
  return build_minibatch_sgd(task.model, hyperparameters)
