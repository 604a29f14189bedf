"""Base of `fedamp`, `fedfomo` and `pfedgraph`: a server that keeps all models.

Every client has its own model and sends it after training. Nothing is averaged:
the server keeps the models in a table and computes from them the message to
each client of a round.
"""

import collections
from typing import Any, Callable, Mapping, Optional

import tensorflow as tf

from tff_pers import composition
from tff_pers.aggregators import shuffling as keyed
from tff_pers.client_works import client_work
from tff_pers.client_works import local_step
from tff_pers.composition import builders
from tff_pers.composition import own_messages
from tff_pers.core import process
from tff_pers.data import client_data
from tff_pers.models import functional


@builders.checked
def build_client_models(
    model: functional.FunctionalModel,
    num_clients: int,
    train: Callable[[Any, Any, Any], tuple[Any, Mapping[str, Any], Any]],
    *,
    prepare: Callable[[Any, Any], Any],
    select: Optional[Callable[[Any, Any], Mapping[str, Any]]] = None,
    init: Callable[[Any], Mapping[str, Any]] = lambda weights: {},
    record: Callable[..., Mapping[str, Any]] = lambda state, keys, sent: {},
) -> process.PersonalizedProcess:
  """Builds a method whose server keeps the model of every client.

    server  : a message for each client of the cohort, from the theta_j
    client i: theta_i <- training, from theta_i and the message
    server  : keeps theta_i
    deploy  : theta_i

  Server state: `models`, the table of the theta_i, initially all w^0, and the
  fields of `init`. Client state: theta_i. A dropped client's theta_i is kept in
  both places.

  Args:
    model: The model.
    num_clients: N.
    train: `(message, theta_i, D) -> (theta_i, sent, loss)`: the client's work;
      `sent` are the tensors that it sends beside its model, by name.
    prepare: See `own_messages.OfCohort`.
    select: See `own_messages.OfCohort`.
    init: `w^0 -> fields`, further fields of the server state.
    record: `(S, keys int32[m], sent) -> fields`, updates of fields from what
      clients sent beside their models; `keys` are the clients, and each leaf of
      `sent` has m rows.
  """

  def start(seed):
    weights = model.initial_weights(seed)
    return collections.OrderedDict(
        models=tf.nest.map_structure(
            lambda w: tf.repeat(w[None], num_clients, axis=0), weights
        ), **init(weights),
    )

  def work(message, theta, data):
    theta, sent, loss = train(message, theta, data)
    return client_work.ClientOutput(
        client_state=theta,
        # Keys start at 1, because a dropped client sends zeros.
        update=tf.nest.map_structure(
            lambda x: x[None], collections.OrderedDict(
                models=theta, number=data['index'] + 1, **sent,
            ),
        ),
        weight=tf.constant(1.0),  # Nothing is averaged.
        loss=loss,
    )

  def finalize(state, rows):
    is_sent = rows['number'] > 0
    rows = tf.nest.map_structure(lambda x: tf.boolean_mask(x, is_sent), rows)
    keys = rows['number'] - 1
    return dict(
        models=keyed.scatter(state['models'], keys, rows['models']),
        **record(state, keys, rows),
    )

  options = {} if select is None else dict(select=select)
  return composition.compose(
      model,
      init=start,
      send=own_messages.OfCohort(prepare, num_clients, **options),
      work=client_work.ClientWork(work),
      aggregator=keyed.RowCollectionFactory(num_clients),
      finalize=finalize,
      init_client=model.initial_weights,
      deploy=lambda message, own, data: own,
      client_model=lambda state, own, index: own,
  )


def of(state: Mapping[str, Any], clients: tf.Tensor) -> Any:
  """Returns the models of these clients, a table [m, ...]."""
  return tf.nest.map_structure(
      lambda table: tf.gather(table, clients), state['models']
  )


def combined(weights: tf.Tensor, models: Any) -> Any:
  """Returns sum_j weights[..., j] theta_j for a table of the theta_j."""
  return tf.nest.map_structure(
      lambda table: tf.tensordot(tf.cast(weights, table.dtype), table, 1),
      models,
  )


def descend(
    model: functional.FunctionalModel, theta: Any, message: Mapping[str, Any],
    data: Mapping[str, Any], hyperparameters: Any,
    added: Callable[[Any, Any], Any], implicit: Any = 0.0,
) -> tuple[Any, tf.Tensor]:
  """Returns (theta after the local steps, the mean of f_i over them).

  Args:
    model: The model; f_i is its mean loss on client i.
    theta: Initial weights.
    message: Has `seed` and `round`.
    data: Dense client data.
    hyperparameters: A `hyperparameters.LocalTraining`.
    added: `(g, theta) -> gradient` of the client's objective, where g = grad
      f_i; adds the gradients of further terms.
    implicit: The curvature s of a quadratic term added to f_i: steps of size
      eta / (1 + eta s) treat it implicitly and are stable for every s.
  """
  local = local_step.build(hyperparameters)
  eta = tf.cast(tf.convert_to_tensor(local_step.scheduled(
      hyperparameters, message, hyperparameters.learning_rate
  ), dtype_hint=model.dtype), model.dtype)

  def step(sgd, batch):
    loss, gradient = model.loss_and_gradient(sgd.weights, batch)
    direction = added(gradient, sgd.weights)
    return local.apply(sgd, direction, eta / (1 + eta * implicit)), loss

  sgd, loss = client_data.fold_batches(
      data, step, local.start(theta), seed=client_work.key(message, data),
      reports=True, **hyperparameters.budget(),
  )
  return sgd.weights, loss
