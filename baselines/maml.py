"""MAML and FOMAML: a global model that is good after a few local steps.

Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks
    Finn, Abbeel, Levine. ICML 2017.
"""

import dataclasses

from tff_pers.aggregators import choice
from tff_pers.algorithms.local_update import local_update as family
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_update
from tff_pers.client_works import maml
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers.numerics import thetas


@dataclasses.dataclass(frozen=True)
class FomamlHyperparameters(hp.Aggregation, hp.Hyperparameters):
  """Hyperparameters of FOMAML."""

  learning_rate: float = hp.field(
      0.1, 'Step size gamma of the adaptation, per step.', above=0.0,
      search=hp.Around(20),
  )
  adaptation_steps: int = hp.field(
      5, 'Adaptation steps J in training, in minibatches.', minimum=1,
      search=hp.Around(4),
  )
  batch_size: int = hp.inherited(hp.LocalBatches, 'batch_size')
  server_learning_rate: float = hp.field(
      0.5, 'Step size eta of the server, whose gradient comes from one'
      ' minibatch per client.', above=0.0, search=hp.Around(10),
  )
  steps: int = hp.field(
      0, 'Adaptation steps s at evaluation, in minibatches; 0: as in training.',
      minimum=0,
  )


@dataclasses.dataclass(frozen=True)
class MamlHyperparameters(FomamlHyperparameters):
  """Hyperparameters of MAML."""

  alpha: float = hp.field(
      0.0, 'Strength of the pull towards the received model.', minimum=0.0
  )
  stop_gradient_anchor: bool = hp.field(
      True,
      'Whether the received model is a constant in the pull of steps towards'
      ' it; else the pull is differentiated too.', when='alpha!=0',
  )
  outer: str = hp.field(
      'proximal', 'Whether the loss after adaptation includes the pull.',
      choices=('proximal', 'plain'), when='alpha!=0',
  )


@builders.checked
def build_fomaml(
    model: functional.FunctionalModel,
    hyperparameters: FomamlHyperparameters = FomamlHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FOMAML: MAML without the derivative of the steps.

    client i: u <- w;  J times: u <- u - gamma g_i(u; b);  q_i = g_i(u; b')
    server  : w <- w - eta * sum_i p_i q_i
    deploy  : v <- w;  s times: v <- v - gamma g_i(v; b)  on training data

  It is Theta_{J+1} of the local update methods: J steps, then one gradient,
  which is all that is sent. Clients are stateless.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FomamlHyperparameters`.
    client_weighting: p_i, see `client_work.client_weight`.
  """
  work = local_update.build_local_update(
      model, gamma=hyperparameters.learning_rate,
      theta=thetas.LastGradient(hyperparameters.adaptation_steps + 1).theta,
      batch_size=hyperparameters.batch_size, client_weighting=client_weighting,
  )
  return _compose(model, work, hyperparameters)


@builders.checked
def build_maml(
    model: functional.FunctionalModel,
    hyperparameters: MamlHyperparameters = MamlHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds MAML, for the objective sum_i p_i f_i(u_J(w)).

    client i: u <- w;  J times: u <- u - gamma g_i(u; b)
              q_i = d/dw f_i(u; b'), through the J steps
    server  : w <- w - eta * sum_i p_i q_i
    deploy  : v <- w;  s times: v <- v - gamma g_i(v; b)  on training data

  With J = 1 and full batches it is Per-FedAvg with the exact Hessian, one local
  step and beta = eta. For `alpha`, see `client_works.maml`. The reported loss
  is that of the adapted models. Clients are stateless.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `MamlHyperparameters`.
    client_weighting: p_i, see `client_work.client_weight`.
  """
  work = maml.build_maml_work(
      model, num_adaptation_steps=hyperparameters.adaptation_steps,
      gamma=hyperparameters.learning_rate, alpha=hyperparameters.alpha,
      stop_gradient_anchor=hyperparameters.stop_gradient_anchor,
      proximal_outer=hyperparameters.outer == 'proximal',
      batch_size=hyperparameters.batch_size, client_weighting=client_weighting,
  )
  return _compose(model, work, hyperparameters)


def _compose(model, work, hyperparameters):
  # Plain steps without the pull, which only stabilizes training; a client that
  # deploys wants a model for its own data.
  deploy = local_sgd.build_adaptation(
      model, learning_rate=hyperparameters.learning_rate,
      batch_size=hyperparameters.batch_size,
      num_steps=hyperparameters.steps or hyperparameters.adaptation_steps,
  )
  return family.compose(
      model, work, eta=hyperparameters.server_learning_rate, deploy=deploy,
      model_aggregator=choice.chosen(hyperparameters),
  )


@methods.register(
    'fomaml', FomamlHyperparameters, revision=2,
    summary='a global model that is good after local steps, first order'
    ' (Finn 2017)',
)
def _build_fomaml(task, hyperparameters):
  return build_fomaml(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )


@methods.register(
    'maml', MamlHyperparameters, revision=2,
    summary='FOMAML with the exact gradient (Finn 2017)',
)
def _build_maml(task, hyperparameters):
  return build_maml(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
