"""Local adaptor: a federated base model, and private adaptors per client.

FLoRAL with one adaptor that stays at its client, hence without a router.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    Almansoori, Horvath, Takac. CPAL 2025. https://arxiv.org/abs/2410.03497
"""

import collections
import dataclasses
from typing import Any, Mapping, Optional

import tensorflow as tf

from baselines import fedavg
from tff_pers.aggregators import choice
from tff_pers.algorithms.floral import floral_hyperparameters as floral_hp
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import router_training
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.models import adaptors


@dataclasses.dataclass(frozen=True)
class LocalAdaptorHyperparameters(
    floral_hp.AdaptorHyperparameters, hp.NewClients
):
  """Hyperparameters of local adaptors."""


@builders.checked
def build_local_adaptor(
    adapted: adaptors.AdaptedModel,
    hyperparameters: LocalAdaptorHyperparameters = (
        LocalAdaptorHyperparameters()
    ),
    *,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds local adaptors.

    client k: u_k <- u;  K times, with a minibatch b, both at the same point:
                loss = f_k(u_k + a_k; b)
                [precondition the gradients of low-rank factors]
                u_k <- u_k - eta      grad_u loss
                a_k <- a_k - eta_lora grad_a loss
    server  : u <- sum_k n_k u_k / sum_k n_k

  Server state: `weights` u. Client state: a_k, initially equal for all and
  without effect. Deploys u + a_k, folded together. The step is FLoRAL's; a
  client that never trains uses no schedule.

  Args:
    adapted: The model with one adaptor, see `models.adaptors.floral`.
    hyperparameters: See `LocalAdaptorHyperparameters`; those that describe the
      adaptors have no effect here.
    num_clients: N; a client of a larger index never trains, and learns its
      adaptors when it is evaluated. None: every client may train.
    client_weighting: n_k, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If `adapted` does not have exactly one adaptor, or a frozen base
      has an aggregator.
  """
  hyperparameters.check_aggregator(adapted)
  if adapted.num_adaptors != 1:
    raise ValueError(
        '`adapted` must have one adaptor, which every client has for itself,'
        f' found {adapted.num_adaptors}.'
    )

  def deploy(message, own, data):
    if num_clients is not None:
      # Trained clients keep their adaptors: 0 passes change nothing.
      epochs = tf.where(
          data['index'] < num_clients, 0, hyperparameters.adapt_epochs
      )
      _, own, _ = train(
          adapted, message, own, data, hyperparameters,
          # The step size 0 freezes the base, see `local_step.moves`.
          router_training.Rates(0.0, hyperparameters.adaptor_rate(adapted)),
          num_epochs=epochs, batch_size=hyperparameters.batch_size,
      )
    return combine(adapted, message['weights'], own)

  return fedavg.build_averaging(
      adapted.base, build_work(adapted, hyperparameters, client_weighting),
      init_client=adapted.initial_adaptors,
      combine=lambda base, own: combine(adapted, base, own), deploy=deploy,
      model_aggregator=choice.chosen(hyperparameters), deployed=adapted.merged,
  )


def combine(adapted: adaptors.AdaptedModel, base: Any, own: Any) -> Any:
  """Returns u + a_k: the weights that client k deploys."""
  return adapted.effective(base, own, _only(adapted))


def train(
    adapted: adaptors.AdaptedModel, message: Mapping[str, Any], own: Any,
    data: Mapping[str, Any], hyperparameters: Any, rates: Any, **budget: Any,
) -> tuple[Any, Any, tf.Tensor]:
  """Returns (u_k, a_k, mean loss) after joint local SGD from the message.

  Args:
    adapted: The model with one adaptor.
    message: `<seed, round, weights>`.
    own: a_k.
    data: Dense client data.
    hyperparameters: A `LocalAdaptorHyperparameters`.
    rates: Step sizes, `router_training.Rates`.
    **budget: See `fold_batches`.
  """
  # FLoRAL with C = 1: the mix is the constant 1, and its step size 0 keeps it
  # out of the step.
  _, weights, loss = router_training.train(
      adapted, _only(adapted),
      collections.OrderedDict(adaptors=own, base=message['weights']), data,
      rates=rates, seed=client_work.key(message, data),
      mix=router_training.known_mix, precondition=hyperparameters.precondition,
      local=local_step.build(hyperparameters), **budget,
  )
  return weights['base'], weights['adaptors'], loss


def build_work(
    adapted: adaptors.AdaptedModel,
    hyperparameters: LocalAdaptorHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: joint SGD; sends only the base's difference.

  Args:
    adapted: The model with one adaptor.
    hyperparameters: See `build_local_adaptor`.
    client_weighting: See `build_local_adaptor`.
  """

  rates = router_training.Rates(
      hyperparameters.learning_rate, hyperparameters.adaptor_rate(adapted)
  )

  def update(message, own, data):
    base, own, loss = train(
        adapted, message, own, data, hyperparameters,
        rates.scheduled(hyperparameters, message), **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=own,
        # Only u: a_k never leaves its client.
        update=local_sgd.difference(message['weights'], base),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def _only(adapted):
  """Returns the mix of one adaptor."""
  return tf.ones([1], adapted.base.dtype)


@methods.register(
    'local_adaptor', LocalAdaptorHyperparameters, revision=2,
    summary='a federated model and private low-rank adaptors (FLoRAL, 2024)',
)
def _build(task, hyperparameters):
  return build_local_adaptor(
      hyperparameters.adapt(task.model, num_adaptors=1), hyperparameters,
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
