"""Composes a method from plain TensorFlow functions; TFF types are derived.

A round of a method, from top to bottom:

    S --send--> message --work(message, C, D)--> C, update, weight
      --aggregator--> aggregate --finalize(S, aggregate)--> S

`compose` takes these pieces as functions of tensors and builds a
`PersonalizedProcess` from them. Types are found by tracing: first S without the
aggregator's state from `init`, then the message, the update, the aggregator's
state, and finally all of S.
"""

import collections
from typing import Any, Callable, Mapping, Optional, Union

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import absence
from tff_pers.aggregators import nothing
from tff_pers.aggregators import structure
from tff_pers.client_works import client_work
from tff_pers.composition import builders
from tff_pers.composition import deployment
from tff_pers.composition import dispatch
from tff_pers.composition import round_steps
from tff_pers.composition import server_state
from tff_pers.core import interception
from tff_pers.core import process
from tff_pers.core import random
from tff_pers.core import traces
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers import tff

# Any factory that aggregates the update, or one for each of its fields.
Aggregator = Union[structure.Factory, Mapping[str, structure.Factory]]
Choosing = deployment.Choosing
Deployed = deployment.Deployed
Tier = deployment.Tier


def compose(
    model: functional.FunctionalModel,
    *,
    init: Callable[[Any], Mapping[str, Any]],
    send: dispatch.Send,
    work: client_work.ClientWork,
    finalize: Callable[[Any, Any], Mapping[str, Any]],
    deploy: Union[Callable[[Any, Any, Any], Any], deployment.Choosing],
    client_model: Callable[[Any, Any, Any], Any],
    aggregator: Optional[Aggregator] = None,
    init_client: Callable[[Any], Any] = lambda seed: (),
    init_each_client: bool = False,
    deployed: Optional[functional.FunctionalModel] = None,
    measure: Optional[Callable[[Any, Any], Mapping[str, Any]]] = None,
    tiers: Optional[Mapping[str, Tier]] = None,
) -> process.PersonalizedProcess:
  """Composes a method whose round has one exchange with the clients.

  All functions are TensorFlow functions of structures of tensors. Their S has
  the fields `seed` and `round` in addition to the method's own.

  A client whose update, state or loss is not finite is dropped: it sends zeros
  of weight 0, keeps its state, and its index is listed in the metric
  `non_finite`. A client without examples sends zeros of weight 0, too. A client
  of weight 0 counts as absent, even if the aggregator has no weights
  (`aggregators.absence` says how, and with which limits).

  Args:
    model: D is dense data of its `x_spec` and `y_spec`.
    init: `seed -> fields`, the method's own fields of S in order.
    send: `S -> fields`, the same message for all; or each client's own, see
      `own_messages`. `seed` and `round` are added, from which a client derives
      the keys of its draws.
    work: What a client does, `(message, C, D) -> ClientOutput`.
    finalize: `(S, aggregate) -> fields`, the fields of S that change.
    deploy: `(message, C, D) -> W`, what a client deploys after adapting to its
      training data; or it returns a `Deployed`, with a report; or a `Choosing`,
      where all clients choose together.
    client_model: `(S, C, index) -> W`, what it deploys without adapting.
    aggregator: Any factory of TFF or this package that aggregates the update,
      or one for each of its fields. None: TFF's weighted mean; nothing is
      aggregated if the update is empty.
    init_client: `seed -> C`, the state of a client never seen before.
    init_each_client: Whether each client has its own seed, derived from the
      run's seed and its index; else all start alike from the run's seed.
    deployed: The model over W; None: `model`.
    measure: `(S, aggregate) -> fields`, float scalars that become metrics of
      the round.
    tiers: Models that the server can hand out, by name: `evaluate_global`
      evaluates them.

  Returns:
    A `PersonalizedProcess`, with its `parts` unless messages depend on the
    whole cohort (`own_messages.OfCohort`), which a single client is not.

  Raises:
    TypeError: If `model` is not a model of this package, or the pieces do not
      fit; the message names the offending type.
    ValueError: If the weights of the deployed model are all frozen.
  """
  builders.check_model(model)
  deployed = deployed or model
  _check_is_trained(deployed)
  work, factory = _work_and_factory(work, aggregator)
  data_type = client_data.client_data_type(model.x_spec, model.y_spec)
  fields = server_state.own_fields(init)
  client_type = tff.tensorflow.computation(
      init_client, np.int64
  ).type_signature.result
  # S without the aggregator's state, whose type depends on the update, which
  # depends on the message. So `send` cannot read that state.
  message_type = dispatch.message_type(send, server_state.state_type(fields))
  client_update = client_work.as_personalized(
      work, message_type, client_type, data_type
  )
  update = client_update.type_signature.result
  process.check_assignable(
      'work', '`client_state`, as `init_client` makes it,', client_type,
      update['client_state'],
  )
  if not tff.structure.flatten(update['update']):
    # TFF's factories refuse an empty value.
    factory = nothing.NothingFactory()
  aggregation = factory.create(update['update'], update['weight'])
  state_type = server_state.state_type(
      fields, aggregation.initialize.type_signature.result.member
  )

  send_all = dispatch.build_dispatch(send, state_type)
  guarded = round_steps.build_guard(client_update)
  aggregate = round_steps.build_aggregate(
      aggregation, state_type, guarded.type_signature.result
  )
  apply = round_steps.build_apply(
      finalize, measure, state_type, aggregate.type_signature.result.member
  )

  @traces.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client_type, tff.CLIENTS),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state, client_states, data):
    index = tff.federated_map(deployment.client_index(data_type), data)
    message = send_all(state, index)
    outputs = tff.federated_map(guarded, (message, client_states, data))
    applied = apply(state, aggregate(state, outputs))
    return process.RoundOutput(
        state=applied.state,
        client_states=outputs.client_state,
        metrics=applied.metrics,
    )

  of_cohort = dispatch.is_of_cohort(send)
  deploy_all = deployment.build_deploy(
      dispatch.build_broadcast(lambda state: {}, state_type)
      if of_cohort else send_all,
      client_type, data_type, deploy, deployed,
  )
  if tiers:
    deployment.check_tiers(tiers, state_type)
  return process.PersonalizedProcess(
      initialize_seeded=server_state.build_initialize(init, aggregation),
      initialize_client=tff.tensorflow.computation(
          lambda state, index: init_client(
              random.seed(state['seed'], index)
              if init_each_client else state['seed']
          ), state_type, np.int32
      ),
      next_fn=next_fn,
      deploy=deploy_all,
      evaluate=lambda: deployment.build_evaluate(deploy_all, deployed),
      client_model=tff.tensorflow.computation(
          client_model, state_type, client_type, np.int32
      ),
      deployed=deployed,
      parts=None if of_cohort else process.Parts(
          dispatch=dispatch.one_by_one(send_all),
          work=round_steps.placed(guarded),
          aggregate=aggregate,
          apply=apply,
      ),
      evaluate_global=(
          lambda: deployment.build_evaluate_global(tiers, state_type, data_type)
      ) if tiers else None,
      tiers=tiers,
  )


def _check_is_trained(model: functional.FunctionalModel) -> None:
  if model.frozen is not None and not tf.nest.flatten(model.spec):
    raise ValueError(
        f'`model` must have weights that are trained, found {model.name}, whose'
        ' weights are all frozen. Tip: give it adaptors, see adaptors.floral.'
    )


def _work_and_factory(work, aggregator):
  """Returns the client work and the factory of its updates."""
  plain = _factory(aggregator)
  factory = interception.changed('aggregator', plain)
  update = work.update
  # Rules and attackers need separate updates; a mean works on any form of them.
  if work.summed is not None and aggregator is None and factory is plain:
    update, factory = work.summed

  def changed(message, client_state, data):
    output = update(
        message, client_state, interception.changed('data', data)
    )
    return output._replace(
        update=interception.changed('update', output.update, data)
    )

  return client_work.ClientWork(changed), factory


def _factory(aggregator):
  """Returns the weighted factory of the update."""
  if aggregator is None:
    # Without the flag, weights that sum to 0 give NaN.
    return tff.aggregators.MeanFactory(no_nan_division=True)
  if isinstance(aggregator, collections.abc.Mapping):
    return structure.StructureFactory(aggregator)
  return absence.leave_out_absent(aggregator)
