"""Local training only: every client by itself, for ever."""

import collections
import dataclasses

import numpy as np
import tensorflow_federated as tff

from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import process
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.data import client_data
from tff_pers.models import functional


@dataclasses.dataclass(frozen=True)
class LocalOnlyHyperparameters(hp.LocalTraining):
  """Hyperparameters of local training."""


def build_local_only(
    model: functional.FunctionalModel,
    hyperparameters: LocalOnlyHyperparameters = LocalOnlyHyperparameters(),
    *,
    client_weighting: str = 'examples',
) -> process.PersonalizedProcess:
  """Builds local training without communication.

    client i, whenever it takes part:  K times: v_i <- v_i - eta g_i(v_i; b)

  Server state: the seed and the round alone. Client state: v_i, at first w^0,
  the common initial model of the run. Messages hold no weights (0 bytes); the
  total of steps at client i is K times the rounds it took part in.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `LocalOnlyHyperparameters`.
    client_weighting: Without effect (nothing is averaged).

  Returns:
    A `PersonalizedProcess` that deploys v_i at client i.
  """
  aggregator = _nothing()
  initialize_seeded = process.build_initialize(
      lambda seed: collections.OrderedDict(), aggregator
  )
  state_type = initialize_seeded.type_signature.result.member
  weights_type = model.weights_type
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  distribute = process.broadcast_fields(state_type)
  message_type = distribute.type_signature.result.member

  @tff.tensorflow.computation(state_type, np.int32)
  def initialize_client(state, index):
    del index  # The same for all.
    return model.initial_weights(state['seed'])

  @tff.tensorflow.computation(state_type, tff.to_type(()))
  def finalize(state, aggregate):
    del aggregate  # Nothing.
    return state

  @tff.tensorflow.computation(message_type, weights_type, data_type)
  def deploy(message, client_state, data):
    del message, data  # No adaptation.
    return client_state

  @tff.tensorflow.computation(state_type, weights_type, np.int32)
  def client_model(state, client_state, index):
    del state, index  # The client's own.
    return client_state

  return process.compose_personalized_process(
      initialize_seeded=initialize_seeded,
      initialize_client=initialize_client,
      distribute=distribute,
      client_update=client_work.as_personalized(
          build_local_work(model, hyperparameters, client_weighting),
          message_type, weights_type, data_type,
      ),
      aggregator=aggregator,
      finalize=finalize,
      evaluation=process.Evaluation(
          deploy=deploy, deployed=model, client_model=client_model
      ),
  )


def build_local_work(
    model: functional.FunctionalModel,
    hyperparameters: LocalOnlyHyperparameters,
    client_weighting: str,
) -> client_work.ClientWork:
  """Returns the client work: local SGD on the client state; sends nothing."""

  def update(message, client_state, data):
    final, loss = local_sgd.train(
        model, client_state, data,
        learning_rate=hyperparameters.learning_rate,
        seed=client_work.key(message, data), **hyperparameters.budget(),
    )
    return client_work.ClientOutput(
        client_state=final,
        update=(),
        weight=client_work.client_weight(
            client_weighting, data, hyperparameters.batch_size
        ),
        loss=loss,
    )

  return client_work.ClientWork(update)


def _nothing() -> tff.templates.AggregationProcess:
  """Returns the aggregation of empty values: nothing is sent."""

  @tff.federated_computation
  def init_fn():
    return tff.federated_value((), tff.SERVER)

  @tff.federated_computation(
      init_fn.type_signature.result, tff.FederatedType((), tff.CLIENTS)
  )
  def next_fn(state, values):
    del values  # Empty.
    return tff.templates.MeasuredProcessOutput(
        state,
        tff.federated_value((), tff.SERVER),
        tff.federated_value((), tff.SERVER),
    )

  return tff.templates.AggregationProcess(init_fn, next_fn)


@methods.register(
    'local_only', LocalOnlyHyperparameters,
    summary='every client by itself, no communication',
)
def _build(task, hyperparameters):
  return build_local_only(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
