"""Local SGD: K minibatch steps from the received weights."""

import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.data import client_data
from tff_pers.models import functional


def train(
    model: functional.FunctionalModel,
    weights,
    data,
    *,
    learning_rate,
    seed,
    **budget,
):
  """Returns (weights after plain SGD, mean minibatch loss over the steps).

  w <- w - learning_rate * grad f_i(w; b), b a fresh minibatch.

  Args:
    model: The model.
    weights: Where to start, a structure like `model.spec`.
    data: Dense client data or a dataset of batches.
    learning_rate: Step size, a float or a scalar tensor (PERM scales it by
      `s_i * alpha_i(c)`).
    seed: int64[2] key of the batches.
    **budget: `batch_size`, and `num_steps` or `num_epochs`, see `fold_batches`.
  """

  def step(state, batch):
    w, total, steps = state
    loss, gradient = model.loss_and_gradient(w, batch)
    w = descend(w, gradient, learning_rate)
    return w, total + loss, steps + 1

  dtype = tf.nest.flatten(weights)[0].dtype
  final, total, steps = client_data.fold_batches(
      data, step, (weights, tf.zeros([], dtype), tf.constant(0)),
      seed=seed, **budget,
  )
  return final, total / tf.cast(tf.maximum(steps, 1), dtype)


def descend(weights, gradient, learning_rate):
  """Returns `weights - learning_rate * gradient`, leaf by leaf."""
  def descend_leaf(w, g):
    rate = tf.convert_to_tensor(learning_rate, dtype_hint=w.dtype)
    return w - tf.cast(rate, w.dtype) * g
  return tf.nest.map_structure(descend_leaf, weights, gradient)


def difference(initial, final):
  """Returns `initial - final`, leaf by leaf: the update that is sent up."""
  return tf.nest.map_structure(tf.subtract, initial, final)


def build_local_sgd(
    model: functional.FunctionalModel, hyperparameters, client_weighting: str
) -> client_work.ClientWork:
  """Returns FedAvg's client work: local SGD from `message.weights`.

  Args:
    model: The model.
    hyperparameters: A `hyperparameters.LocalTraining`.
    client_weighting: See `client_work.client_weight`.
  """

  def update(message, client_state, data):
    final, loss = train(
        model, message['weights'], data,
        learning_rate=hyperparameters.learning_rate,
        seed=client_work.key(message, data), **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=client_state,
        update=difference(message['weights'], final),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)
