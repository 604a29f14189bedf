"""FedEM: every client's data are a mixture of C unknown distributions.

Federated Multi-Task Learning under a Mixture of Distributions.
    Marfoq, Neglia, Bellet, Kameni, Vidal. NeurIPS 2021.
"""

import collections
import dataclasses
from typing import Any, Mapping, Optional

import tensorflow as tf

from baselines import model_table
from tff_pers.aggregators import router as router_aggregation
from tff_pers.client_works import client_work
from tff_pers.client_works import example_losses
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.config import hyperparameters as hp
from tff_pers.config import methods
from tff_pers.core import process
from tff_pers.data import task as task_lib
from tff_pers.models import functional
from tff_pers.models import loss_functions
from tff_pers.models import mixtures
from tff_pers.models import tags


@dataclasses.dataclass(frozen=True)
class FedEmHyperparameters(hp.LocalTraining, hp.NewClients):
  """Hyperparameters of FedEM; a pass of `adapt_epochs` is an E-step."""

  num_models: int = hp.field(
      0,
      "Components C; 0: the task's number of clusters, 3 if that is unknown.",
      minimum=0, search=hp.Between(2, 5),
  )


@builders.checked
def build_fedem(
    model: functional.FunctionalModel,
    hyperparameters: FedEmHyperparameters = FedEmHyperparameters(),
    *,
    num_models: int = 3,
    num_clients: Optional[int] = None,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds FedEM.

    client i: E-step, on all its examples s:
                q_c(s) = softmax_c(log pi_c - l_c(s));  pi_c <- mean_s q_c(s)
              M-step, K times, with a minibatch b:
                w_ic <- w_ic - eta grad (1/|b|) sum_{s in b} q_c(s) l_c(s; w_ic)
    server  : w_c <- sum_i n_i w_ic / sum_i n_i     for every c
    deploy  : p(y | x) = sum_c pi_c softmax(model_c(x)), after an E-step

  l_c(s) is the loss of component c on example s; q is fixed during the round.
  The components' gradients are clipped by their joint norm. Server state:
  `models`, a table (see `mixtures`) from C independent initializations. Client
  state: `mixing` pi, float[C], initially uniform; a client that never trains
  takes `adapt_epochs` E-steps before it deploys. C = 1 is FedAvg.

  Args:
    model: The architecture. Its loss is a negative log-likelihood; squared
      errors are treated as those of unit variance (half their sum).
    hyperparameters: See `FedEmHyperparameters`.
    num_models: C if `hyperparameters.num_models` is 0.
    num_clients: N; a client of a larger index never trains. None: every client
      may train.
    client_weighting: n_i, see `fedavg.build_fedavg`.

  Raises:
    ValueError: If the model has several outputs.
  """
  model.require_one_output(
      'FedEM, whose losses are likelihoods (tip: the ensemble, IFCA or PERM)'
  )
  num_models = hyperparameters.num_models or num_models

  def mixing_of(message, client_state, data):
    """Returns pi after the E-steps of a client that deploys."""
    losses = negative_log_likelihoods(
        model, message['models'], num_models, data
    )
    is_new = client_work.is_unseen(data['index'], num_clients)
    num_steps = tf.where(is_new, hyperparameters.adapt_epochs, 1)
    return tf.while_loop(
        lambda t, _: t < num_steps,
        lambda t, pi: (t + 1, e_step(pi, losses, data)[1]),
        (tf.constant(0), client_state['mixing']),
    )[1]

  def deploy(message, client_state, data):
    pi = mixing_of(message, client_state, data)
    return pi, collections.OrderedDict(mixing=pi, models=message['models'])

  def client_model(models, client_state, index):
    del index  # The client state identifies the mixture.
    return collections.OrderedDict(
        mixing=client_state['mixing'], models=models
    )

  return model_table.build_model_table(
      model, num_models,
      build_fedem_work(model, hyperparameters, num_models, client_weighting),
      deploy=deploy,
      # The model mixes distributions, not logits.
      deployed=mixtures.mixture(model, num_models, 'probabilities'),
      client_model=client_model,
      init_client=lambda seed: collections.OrderedDict(
          mixing=tf.fill(
              [num_models], tf.constant(1 / num_models, model.dtype)
          )
      ),
  )


def negative_log_likelihoods(
    model: functional.FunctionalModel, models: Any, num_models: int,
    data: Mapping[str, Any],
) -> tf.Tensor:
  """Returns l_c(s), [rows, C]; of a sequence the sum over its steps."""
  losses = example_losses.compute(model, models, num_models, data)
  if model.example_loss is loss_functions.squared_error:
    # A mean over targets; -log N(y; prediction, I) up to a constant.
    targets = model.y_spec.shape[1:].num_elements()
    losses *= tf.constant(targets / 2, losses.dtype)
  elif model.example_loss is tags.multilabel_crossentropy:
    # A mean over labels that are independent given x.
    targets = model.y_spec.shape[1:].num_elements()
    losses *= tf.constant(targets, losses.dtype)
  elif 'loss' in model.weights_of:
    y = model.targets_of(data['examples']['x'], data['examples']['y'])
    losses *= model.row_weights(y, losses.dtype)[:, None]
  elif model.labels is not None:
    # A mean over the steps of a sequence, or over several labels.
    labels_each = tf.reduce_prod(tf.shape(data['examples']['y'])[1:])
    losses *= tf.cast(labels_each, losses.dtype)
  return losses


def e_step(
    mixing: tf.Tensor, losses: tf.Tensor, data: Mapping[str, Any]
) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns (q [rows, C], pi [C]): responsibilities and their mean.

  Args:
    mixing: The old pi, [C].
    losses: l_c(s), [rows, C].
    data: Dense client data, whose mask counts; without examples pi is kept.
  """
  # q before pi, because the responsibilities use the old pi. softmax is safe
  # for large losses. A component with pi = 0 has log pi = -inf and stays out.
  responsibilities = tf.nn.softmax(tf.math.log(mixing) - losses)
  mean = example_losses.mean_rows(data, responsibilities)
  # The mean over no examples would be 0, which is not a distribution.
  return responsibilities, tf.where(data['num_examples'] > 0, mean, mixing)


def weighted_loss(
    model: functional.FunctionalModel, models: Any, batch: Any,
    responsibilities: tf.Tensor,
) -> tf.Tensor:
  """Returns sum_c (1/|b|) sum_{s in b} q_c(s) l_c(s), with penalties.

  For texts, |b| is the number of tokens and l_c(s) the sum over those of s.

  Args:
    model: The model.
    models: A table of C models.
    batch: A `client_data.Batch`.
    responsibilities: q of its rows, [batch_size, C], treated as constants.
  """
  total = 0.0
  num_models = responsibilities.shape[1]
  for c, weights in enumerate(mixtures.unstack(models, num_models)):
    y = model.targets_of(batch.x, batch.y)
    losses = responsibilities[:, c] * model.example_loss(
        y, model.predict(weights, batch.x, True, batch.seed)
    )
    if 'loss' in model.weights_of:
      losses *= model.row_weights(y, losses.dtype)
    # Not a product, so that an overflow in a padding row does not spread.
    losses = tf.where(batch.mask, losses, tf.zeros_like(losses))
    count = tf.maximum(model.batch_weight(batch, losses.dtype), 1)
    # Divided by |b|, not by sum_s q_c(s): with q of the current models, the
    # gradient is that of the marginal loss -log sum_c pi_c exp(-l_c).
    total += tf.reduce_sum(losses) / count
    total += tf.cast(model.penalty(weights), losses.dtype)
  return total


def build_fedem_work(
    model: functional.FunctionalModel,
    hyperparameters: FedEmHyperparameters,
    num_models: int,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: one E-step, then the local steps of the M-step.

  Args:
    model: The architecture, see `build_fedem`.
    hyperparameters: See `build_fedem`.
    num_models: C.
    client_weighting: See `build_fedem`.
  """
  local = local_step.build(hyperparameters)

  def update(message, client_state, data):
    received, mixing = message['models'], client_state['mixing']
    losses = negative_log_likelihoods(model, received, num_models, data)
    # E-step at the models received; its q stays fixed in the M-step.
    responsibilities, mixing = e_step(mixing, losses, data)
    rate = local_step.scheduled(
        hyperparameters, message, hyperparameters.learning_rate
    )

    def step(sgd, batch):
      models = sgd.weights
      # Batches are shuffled, so q must follow its example.
      q = tf.gather(responsibilities, batch.rows)
      with tf.GradientTape() as tape:
        tape.watch(models)
        loss = weighted_loss(model, models, batch, q)
      gradient = tape.gradient(
          loss, models, unconnected_gradients=tf.UnconnectedGradients.ZERO
      )
      gradient = tf.nest.map_structure(tf.convert_to_tensor, gradient)
      return local.apply(sgd, gradient, rate), loss

    sgd, loss = example_losses.fold_rows(
        data, step, local.start(received), seed=client_work.key(message, data),
        reports=True, **hyperparameters.budget(),
    )
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(
        client_state=collections.OrderedDict(mixing=mixing),
        update=collections.OrderedDict(
            adaptors=local_sgd.difference(received, sgd.weights), base=()
        ),
        # n_i for every component, whatever pi is: unlike in FLoRAL, the
        # responsibilities already contain pi.
        weight=router_aggregation.router_weight(
            weight, tf.ones([num_models])
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


@methods.register(
    'fedem', FedEmHyperparameters,
    summary='mixtures of C models, by responsibilities (Marfoq 2021)',
    travels=methods.Travels(down=('models',), up=('models',)),
)
def _build(task, hyperparameters):
  return build_fedem(
      task.model, hyperparameters,
      num_models=task_lib.num_clusters(task, 3),
      num_clients=task.num_clients, client_weighting=task.client_weighting,
  )
