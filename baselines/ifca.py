"""IFCA: k models; every client trains the one that fits it best.

With average=model it is also known as HypCluster.

An Efficient Framework for Clustered Federated Learning.
    Ghosh, Chung, Yin, Ramchandran. NeurIPS 2020.
Three Approaches for Personalization with Applications to Federated Learning.
    Mansour, Mohri, Ro, Suresh. 2020. https://arxiv.org/abs/2002.10619
"""

import collections
import dataclasses
from typing import Any, Mapping

import tensorflow as tf

from baselines import model_table
from tff_pers.aggregators import router as router_aggregation
from tff_pers.client_works import client_work
from tff_pers.client_works import example_losses
from tff_pers.client_works import local_gradient
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import cadence as cadence_lib
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.data import task as task_lib
from tff_pers.models import functional
from tff_pers.models import mixtures

_PERTURBATION_USE = -3  # Separates the noise from other draws of a run.
_PERTURBATION = 0.1  # Relative to the usual initialization.


@dataclasses.dataclass(frozen=True)
class IfcaHyperparameters(hp.LocalTraining):
  """Hyperparameters of IFCA."""

  # With average=gradient a step uses all examples, without minibatches.
  local_steps: int = hp.inherited(
      hp.LocalTraining, 'local_steps', when='average=model'
  )
  local_epochs: int = hp.inherited(
      hp.LocalTraining, 'local_epochs', when='average=model'
  )
  batch_size: int = hp.inherited(
      hp.LocalTraining, 'batch_size', when='average=model'
  )

  num_models: int = hp.field(
      0, "k; 0: the task's number of clusters, 2 if that is unknown.",
      minimum=0, search=hp.Between(2, 5),
  )
  average: str = hp.field(
      'model',
      'model: local SGD, averaged per model; gradient: one step of the full'
      ' local gradient, divided by the whole cohort.',
      choices=('model', 'gradient'),
  )
  restarts: int = hp.field(
      1,
      'Number of draws of the k initial models, of which the one with the'
      ' smallest mean training loss is kept. More than 1 use the first round.',
      minimum=1,
  )
  warmup_rounds: int = hp.field(
      0,
      'Number of first rounds in which all clients train model 0; the k models'
      ' are then copies of it plus noise.',
      minimum=0,
  )

  def __post_init__(self):
    super().__post_init__()
    if self.restarts > 1 and self.warmup_rounds:
      raise ValueError(
          '`restarts` must be 1 with warmup_rounds, which start from one'
          f' model, found {self.restarts}.'
      )

  def cadence(
      self, num_clients: int, cohort_size: int
  ) -> cadence_lib.Cadence:
    """See the base class; during warm-up, all clients share one model."""
    return super().cadence(num_clients, cohort_size).after(self.warmup_rounds)

  def longest_line(self) -> int:
    return 1 if self.average == 'gradient' else super().longest_line()

  def num_visited(self, num_examples: int) -> int:
    if self.average == 'gradient':
      return num_examples
    return super().num_visited(num_examples)


@builders.checked
def build_ifca(
    model: functional.FunctionalModel,
    hyperparameters: IfcaHyperparameters = IfcaHyperparameters(),
    *,
    num_models: int = 2,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds IFCA.

    client i: j_i = argmin_j f_i(w_j) on all its training data (smallest index)
    average=model:
              u <- w_{j_i};  K times: u <- u - eta g_i(u; b)
      server: w_j <- sum_{i: j_i = j} q_i u_i / sum_{i: j_i = j} q_i
    average=gradient:
      server: w_j <- w_j - eta sum_{i: j_i = j} q_i grad f_i(w_j) / sum_i q_i
              (each gradient clipped, and with weight decay, by its client)
    deploy  : w_{j_i}, j_i chosen again

  A model without members stays the same. Clients send one-hot-weighted values,
  so the server needs only sums, not individual choices. Server state: `models`,
  a table (see `mixtures`); clients are stateless. k = 1 with average=model is
  FedAvg.

  Args:
    model: The architecture; f_i is its mean loss on client i.
    hyperparameters: See `IfcaHyperparameters`.
    num_models: k if `hyperparameters.num_models` is 0.
    client_weighting: q_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If clients are weighted by their batches but have none.
  """
  if hyperparameters.average == 'gradient' and client_weighting == 'batches':
    raise ValueError(
        '`client_weighting` must be uniform or examples with average=gradient'
        ' because there are no minibatches, found batches.'
    )
  num_models = hyperparameters.num_models or num_models
  restarts = hyperparameters.restarts
  dtype = model.dtype

  def next_models(state, mean):
    # Updates include the step size already, because clients know the schedule.
    models = local_sgd.descend(state['models'], mean['adaptors'], 1.0)
    if restarts > 1:
      # Round 0 only chooses among the draws: its clients trained the models of
      # draw 0, and that training is discarded.
      best = tf.argmin(mean['base'], output_type=tf.int32)
      chosen = mixtures.initial_models(model, num_models, state['seed'], best)
      models = _where(tf.equal(state['round'], 0), chosen, models)
    if hyperparameters.warmup_rounds:
      last = hyperparameters.warmup_rounds - 1
      # With equal models, losses would be equal, every client would choose
      # model 0, and the others would never move.
      noisy = _copies(mixtures.select(models, 0), num_models, state['seed'])
      models = _where(state['round'] <= last, noisy, models)
    return models

  def deploy(message, client_state, data):
    del client_state  # Empty.
    j, _ = choose(model, message['models'], num_models, data)
    router = tf.one_hot(j, num_models, dtype=dtype)
    return router, mixtures.select(message['models'], j)

  def client_model(models, client_state, index):
    del client_state, index  # Without data, any model will do.
    return mixtures.select(models, 0)

  return model_table.build_model_table(
      model, num_models,
      build_ifca_work(model, hyperparameters, num_models, client_weighting),
      deploy=deploy, deployed=model, client_model=client_model,
      next_models=next_models,
  )


def choose(
    model: functional.FunctionalModel, models: Any, num_models: int,
    data: Mapping[str, Any],
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (j, f_i(w_j)) for the smallest training loss, without dropout."""
  losses = example_losses.mean_loss(
      model, data, example_losses.compute(model, models, num_models, data)
  )
  # f_i includes the model's penalty, which `compute` leaves out.
  losses += tf.stack([
      tf.cast(model.penalty(mixtures.select(models, j)), losses.dtype)
      for j in range(num_models)
  ])
  return tf.argmin(losses, output_type=tf.int32), tf.reduce_min(losses)


def build_ifca_work(
    model: functional.FunctionalModel,
    hyperparameters: IfcaHyperparameters,
    num_models: int,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work; `base` of its update holds the restarts' losses.

  Args:
    model: The architecture; f_i is its mean loss on client i.
    hyperparameters: See `build_ifca`.
    num_models: C.
    client_weighting: See `build_ifca`.
  """
  by_model = hyperparameters.average == 'model'

  def train(message, weights, data):
    """Returns (what to subtract from the model, the training loss)."""
    seed = client_work.key(message, data)
    rate = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )
    local = local_step.build(hyperparameters)
    if by_model:
      final, loss = local_sgd.train(
          model, weights, data, learning_rate=rate, seed=seed, local=local,
          **hyperparameters.budget(),
      )
      return local_sgd.difference(weights, final), loss
    # The full gradient; `seed` only draws its two halves, unused here.
    found = local_gradient.compute(model, weights, data, seed=seed)
    direction = local.direction(weights, found.gradient)
    scaled = tf.nest.map_structure(
        lambda g: tf.cast(
            tf.convert_to_tensor(rate, dtype_hint=g.dtype), g.dtype
        ) * g,
        direction,
    )
    return scaled, found.loss

  def update(message, client_state, data):
    models = message['models']
    j, _ = choose(model, models, num_models, data)
    # All clients train model 0, which is FedAvg.
    if hyperparameters.warmup_rounds:
      j = tf.where(message['round'] < hyperparameters.warmup_rounds, 0, j)
    one_hot = tf.one_hot(j, num_models)
    delta, loss = train(message, mixtures.select(models, j), data)
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(
        client_state=client_state,
        update=collections.OrderedDict(
            # Zeros for the models that this client did not choose.
            adaptors=tf.nest.map_structure(
                lambda d: tf.tensordot(tf.cast(one_hot, d.dtype), d, axes=0),
                delta,
            ),
            base=_restart_losses(model, message, data, num_models,
                                 hyperparameters.restarts),
        ),
        # Models are averaged over their members, but gradients are divided by
        # the whole cohort, as in the paper, so every client has weight in every
        # model.
        weight=router_aggregation.router_weight(
            weight, one_hot if by_model else tf.ones_like(one_hot)
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def _restart_losses(model, message, data, num_models, restarts):
  """Returns min_j f_i(w_j) for every draw of models in the first round.

  Clients draw the models themselves from the run's seed, so none are sent.
  """
  if restarts == 1:
    return ()
  dtype = model.dtype

  @tf.autograph.experimental.do_not_convert  # Else `map_fn` takes seconds.
  def loss(draw):
    models = mixtures.initial_models(
        model, num_models, message['seed'], draw
    )
    return tf.cast(choose(model, models, num_models, data)[1], dtype)

  return tf.cond(
      tf.equal(message['round'], 0),
      lambda: tf.map_fn(loss, tf.range(restarts), fn_output_signature=dtype),
      lambda: tf.zeros([restarts], dtype),
  )


def _copies(weights, num_models: int, seed):
  """Returns a table of copies of `weights`, with noise on all but model 0."""
  models = [weights] + [
      mixtures.perturb(
          weights, random.key(seed, _PERTURBATION_USE, j), _PERTURBATION
      )
      for j in range(1, num_models)
  ]
  return tf.nest.map_structure(lambda *leaves: tf.stack(leaves), *models)


def _where(condition, a, b):
  return tf.nest.map_structure(lambda x, y: tf.where(condition, x, y), a, b)


@methods.register(
    'ifca', IfcaHyperparameters,
    summary='k models; every client trains its best one (Ghosh 2020)',
    travels=methods.Travels(down=('models',), up=('models',)),
)
def _build(task, hyperparameters):
  return build_ifca(
      task.model, hyperparameters,
      num_models=task_lib.num_clusters(task, 2),
      client_weighting=task.client_weighting,
  )
