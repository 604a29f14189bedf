"""Local SGD: K minibatch steps from the received weights."""

from typing import Any, Callable, Mapping

import tensorflow as tf

from tff_pers import round_metrics
from tff_pers.client_works import client_work
from tff_pers.client_works import factored_sgd
from tff_pers.client_works import kernel_factors
from tff_pers.client_works import local_step
from tff_pers.data import client_data
from tff_pers.models import functional

descend = local_step.descend  # The servers' step too.


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
  unless `local` adds momentum, weight decay or clipping. Plain steps on dense
  data hold some kernels as factors until the end, see `kernel_factors`.

  Args:
    model: The model.
    weights: Where to start, a structure like `model.spec`.
    data: Dense client data or a dataset of batches.
    learning_rate: Step size, a float or a scalar tensor (PERM scales it by
      `s_i * alpha_i(c)`).
    seed: int64[2] key of the batches.
    local: The step.
    **budget: `batch_size`, and `num_steps` or `num_epochs`, see `fold_batches`.
  """

  is_dense = not isinstance(data, tf.data.Dataset)
  choice = _factored(model, local, budget)
  if choice.positions and is_dense:
    trained, loss = factored_sgd.train(
        model, weights, data, choice, learning_rate=learning_rate, seed=seed,
        **budget,
    )
    return factored_sgd.final_weights(weights, choice, trained), loss

  def step(line, batch):
    loss, gradient = model.loss_and_gradient(line.weights, batch)
    return local.take(line, gradient, learning_rate), loss

  line, loss = client_data.fold_batches(
      data, step, local.start(weights), seed=seed, reports=True, **budget
  )
  return line.weights, loss


def difference(initial: Any, final: Any) -> Any:
  """Returns `initial - final`, leaf by leaf: the update that is sent up."""
  # Initial minus final is what TFF takes for a gradient: servers subtract it.
  return tf.nest.map_structure(tf.subtract, initial, final)


def pulled(gradient: Any, weights: Any, anchor: Any, strength: Any) -> Any:
  """Returns g + strength (w - anchor): it descends towards the anchor, too.

  That is the gradient of f(w) + strength / 2 ||w - anchor||^2.
  """
  return descend(gradient, difference(anchor, weights), strength)


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

  def options(message, data):
    return dict(
        learning_rate=local_step.scheduled(
            hyperparameters, message, hyperparameters.learning_rate
        ),
        seed=client_work.key(message, data), **budget,
    )

  def output(client_state, data, update, loss, **sent):
    weight = client_work.client_weight(
        client_weighting, data, hyperparameters.batch_size
    )
    return client_work.ClientOutput(
        client_state, update, weight, loss, **sent
    )

  def update(message, client_state, data):
    initial = message['weights']
    final, loss = train(
        model, initial, data, local=local, **options(message, data)
    )
    return output(client_state, data, difference(initial, final), loss)

  choice = _factored(model, local, budget)
  if not choice.positions:
    return client_work.ClientWork(update)

  def update_by_factors(message, client_state, data):
    initial = message['weights']
    trained, loss = factored_sgd.train(
        model, initial, data, choice, **options(message, data)
    )
    return output(
        client_state, data,
        factored_sgd.update(initial, choice, trained), loss,
        bytes_up=round_metrics.payload_bytes(initial), witness=trained.witness,
    )

  return client_work.ClientWork(
      update, client_work.Summed(
          update_by_factors, model.spec, choice.positions
      )
  )


def _factored(model, local, budget) -> kernel_factors.Choice:
  """Returns the kernels that plain steps hold as factors."""
  if local != local_step.PLAIN:
    return kernel_factors.Choice(())
  return kernel_factors.chosen(model, **budget)


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
    learning_rate: Step size; it follows no schedule, which is made for rounds.
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
