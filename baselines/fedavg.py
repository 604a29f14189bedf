"""FedAvg: one global model by averaging local SGD.

Communication-Efficient Learning of Deep Networks from Decentralized Data
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas. AISTATS 2017.
"""

import collections
import dataclasses
from typing import Optional

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
class FedAvgHyperparameters(hp.LocalTraining):
  """Hyperparameters of FedAvg."""

  server_learning_rate: float = hp.field(
      1.0, 'Server step size eta_g; 1 is plain averaging.', above=0.0
  )


def build_fedavg(
    model: functional.FunctionalModel,
    hyperparameters: FedAvgHyperparameters = FedAvgHyperparameters(),
    *,
    client_weighting: str = 'examples',
    work: Optional[client_work.ClientWork] = None,
    deploy=None,
    model_aggregator: Optional[
        tff.aggregators.WeightedAggregationFactory
    ] = None,
) -> process.PersonalizedProcess:
  """Builds FedAvg.

    client i: u <- w;  K times: u <- u - eta g_i(u; b)
    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i

  Server state: `weights` w. Clients are stateless.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedAvgHyperparameters`.
    client_weighting: q_i: `uniform` 1, `examples` n_i, `batches` ceil(n_i / B).
    work: Replaces local SGD; its update is initial minus final weights.
    deploy: See `build_averaging`.
    model_aggregator: See `build_averaging`.

  Returns:
    A `PersonalizedProcess` that deploys w (or `deploy`) at every client.
  """
  work = work or local_sgd.build_local_sgd(
      model, hyperparameters, client_weighting
  )
  return build_averaging(
      model, work, deploy=deploy, model_aggregator=model_aggregator,
      server_learning_rate=hyperparameters.server_learning_rate,
  )


def _shared_model(weights, client_state):
  del client_state  # One model for all.
  return weights


def build_averaging(
    model: functional.FunctionalModel,
    work: client_work.ClientWork,
    *,
    server_learning_rate: float = 1.0,
    init_client_state=lambda weights: (),
    draw_client_state=None,
    combine=_shared_model,
    deploy=None,
    model_aggregator: Optional[
        tff.aggregators.WeightedAggregationFactory
    ] = None,
) -> process.PersonalizedProcess:
  """Builds a method whose server is FedAvg's: a mean of client updates.

    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i

  Server state: `weights` w. A client keeps what `init_client_state` returns.

  Args:
    model: The model that is trained and deployed.
    work: What a client does; its update is w - u_i, its weight q_i.
    server_learning_rate: eta_g.
    init_client_state: `w^0 -> C`, a TensorFlow function: the state of a client
      never seen before.
    draw_client_state: `seed -> C`, in its place for what is not made of w^0.
    combine: `(w, C) -> W`, a TensorFlow function: what a client deploys without
      looking at its data.
    deploy: `(message, C, D) -> W`, a TensorFlow function: what a client deploys
      after adapting `message['weights']` on its training data D. None:
      `combine`.
    model_aggregator: Replaces the weighted mean.

  Returns:
    A `PersonalizedProcess`.
  """
  weights_type = model.weights_type
  factory = model_aggregator or tff.aggregators.MeanFactory(
      no_nan_division=True
  )
  aggregator = factory.create(weights_type, tff.TensorType(np.float32))
  initialize_seeded = process.build_initialize(
      lambda seed: collections.OrderedDict(
          weights=model.initial_weights(seed)
      ),
      aggregator,
  )
  state_type = initialize_seeded.type_signature.result.member
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  distribute = process.broadcast_fields(state_type, 'weights')
  message_type = distribute.type_signature.result.member

  @tff.tensorflow.computation(state_type, np.int32)
  def initialize_client(state, index):
    del index  # The same for all.
    if draw_client_state is not None:
      return draw_client_state(state['seed'])
    return init_client_state(model.initial_weights(state['seed']))

  client_type = initialize_client.type_signature.result

  @tff.tensorflow.computation(state_type, weights_type)
  def finalize(state, mean_update):
    return collections.OrderedDict(
        state,
        weights=local_sgd.descend(
            state['weights'], mean_update, server_learning_rate
        ),
    )

  @tff.tensorflow.computation(message_type, client_type, data_type)
  def deploy_weights(message, client_state, data):
    if deploy is None:
      return combine(message['weights'], client_state)
    return deploy(message, client_state, data)

  @tff.tensorflow.computation(state_type, client_type, np.int32)
  def client_model(state, client_state, index):
    del index  # The client is known by its state.
    return combine(state['weights'], client_state)

  return process.compose_personalized_process(
      initialize_seeded=initialize_seeded,
      initialize_client=initialize_client,
      distribute=distribute,
      client_update=client_work.as_personalized(
          work, message_type, client_type, data_type
      ),
      aggregator=aggregator,
      finalize=finalize,
      evaluation=process.Evaluation(
          deploy=deploy_weights, deployed=model, client_model=client_model
      ),
  )


@methods.register(
    'fedavg', FedAvgHyperparameters, summary='one global model (McMahan 2017)'
)
def _build(task, hyperparameters):
  return build_fedavg(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
