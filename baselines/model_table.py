"""What `ensemble`, `fedem` and `ifca` share: a server that keeps C models."""

import collections
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import process
from tff_pers.aggregators import router as router_aggregation
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers.models import mixtures


def build_model_table(
    model: functional.FunctionalModel,
    num_models: int,
    work: client_work.ClientWork,
    *,
    deploy: Callable[[Any, Any, Any], Any],
    deployed: functional.FunctionalModel,
    client_model: Callable[[Any, Any, Any], Any],
    init_client_state: Callable[[], Any] = lambda: (),
    common_type: tff.Type = tff.to_type(()),
    next_models: Optional[Callable[[Any, Any], Any]] = None,
    model_aggregator: Optional[
        tff.aggregators.WeightedAggregationFactory
    ] = None,
) -> process.PersonalizedProcess:
  """Builds a method whose server keeps C models of one architecture.

    server  : w_c <- w_c - sum_i q_ic delta_ic / sum_i q_ic     for every c

  Server state: `models`, a table (see `mixtures`). A client keeps what
  `init_client_state` returns. `evaluate` returns `router`, float[C]: what a
  client makes of the models.

  Args:
    model: The architecture.
    num_models: C.
    work: What a client does with `message['models']`. Its update is <adaptors,
      base>: differences of the models, a table, and what is averaged over all
      clients alike; its weight float32[C+1] has that of `base`, then the q_ic.
    deploy: `(message, C, D) -> (router, W)`, a TensorFlow function.
    deployed: The model over W.
    client_model: `(models, C, index) -> W`, a TensorFlow function: what a
      client deploys without looking at its data.
    init_client_state: The state of a client never seen before.
    common_type: Type of the update's field `base`.
    next_models: `(S, mean) -> models`; None: the server line above.
    model_aggregator: Replaces `RouterWeightedFactory`.
  """
  models_type = tff.tensorflow.computation(
      lambda: mixtures.initial_models(model, num_models, 0)
  ).type_signature.result
  factory = model_aggregator or router_aggregation.RouterWeightedFactory()
  aggregator = factory.create(
      tff.to_type(
          collections.OrderedDict(adaptors=models_type, base=common_type)
      ),
      tff.TensorType(np.float32, [num_models + 1]),
  )
  initialize_seeded = process.build_initialize(
      lambda seed: collections.OrderedDict(
          models=mixtures.initial_models(model, num_models, seed)
      ),
      aggregator,
  )
  state_type = initialize_seeded.type_signature.result.member
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  distribute = process.broadcast_fields(state_type, 'models')
  message_type = distribute.type_signature.result.member

  @tff.tensorflow.computation(state_type, np.int32)
  def initialize_client(state, index):
    del state, index  # The same for all.
    return init_client_state()

  client_type = initialize_client.type_signature.result

  @tff.tensorflow.computation(
      state_type, aggregator.next.type_signature.result['result'].member
  )
  def finalize(state, mean):
    models = (
        next_models(state, mean)
        if next_models
        else local_sgd.descend(state['models'], mean['adaptors'], 1.0)
    )
    return collections.OrderedDict(state, models=models)

  @tff.tensorflow.computation(message_type, client_type, data_type)
  def deploy_weights(message, client_state, data):
    router, weights = deploy(message, client_state, data)
    return collections.OrderedDict(
        report=collections.OrderedDict(router=router), weights=weights
    )

  @tff.tensorflow.computation(state_type, client_type, np.int32)
  def client_weights(state, client_state, index):
    return client_model(state['models'], client_state, index)

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
          deploy=deploy_weights, deployed=deployed,
          client_model=client_weights, reports=True,
      ),
  )


def weights_dtype(model: functional.FunctionalModel) -> tf.DType:
  """Returns the dtype of the weights."""
  return tf.nest.flatten(model.spec)[0].dtype


def num_clusters(task, otherwise: int) -> int:
  """Returns the number of true clusters of a task, `otherwise` if unknown."""
  return int(np.max(task.groups)) + 1 if task.has_groups else otherwise
