"""Presets of the local update methods that are known by their own names.

    fedsgd         Theta_1:K  gamma = 0              eta = learning_rate
    minibatch_sgd  Theta_1    gamma = 0              eta = learning_rate
    lookahead      Theta_1:K  gamma = learning_rate  eta = slow_step * gamma

Communication-Efficient Learning of Deep Networks from Decentralized Data
(FedSGD).
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas. AISTATS 2017.
Lookahead Optimizer: k Steps Forward, 1 Step Back
    Zhang, Lucas, Hinton, Ba. NeurIPS 2019.
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

  # K times this is the step of a round, .1 as a default: it diverges where
  # local steps of .1 do, not earlier.
  learning_rate: float = hp.field(
      0.005, 'Step size eta of the server, per gradient of a minibatch.',
      above=0.0, search=hp.Around(20),
  )
  local_steps: int = hp.field(
      20, 'Minibatches K per client and round; 0: use local_epochs instead.',
      minimum=0, search=hp.Around(4),
  )


@dataclasses.dataclass(frozen=True)
class MinibatchSgdHyperparameters(hp.Aggregation, hp.Hyperparameters):
  """Hyperparameters of mini-batch SGD."""

  learning_rate: float = hp.inherited(
      FedSgdHyperparameters, 'learning_rate', default=0.1
  )
  batch_size: int = hp.inherited(hp.LocalBatches, 'batch_size')


@dataclasses.dataclass(frozen=True)
class LookaheadHyperparameters(hp.AveragedTraining):
  """Hyperparameters of Lookahead."""

  slow_step: float = hp.field(
      0.5, 'Step a of the slow weights; 1 moves all the way.', above=0.0,
      search=hp.Between(0.2, 1.0),
  )


@builders.checked
def build_fedsgd(
    model: functional.FunctionalModel,
    hyperparameters: FedSgdHyperparameters = FedSgdHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedSGD.

    client i: K minibatches b: q_i = sum_b g_i(w; b), all at w
    server  : w <- w - eta * sum_i p_i q_i

  q_i is K times the gradient of one large batch: eta corresponds to FedAvg's
  rate of local steps, and eta K is the step size of SGD.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedSgdHyperparameters`.
    client_weighting: p_i, see `client_work.client_weight`.
  """
  return _at_the_received_model(
      model, hyperparameters, client_weighting, **hyperparameters.budget()
  )


@builders.checked
def build_minibatch_sgd(
    model: functional.FunctionalModel,
    hyperparameters: MinibatchSgdHyperparameters = (
        MinibatchSgdHyperparameters()
    ),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds mini-batch SGD: w <- w - eta * sum_i p_i g_i(w; b).

  With a single client it is the method of that name; with a cohort, its
  minibatch consists of one minibatch per client.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `MinibatchSgdHyperparameters`.
    client_weighting: p_i, see `client_work.client_weight`.
  """
  return _at_the_received_model(
      model, hyperparameters, client_weighting, theta=(1.0,),
      batch_size=hyperparameters.batch_size,
  )


@builders.checked
@builders.takes_statistics('averaged')
def build_lookahead(
    model: functional.FunctionalModel,
    hyperparameters: LookaheadHyperparameters = LookaheadHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds Lookahead.

    client i: u <- w;  K times: u <- u - gamma g_i(u; b)
    server  : w <- w - a * sum_i p_i (w - u_i)

  The method of that name has a single client; with more, w follows the mean of
  the fast weights.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `LookaheadHyperparameters`.
    client_weighting: p_i, see `client_work.client_weight`.
  """
  return family.compose_averaging(
      model, hyperparameters, outer=hyperparameters.slow_step,
      client_weighting=client_weighting,
  )


def _at_the_received_model(model, hyperparameters, client_weighting, **budget):
  work = local_update.build_local_update(
      model, gamma=0.0, client_weighting=client_weighting, **budget
  )
  return family.compose(
      model, work, eta=hyperparameters.learning_rate,
      model_aggregator=choice.chosen(hyperparameters),
  )


_PRESETS = (
    (
        'fedsgd', FedSgdHyperparameters, build_fedsgd,
        'several gradients at the received model (McMahan 2017)',
    ),
    (
        'minibatch_sgd', MinibatchSgdHyperparameters, build_minibatch_sgd,
        'one gradient at the received model',
    ),
    (
        'lookahead', LookaheadHyperparameters, build_lookahead,
        'slow weights that follow the fast ones of clients (Zhang 2019)',
    ),
)


def _register(name, hyperparameters, build, summary):
  @methods.register(name, hyperparameters, summary=summary, revision=2)
  def _build(task, chosen):
    return build(task.model, chosen, client_weighting=task.client_weighting)


for _preset in _PRESETS:
  _register(*_preset)
