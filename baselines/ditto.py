"""Ditto: personal models, pulled towards the federated one.

Ditto: Fair and Robust Federated Learning Through Personalization.
    Li, Hu, Beirami, Smith. ICML 2021.
"""

import dataclasses

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


# The values compared by Pillutla et al. (ICML 2022).
_POSTHOC_EPOCHS = 5


@dataclasses.dataclass(frozen=True)
class DittoHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of Ditto."""

  lambda_: float = hp.field(
      1.0, 'Pull lambda towards the federated model.', minimum=0.0,
      search=hp.Between(0.01, 10.0, log=True),
  )
  personal_steps: int = hp.field(
      0, 'Steps K_p of the personal model per round; 0: as the shared model.',
      minimum=0, when='mode=joint',
  )
  personal_learning_rate: float = hp.field(
      0.0, 'Step size eta_p of the personal model, per step; 0: learning_rate.',
      minimum=0.0,
  )
  mode: str = hp.field(
      'joint',
      'joint: personal models train in every round; posthoc: FedAvg, and when'
      ' it deploys, every client trains its own model for five epochs from w.',
      choices=('joint', 'posthoc'),
  )

  @property
  def personal_rate(self) -> float:
    """eta_p."""
    return self.personal_learning_rate or self.learning_rate

  def longest_line(self) -> int:
    if self.mode == 'posthoc':
      return 0  # The number of passes decides.
    shared = super().longest_line()
    # 0 means that the data decide, which cannot be compared to a number of
    # steps.
    return shared and max(shared, self.personal_steps)


@builders.checked
@builders.takes_statistics('averaged')
def build_ditto(
    model: functional.FunctionalModel,
    hyperparameters: DittoHyperparameters = DittoHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds Ditto.

    client i: u <- w;  K times: u <- u - eta g_i(u; b)
              K_p times: v <- v - eta_p (g_i(v; b) + lambda (v - w))
    server  : w <- w - sum_i q_i (w - u_i) / sum_i q_i
    deploy  : v

  Both models train on the same batches; w in the second is the model received.
  Server state: `weights` w. Client state: v, initially w^0; empty with
  mode=posthoc, where v starts from w at deployment. w evolves as in FedAvg;
  lambda = 0 is local training. Stable for eta_p (L + lambda) < 2, where f_i is
  L-smooth. Clipping applies to the gradient of v including the pull. With
  mode=posthoc, eta_p ignores the schedule, which has ended when clients begin.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `DittoHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  if hyperparameters.mode == 'posthoc':
    def deploy(message, client_state, data):
      del client_state  # Empty.
      w = message['weights']
      return _train_personal(
          model, w, w, data, hyperparameters,
          # Not scheduled, because the schedule covers training only.
          rate=hyperparameters.personal_rate,
          seed=client_work.key(message, data),
          batch_size=hyperparameters.batch_size,
          num_epochs=_POSTHOC_EPOCHS,
      )[0]
    return fedavg.build_averaging(
        model,
        local_sgd.build_local_sgd(model, hyperparameters, client_weighting),
        deploy=deploy, model_aggregator=choice.chosen(hyperparameters),
    )
  return fedavg.build_averaging(
      model, build_ditto_work(model, hyperparameters, client_weighting),
      init_client=model.initial_weights, combine=lambda w, v: v,
      model_aggregator=choice.chosen(hyperparameters),
  )


def build_ditto_work(
    model: functional.FunctionalModel,
    hyperparameters: DittoHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work; the client state is v, the loss that of v.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_ditto`.
    client_weighting: See `build_ditto`.
  """
  budget = hyperparameters.budget()
  personal_budget = dict(budget)
  if hyperparameters.personal_steps:
    personal_budget.update(
        num_steps=hyperparameters.personal_steps, num_epochs=None
    )

  def update(message, client_state, data):
    w, seed = message['weights'], client_work.key(message, data)
    rate = lambda eta: local_step.scheduled(hyperparameters, message, eta)
    # u <- u - eta g_i(u; b). The same seed below gives v the same batches, as
    # in the authors' code, so that lambda = 0 is exactly local training.
    u, _ = local_sgd.train(
        model, w, data, learning_rate=rate(hyperparameters.learning_rate),
        seed=seed, local=local_step.build(hyperparameters), **budget,
    )
    # The pull is towards the received w: u is this client's own, and the next w
    # is not known yet.
    v, loss = _train_personal(
        model, client_state, w, data, hyperparameters,
        rate=rate(hyperparameters.personal_rate), seed=seed, **personal_budget,
    )
    return client_work.ClientOutput(
        client_state=v,
        update=local_sgd.difference(w, u),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def _train_personal(model, v, w, data, hyperparameters, *, rate, **options):
  """Returns (v after local steps with the pull towards w, mean loss of v)."""
  pull, local = hyperparameters.lambda_, local_step.build(hyperparameters)
  local = local.of(model)

  def step(sgd, batch):
    loss, gradient = model.loss_and_gradient(sgd.weights, batch)
    # g_i(v; b) + lambda (v - w): the penalty is lambda/2 ||v - w||^2.
    pulled = local_sgd.pulled(gradient, sgd.weights, w, pull)
    pulled = local.with_statistics(pulled, gradient)
    return local.apply(sgd, pulled, rate), loss

  sgd, loss = client_data.fold_batches(
      data, step, local.start(v), reports=True, **options
  )
  return sgd.weights, loss


@methods.register(
    'ditto', DittoHyperparameters,
    summary='personal models pulled towards the federated one (Li 2021)',
)
def _build(task, hyperparameters):
  return build_ditto(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
