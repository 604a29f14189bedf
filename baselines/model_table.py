"""Base of `ensemble`, `fedem` and `ifca`: a server that keeps C models."""

from typing import Any, Callable, Optional

from tff_pers import composition
from tff_pers.aggregators import router as router_aggregation
from tff_pers.client_works import client_work
from tff_pers.client_works import local_sgd
from tff_pers.composition import builders
from tff_pers.core import process
from tff_pers.models import functional
from tff_pers.models import mixtures
from tff_pers import tff


@builders.checked
def build_model_table(
    model: functional.FunctionalModel,
    num_models: int,
    work: client_work.ClientWork,
    *,
    deploy: Callable[[Any, Any, Any], Any],
    deployed: functional.FunctionalModel,
    client_model: Callable[[Any, Any, Any], Any],
    init_client: Callable[[Any], Any] = lambda seed: (),
    next_models: Optional[Callable[[Any, Any], Any]] = None,
    model_aggregator: Optional[
        tff.aggregators.WeightedAggregationFactory
    ] = None,
) -> process.PersonalizedProcess:
  """Builds a method whose server keeps C models of one architecture.

    server  : w_c <- w_c - sum_i q_ic delta_ic / sum_i q_ic     for every c

  Server state: `models`, a table (see `mixtures`). Client state: the result of
  `init_client`. `evaluate` returns `router`, float[C]: the weights by which a
  client mixes the models.

  Args:
    model: The architecture.
    num_models: C.
    work: The client work on `message['models']`. Its update is <adaptors,
      base>: differences of the models, a table, and values averaged over all
      clients in the same way. Its weight is float32[C+1]: that of `base`, then
      the q_ic.
    deploy: `(message, C, D) -> (router, W)`, a TensorFlow function.
    deployed: The model over W.
    client_model: `(models, C, index) -> W`, a TensorFlow function: what a
      client deploys without using its data.
    init_client: `seed -> C`, the initial state of a client.
    next_models: `(S, mean) -> models`; None: the server update above.
    model_aggregator: Replaces `RouterWeightedFactory`.
  """

  def next_table(state, mean):
    if next_models:
      return next_models(state, mean)
    # A model that no client trained has mean difference 0 and stays the same.
    return local_sgd.descend(state['models'], mean['adaptors'], 1.0)

  def deploy_with_router(message, client_state, data):
    router, weights = deploy(message, client_state, data)
    return composition.Deployed(weights, dict(router=router))

  return composition.compose(
      model,
      init=lambda seed: dict(
          models=mixtures.initial_models(model, num_models, seed)
      ),
      send=lambda state: dict(models=state['models']),
      work=work,
      aggregator=model_aggregator or router_aggregation.RouterWeightedFactory(),
      finalize=lambda state, mean: dict(models=next_table(state, mean)),
      init_client=init_client,
      deploy=deploy_with_router,
      deployed=deployed,
      client_model=lambda state, own, index: client_model(
          state['models'], own, index
      ),
  )
