"""Local SGD: K minibatch steps from the received weights."""

import functools
from typing import Any, Callable, Mapping, NamedTuple

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.core import interception
from tff_pers.data import client_data
from tff_pers.models import functional

descend = local_step.descend  # Servers use this step too.


def train(
    model: functional.FunctionalModel,
    weights: Any,
    data: Mapping[str, Any],
    *,
    learning_rate: Any,
    seed: tf.Tensor,
    local: local_step.LocalStep = local_step.PLAIN,
    **budget: Any,
) -> tuple[Any, tf.Tensor]:
  """Returns (weights after SGD, mean minibatch loss over the steps).

  Each step is w <- w - learning_rate * grad f_i(w; b) on a fresh minibatch b,
  unless `local` adds momentum, weight decay or clipping.

  Args:
    model: The model.
    weights: Initial weights, a structure like `model.spec`.
    data: Dense client data or a dataset of batches.
    learning_rate: Step size, a float or a scalar tensor (PERM scales it by
      `s_i * alpha_i(c)`).
    seed: int64[2] key of the batches.
    local: The step.
    **budget: `batch_size`, and `num_steps` or `num_epochs`, see `fold_batches`.
  """

  local = local.of(model)

  def train_dense(weights, data, *, learning_rate, seed):
    def step(sgd, batch):
      loss, gradient = model.loss_and_gradient(sgd.weights, batch)
      return local.apply(sgd, gradient, learning_rate), loss

    sgd, loss = client_data.fold_batches(
        data, step, local.start(weights), seed=seed, reports=True, **budget
    )
    return sgd.weights, loss

  trained = interception.changed(
      'local_sgd', train_dense, model, local, budget
  )
  return trained(weights, data, learning_rate=learning_rate, seed=seed)


class Sgd(NamedTuple):
  """The parts of a client work of local SGD.

  Attributes:
    model: The model.
    local: The step.
    budget: See `train`.
    options: `(message, D) -> fields`, `learning_rate` and `seed` of `train`.
    output: `(C, D, update, loss) -> ClientOutput`.
  """

  model: functional.FunctionalModel
  local: local_step.LocalStep
  budget: Mapping[str, Any]
  options: Callable[[Any, Any], Mapping[str, Any]]
  output: Callable[[Any, Any, Any, Any], client_work.ClientOutput]


def difference(initial: Any, final: Any) -> Any:
  """Returns `initial - final`, leaf by leaf: the update that is sent up."""
  # TFF treats initial minus final as a gradient: servers subtract it.
  return tf.nest.map_structure(tf.subtract, initial, final)


def pulled(gradient: Any, weights: Any, anchor: Any, strength: Any) -> Any:
  """Returns g + strength (w - anchor), which also pulls towards the anchor.

  That is the gradient of f(w) + strength / 2 ||w - anchor||^2.
  """
  return descend(gradient, difference(anchor, weights), strength)


def options(
    hyperparameters: Any, message: Any, data: Any
) -> dict[str, Any]:
  """Returns step size and seed of a client's local SGD in a round, for `train`.

  Args:
    hyperparameters: A `hyperparameters.LocalTraining`.
    message: The server's message.
    data: The client's data.
  """
  return dict(
      learning_rate=local_step.scheduled(
          hyperparameters, message, hyperparameters.learning_rate
      ),
      seed=client_work.key(message, data),
  )


def build_local_sgd(
    model: functional.FunctionalModel, hyperparameters: Any,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns FedAvg's client work: local SGD from `message.weights`.

  Args:
    model: The model.
    hyperparameters: A `hyperparameters.LocalTraining`.
    client_weighting: See `client_work.client_weight`.
  """

  local = local_step.build(hyperparameters)
  budget = hyperparameters.budget()

  def output(client_state, data, update, loss):
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(client_state, update, weight, loss)

  def update(message, client_state, data):
    initial = message['weights']
    final, loss = train(
        model, initial, data, local=local,
        **options(hyperparameters, message, data), **budget
    )
    return output(client_state, data, difference(initial, final), loss)

  return interception.changed(
      'sgd_work', client_work.ClientWork(update),
      Sgd(
          model, local, budget,
          functools.partial(options, hyperparameters), output,
      ),
  )


def build_adaptation(
    model: functional.FunctionalModel,
    *,
    learning_rate: float,
    local: local_step.LocalStep = local_step.PLAIN,
    **budget: Any,
) -> Callable[[Mapping[str, Any], Any, Mapping[str, Any]], Any]:
  """Returns `(message, C, D) -> weights`: local SGD before a client deploys.

  The batches are the first ones of the coming round.

  Args:
    model: The model.
    learning_rate: Constant step size, because schedules are for rounds.
    local: The step.
    **budget: See `train`.
  """

  def adapt(message, client_state, data):
    del client_state  # Clients are stateless.
    adapted, _ = train(
        model, message['weights'], data, learning_rate=learning_rate,
        seed=client_work.key(message, data), local=local, **budget,
    )
    return adapted

  return adapt
