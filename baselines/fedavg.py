"""FedAvg: one global model by averaging local SGD.

Communication-Efficient Learning of Deep Networks from Decentralized Data
    McMahan, Moore, Ramage, Hampson, Aguera y Arcas. AISTATS 2017.
"""

import collections
import dataclasses
from typing import Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import hyperparameters as hp
from tff_pers import methods
from tff_pers import process
from tff_pers import random
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
  """Builds FedAvg (and what shares its server: a mean of client updates).

    client i: u <- w;  K times: u <- u - eta g_i(u; b)
    server  : w <- w - eta_g * sum_i q_i (w - u_i) / sum_i q_i

  Server state: `weights` w. Clients are stateless.

  Args:
    model: The model; f_i is its mean loss on client i.
    hyperparameters: See `FedAvgHyperparameters`.
    client_weighting: q_i: `uniform` 1, `examples` n_i, `batches` ceil(n_i / B).
    work: Replaces local SGD; its update is initial minus final weights.
    deploy: `(message, client_state, data) -> weights`, a TensorFlow function
      that adapts `message['weights']` on the client's training data at
      evaluation. None: w itself is deployed.
    model_aggregator: Replaces the weighted mean.

  Returns:
    A `PersonalizedProcess` that deploys `deploy(w)` at every client.
  """
  work = work or local_sgd.build_local_sgd(
      model, hyperparameters, client_weighting
  )
  weights_type = model.weights_type
  factory = model_aggregator or tff.aggregators.MeanFactory(
      no_nan_division=True
  )
  aggregator = factory.create(weights_type, tff.TensorType(np.float32))
  initialize_seeded = process.build_initialize(
      lambda seed: collections.OrderedDict(weights=initial_weights(model, seed)),
      aggregator,
  )
  state_type = initialize_seeded.type_signature.result.member
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  distribute = process.broadcast_fields(state_type, 'weights')
  message_type = distribute.type_signature.result.member
  stateless = tff.to_type(())

  @tff.tensorflow.computation(state_type, weights_type)
  def finalize(state, mean_update):
    return collections.OrderedDict(
        state,
        weights=local_sgd.descend(
            state['weights'], mean_update, hyperparameters.server_learning_rate
        ),
    )

  @tff.tensorflow.computation(message_type, stateless, data_type)
  def deploy_weights(message, client_state, data):
    if deploy is None:
      return message['weights']
    return deploy(message, client_state, data)

  @tff.tensorflow.computation(state_type, stateless, np.int32)
  def client_model(state, client_state, index):
    del client_state, index  # One model for all.
    return state['weights']

  return process.compose_personalized_process(
      initialize_seeded=initialize_seeded,
      initialize_client=process.stateless_client(state_type),
      distribute=distribute,
      client_update=client_work.as_personalized(
          work, message_type, stateless, data_type
      ),
      aggregator=aggregator,
      finalize=finalize,
      evaluation=process.Evaluation(
          deploy=deploy_weights, deployed=model, client_model=client_model
      ),
  )


# Folded into the run's seed for w^0: the same initial weights in all methods.
_INIT = -1


def initial_weights(model: functional.FunctionalModel, seed):
  """Returns w^0 of the run `seed`, the same for every method."""
  return model.init(random.key(seed, _INIT))


@methods.register(
    'fedavg', FedAvgHyperparameters, summary='one global model (McMahan 2017)'
)
def _build(task, hyperparameters):
  return build_fedavg(
      task.model, hyperparameters, client_weighting=task.client_weighting
  )
