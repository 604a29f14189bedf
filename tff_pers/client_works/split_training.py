"""Trains global and private weights jointly, alternately, or one only.

    (a, w) <- (a - eta grad_a f_i(a, w; b), w - eta_w grad_w f_i(a, w; b))
    w <- w - eta_w grad_w f_i(a, w; b)
    a <- a - eta grad_a f_i(a, w; b)

A part that is held constant has no gradient, no momentum and no weight decay.
"""

import collections
from typing import Any, Callable, Mapping, NamedTuple, Optional

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import joint_step
from tff_pers.client_works import local_sgd
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import partition


class Rates(NamedTuple):
  """Step sizes, floats or scalar tensors.

  Attributes:
    theta: eta, of the global weights.
    own: eta_w, of the private weights.
  """

  theta: Any
  own: Any


def scheduled_rates(hyperparameters: Any, message: Mapping[str, Any]) -> Rates:
  """Returns the step sizes of a round.

  Args:
    hyperparameters: A `SplitHyperparameters`.
    message: Has the field `round`.
  """
  return Rates(*(
      local_step.scheduled(hyperparameters, message, rate) for rate in
      (hyperparameters.learning_rate, hyperparameters.private_rate)
  ))


def train_jointly(
    parts: partition.Partition, theta: Any, own: Any, data: Mapping[str, Any],
    *, local: local_step.LocalStep, rates: Rates, seed: tf.Tensor,
    **budget: Any,
) -> tuple[Any, Any, tf.Tensor]:
  """Returns (theta, w_i, mean loss) after joint steps of both parts.

  Both gradients of a step are taken at the same point, on the same batch.

  Args:
    parts: The model and its split.
    theta: The global part.
    own: w_i, the private part.
    data: Dense client data, or a dataset of batches.
    local: The step; its norm limit applies to both parts together.
    rates: Step sizes.
    seed: int64[2] key of the batches.
    **budget: See `fold_batches`.
  """
  rate = rates._asdict()
  statistics = dict(zip(rate, parts.statistics))

  def step(states, batch):
    weights = parts.merge(states['theta'].weights, states['own'].weights)
    loss, gradient = parts.model.loss_and_gradient(weights, batch)
    gradients = dict(zip(rate, parts.split(gradient)))
    return joint_step.apply(
        local, states, gradients, rate, statistics=statistics
    ), loss

  states = joint_step.start(
      local, collections.OrderedDict(theta=theta, own=own), rate
  )
  states, loss = client_data.fold_batches(
      data, step, states, seed=seed, reports=True, **budget
  )
  return states['theta'].weights, states['own'].weights, loss


def train_alternately(
    parts: partition.Partition, theta: Any, own: Any, data: Mapping[str, Any],
    *, local: local_step.LocalStep, rates: Rates, seed: tf.Tensor,
    **budget: Any,
) -> tuple[Any, Any, tf.Tensor]:
  """Returns (theta, w_i, mean loss) after alternating steps of w and a.

  Each batch serves two steps: first w, then a at the new w. The loss is that
  before the first step. A part without weights takes no step.

  Args:
    parts: The model and its split.
    theta: The global part, the initial a.
    own: w_i, the private part.
    data: Dense client data, or a dataset of batches.
    local: The step, applied to each part separately.
    rates: Step sizes.
    seed: int64[2] key of the batches.
    **budget: See `fold_batches`.
  """

  def step(states, batch):
    shared, own = states
    losses = []
    if any(parts.is_private):
      model = parts.private_model(shared.weights)
      loss, gradient = model.loss_and_gradient(own.weights, batch)
      own = local.of(model).apply(own, gradient, rates.own)
      losses.append(loss)
    if not all(parts.is_private):
      # A separate tape, so that w is a constant here.
      model = parts.global_model(own.weights)
      loss, gradient = model.loss_and_gradient(shared.weights, batch)
      shared = local.of(model).apply(shared, gradient, rates.theta)
      losses.append(loss)
    return (shared, own), losses[0]

  (shared, own), loss = client_data.fold_batches(
      data, step, (local.start(theta), local.start(own)), seed=seed,
      reports=True, **budget
  )
  return shared.weights, own.weights, loss


def train_private(
    parts: partition.Partition, theta: Any, own: Any, data: Mapping[str, Any],
    **options: Any,
) -> tuple[Any, tf.Tensor]:
  """Returns (w_i, mean loss) after local SGD with the global part frozen.

  Without private weights there is no step, and the loss is None.

  Args:
    parts: The model and its split.
    theta: The global part.
    own: w_i, the initial private part.
    data: See `local_sgd.train`.
    **options: See `local_sgd.train`.
  """
  if not any(parts.is_private):
    return own, None
  return local_sgd.train(parts.private_model(theta), own, data, **options)


def train_global(
    parts: partition.Partition, theta: Any, own: Any, data: Mapping[str, Any],
    **options: Any,
) -> tuple[Any, tf.Tensor]:
  """Returns (theta, mean loss): `train_private` with parts swapped."""
  if all(parts.is_private):
    return theta, None
  return local_sgd.train(parts.global_model(own), theta, data, **options)


def initial_private(
    parts: partition.Partition, message: Mapping[str, Any]
) -> Any:
  """Returns the private part of the run's w^0.

  Args:
    parts: The model and its split.
    message: Has the field `seed`, like the server state.
  """
  return parts.initial_weights(message['seed'])[1]


def build_deploy(
    parts: partition.Partition, hyperparameters: Any, num_clients: Optional[int]
) -> Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Any]:
  """Returns `(message, w_i, D) -> W`: what a client deploys.

  A client first trains only w_i, with frozen theta, and deploys (theta, w_i): a
  new client for `adapt_epochs` passes over its training data, others for
  `final_epochs`, 0 by default. It uses the batches of the main sequence and no
  schedule, because the client may come when the step size has decayed to almost
  nothing.

  Args:
    parts: The model and its split; `message['weights']` is the global part.
    hyperparameters: A `SplitHyperparameters`.
    num_clients: N; clients of larger index are new. None: no client is new.
  """

  def deploy(message, own, data):
    theta, epochs = message['weights'], hyperparameters.final_epochs
    if num_clients is not None:
      epochs = tf.where(
          data['index'] < num_clients, epochs, hyperparameters.adapt_epochs
      )
    own, _ = train_private(
        parts, theta, own, data,
        learning_rate=hyperparameters.private_rate,
        seed=client_work.key(message, data),
        local=local_step.build(hyperparameters),
        batch_size=hyperparameters.batch_size,
        num_epochs=epochs,  # 0 leaves the stored w_i unchanged.
    )
    return parts.merge(theta, own)

  return deploy
