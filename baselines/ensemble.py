"""Ensemble: C full models, and a router per client that mixes their outputs.

The baseline of FLoRAL in which every adaptor is a full model.

Collaborative and Efficient Personalization with Mixtures of Adaptors.
    Almansoori, Horvath, Takac. CPAL 2025. https://arxiv.org/abs/2410.03497
"""

import collections
import dataclasses
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from baselines import model_table
from tff_pers.aggregators import router as router_aggregation
from tff_pers.client_works import client_work
from tff_pers.client_works import joint_step
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.client_works import router_alone
from tff_pers.client_works import router_training
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.data import task as task_lib
from tff_pers.models import functional
from tff_pers.models import mixtures

# A client does not deploy models of smaller weight.
_SKIPPED = 1e-3
# Step size for the router of a new client, as in FLoRAL.
_ADAPT_RATE = 1.0


@dataclasses.dataclass(frozen=True)
class EnsembleHyperparameters(hp.LocalTraining, hp.NewClients):
  """Hyperparameters of the ensemble."""

  num_models: int = hp.field(
      0, "C; 0: the task's number of clusters, 4 if that is unknown.",
      minimum=0, search=hp.Between(2, 6),
  )
  router: str = hp.field(
      'learned', 'learned, or oracle (the true cluster, frozen).',
      choices=('learned', 'oracle'),
  )
  router_learning_rate: float = hp.field(
      0.1, 'Step size of the router; 0: stays uniform.', minimum=0.0,
      when='router=learned', search=hp.Around(10),
  )
  mix: str = hp.field(
      'logits', 'What is mixed.', choices=('logits', 'probabilities')
  )


@builders.checked
def build_ensemble(
    model: functional.FunctionalModel,
    hyperparameters: EnsembleHyperparameters = EnsembleHyperparameters(),
    *,
    num_models: int = 4,
    groups: Optional[np.ndarray] = None,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds the ensemble.

    client i: w_ic <- w_c;  K times, with a minibatch b:
                pi = softmax(t [+ noise]);  loss = f_i(sum_c pi_c logits_c; b)
                t    <- t    - eta_router grad_t loss
                w_ic <- w_ic - eta grad_{w_ic} loss    for every c, same point
              pi_i = softmax(t) after the last step
    server  : w_c <- sum_i pi_ic q_i w_ic / sum_i pi_ic q_i    for every c

  Router and models take one joint step with one clipping norm (see
  `local_step`); routers do not decay. A model that no client uses stays the
  same. Clients deploy the mixture without models of weight below 0.001. Server
  state: `models`, a table (see `mixtures`) from C independent initializations.
  Client state: `router` t, float[C], initially 0; empty with router=oracle,
  where pi is one-hot at the true cluster: C separate FedAvg runs. A client that
  never trains learns t from 0 in `adapt_epochs` full-batch steps with frozen
  models, with FLoRAL's unscaled step. C = 1 is FedAvg.

  Args:
    model: The architecture; f_i is its mean loss on client i.
    hyperparameters: See `EnsembleHyperparameters`.
    num_models: C if `hyperparameters.num_models` is 0.
    groups: int32[N], true clusters; needed with router=oracle.
    num_clients: N; a client of a larger index never trains. None: every client
      may train.
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If router=oracle has no groups, or more groups than models.
  """
  num_models = hyperparameters.num_models or num_models
  if hyperparameters.router == 'oracle':
    _check_groups(groups, num_models)
  routing = _Routing(model, hyperparameters, num_models, groups)
  mixed = mixtures.mixture(model, num_models, hyperparameters.mix)

  def adapted_mixing(message, client_state, data):
    """Returns pi; a client that never trains learns it here."""
    stored = routing.mixing(routing.start(client_state, data['index']))
    is_new = client_work.is_unseen(data['index'], num_clients)

    def loss(pi, batch):
      weights = collections.OrderedDict(mixing=pi, models=message['models'])
      return mixed.batch_loss(weights, batch, training=False)

    # Other clients take 0 steps, since `tf.where` computes both branches.
    learned = router_alone.learn_logits(
        mixed, loss, tf.zeros([num_models], model.dtype), data,
        num_steps=tf.where(is_new, hyperparameters.adapt_epochs, 0),
        learning_rate=_ADAPT_RATE, router_step='scale_free',
    )
    return tf.where(is_new, tf.nn.softmax(learned), stored)

  def deployed_weights(models, pi):
    # The skipped weights sum to less than C / 1000, so do not rescale.
    skipped = tf.where(pi < _SKIPPED, tf.zeros_like(pi), pi)
    return pi, collections.OrderedDict(mixing=skipped, models=models)

  return model_table.build_model_table(
      model, num_models,
      build_ensemble_work(mixed, hyperparameters, routing, client_weighting),
      deploy=lambda message, client_state, data: deployed_weights(
          message['models'], adapted_mixing(message, client_state, data)
      ),
      deployed=mixed,
      client_model=lambda models, client_state, index: deployed_weights(
          models, routing.mixing(routing.start(client_state, index))
      )[1],
      init_client=lambda seed: routing.initial_state(),
  )


class _Routing:
  """Source of pi: learned logits, or the true cluster."""

  def __init__(self, model, hyperparameters, num_models, groups):
    self._dtype = model.dtype
    self._num_models, self._groups = num_models, groups
    self._learned = hyperparameters.router == 'learned'
    self.learning_rate = (
        # The step size 0 freezes the oracle's pi, see `local_step.moves`.
        hyperparameters.router_learning_rate if self._learned else 0.0
    )

  def initial_state(self):
    return self.state(tf.zeros([self._num_models], self._dtype))

  def state(self, router):
    """Returns C after a round."""
    return collections.OrderedDict(router=router) if self._learned else ()

  def start(self, client_state, index):
    """Returns t, or the oracle's pi (uniform for an unknown cluster)."""
    if self._learned:
      return client_state['router']
    return router_training.oracle_mix(
        np.asarray(self._groups, np.int32), index, self._num_models,
        self._dtype,
    )

  def mixing(self, router):
    """Returns pi."""
    return tf.nn.softmax(router) if self._learned else router


def build_ensemble_work(
    mixed: functional.FunctionalModel, hyperparameters: Any, routing: Any,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: joint SGD of router and models.

  Args:
    mixed: The mixture, see `mixtures.mixture`.
    hyperparameters: An `EnsembleHyperparameters`.
    routing: Source of pi.
    client_weighting: See `client_work.client_weight`.
  """

  local = local_step.build(hyperparameters)

  def gradients(models, router, batch):
    """Returns the loss and its gradients by part."""
    with tf.GradientTape() as tape:
      tape.watch((models, router))
      # One loss of the mixture, so that the chain rule scales the gradient of
      # model c by pi_c, and router and models are differentiated at one point.
      mixing = routing.mixing(router)
      loss = mixed.batch_loss(
          collections.OrderedDict(mixing=mixing, models=models), batch
      )
    gradient, router_gradient = tape.gradient(
        loss, (models, router),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    gradient = tf.nest.map_structure(tf.convert_to_tensor, gradient)
    return loss, dict(models=gradient, router=router_gradient)

  def train(message, router, data):
    """Returns (models, router, mean loss) after the local steps."""
    parts = collections.OrderedDict(models=message['models'], router=router)
    rates = dict(
        models=hyperparameters.learning_rate, router=routing.learning_rate
    )
    rates = {
        name: local_step.scheduled(hyperparameters, message, rate)
        for name, rate in rates.items()
    }

    def step(states, batch):
      loss, found = gradients(
          states['models'].weights, states['router'].weights, batch
      )
      return joint_step.apply(
          local, states, found, rates, undecayed=('router',)
      ), loss

    states, loss = client_data.fold_batches(
        data, step, joint_step.start(local, parts, rates),
        seed=client_work.key(message, data), reports=True,
        **hyperparameters.budget(),
    )
    return states['models'].weights, states['router'].weights, loss

  def update(message, client_state, data):
    models, router, loss = train(
        message, routing.start(client_state, data['index']), data
    )
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(
        client_state=routing.state(router),
        update=collections.OrderedDict(
            adaptors=local_sgd.difference(message['models'], models), base=()
        ),
        # pi after the last local step, as in FLoRAL's Algorithm 1.
        weight=router_aggregation.router_weight(
            weight, routing.mixing(router)
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def _check_groups(groups, num_models: int) -> None:
  largest = num_models - 1
  if groups is None or np.min(groups) < 0 or np.max(groups) > largest:
    raise ValueError(
        f'`groups` must be known and in 0..{largest}, the models, with'
        f' router=oracle, found {groups}.'
    )


@methods.register(
    'ensemble', EnsembleHyperparameters,
    summary='C full models, mixed by a router per client',
    travels=methods.Travels(down=('models',), up=('models',)),
)
def _build(task, hyperparameters):
  return build_ensemble(
      task.model, hyperparameters,
      num_models=task_lib.num_clusters(task, 4),
      groups=task.groups if task.has_groups else None,
      num_clients=task.num_clients,
      client_weighting=task.client_weighting,
  )
