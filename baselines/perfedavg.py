"""Per-FedAvg: a global model that is good after one local gradient step.

Personalized Federated Learning with Theoretical Guarantees: A Model-Agnostic
Meta-Learning Approach.
    Fallah, Mokhtari, Ozdaglar. NeurIPS 2020.
"""

import dataclasses
from typing import Any, Callable, Mapping

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import meta_gradient
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class PerFedAvgHyperparameters(hp.Aggregation, hp.LocalTraining):
  """Hyperparameters of Per-FedAvg; `learning_rate` is the outer step beta."""

  a: float = hp.field(
      0.1, 'Step size a of the adaptation step, per step.', minimum=0.0,
      search=hp.Around(10),
  )
  variant: str = hp.field(
      'fo',
      'The Hessian term: fo drops it, hf approximates it by two gradients,'
      ' exact computes it.',
      choices=('fo', 'hf', 'exact'),
  )
  steps: int = hp.field(
      1, 'Adaptation steps at evaluation, in minibatches.', minimum=0,
      search=hp.Between(1, 20, log=True),
  )


@builders.checked
def build_perfedavg(
    model: functional.FunctionalModel,
    hyperparameters: PerFedAvgHyperparameters = PerFedAvgHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds Per-FedAvg, for the objective sum_i q_i f_i(w - a grad f_i(w)).

    client i: u <- w;  K times, with independent minibatches b, b', b'':
                wt <- u - a g_i(u; b);  v <- g_i(wt; b')
                d = v                                                 (fo)
                d = v - a Hess f_i(u; b'') v                          (exact)
                d = v - a (g_i(u + e v; b'') - g_i(u - e v; b'')) / (2e)  (hf)
                u <- u - beta d
    server  : w <- w - sum_i q_i (w - u_i) / sum_i q_i
    deploy  : v <- w;  `steps` times: v <- v - a g_i(v; b)  on training data

  The local step (schedule, momentum, weight decay, clipping) moves u along d;
  the adaptation steps of size a are part of the objective and plain. Server
  state: `weights` w. Clients are stateless. The paper averages with q_i = 1.
  a = 0 is FedAvg with step beta and the batches b'.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `PerFedAvgHyperparameters`.
    client_weighting: q_i, see `fedavg.build_fedavg`.
  """
  return fedavg.build_averaging(
      model, build_meta_sgd(model, hyperparameters, client_weighting),
      deploy=build_adaptation(model, hyperparameters),
      model_aggregator=choice.chosen(hyperparameters),
  )


_HESSIAN_PRODUCTS = {
    'hf': meta_gradient.hessian_free_product,
    'exact': meta_gradient.hessian_product,
}


def build_meta_sgd(
    model: functional.FunctionalModel,
    hyperparameters: PerFedAvgHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: K steps on the meta-objective.

  The reported loss is that of the adapted model, f_i(wt; b').

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_perfedavg`.
    client_weighting: See `build_perfedavg`.
  """
  a, product = hyperparameters.a, _HESSIAN_PRODUCTS.get(hyperparameters.variant)

  def meta_gradient_of(u, batches):
    """Returns (f_i(wt; b'), d)."""
    b1, b2, *b3 = batches
    _, gradient = model.loss_and_gradient(u, b1)
    # wt <- u - a g_i(u; b)
    wt = local_sgd.descend(u, gradient, a)
    # v <- g_i(wt; b'). If b were reused, on which wt depends, v would not be
    # grad f_i(wt) in expectation.
    loss, v = model.loss_and_gradient(wt, b2)
    if product is None:
      return loss, v
    # At u, not at wt, because it differentiates the step from u to wt.
    hessian_product = product(model, u, b3[0], v)
    return loss, local_sgd.descend(v, hessian_product, a)  # (I - a H) v

  def update(message, client_state, data):
    local = local_step.build(hyperparameters)
    beta = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )

    def step(sgd, batches):
      loss, d = meta_gradient_of(sgd.weights, batches)
      return local.apply(sgd, d, beta), loss

    # One key for each of b, b' and, with a Hessian, b'', so that they are drawn
    # independently.
    num_uses = 2 if product is None else 3
    sgd, loss = client_data.fold_batch_tuples(
        data, step, local.start(message['weights']),
        seeds=[client_work.key(message, data, use) for use in range(num_uses)],
        reports=True, **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=client_state,
        update=local_sgd.difference(message['weights'], sgd.weights),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def build_adaptation(
    model: functional.FunctionalModel,
    hyperparameters: PerFedAvgHyperparameters,
) -> Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Any]:
  """Returns `(message, C, D) -> adapted weights`, a TensorFlow function.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `build_perfedavg`.
  """
  # Plain steps (no `local`): they are the inner step of the objective.
  return local_sgd.build_adaptation(
      model, learning_rate=hyperparameters.a,
      batch_size=hyperparameters.batch_size, num_steps=hyperparameters.steps,
  )


@methods.register(
    'perfedavg', PerFedAvgHyperparameters,
    summary='a global model that is good after one local step (Fallah 2020)',
)
def _build(task, hyperparameters):
  return build_perfedavg(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
