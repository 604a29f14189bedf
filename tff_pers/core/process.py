"""`PersonalizedProcess`: a method as federated computations.

A personalized process takes and returns server state, client states and data
as federated values. Types below: S server state, C state of one client, D dense
data of one client, M metrics, W deployed weights.

Methods are built by `composition.compose`, or define their own `next`.
"""

import collections
import functools
import operator
from typing import Any, Callable, Mapping, NamedTuple, Optional, Union

import numpy as np
import tensorflow as tf

from tff_pers.core import inputs
from tff_pers import tff


class Parts(NamedTuple):
  """The steps of a round, for code that runs them separately.

    messages = dispatch(state, indices)
    outputs = work(messages, client_states, data)
    aggregated = aggregate(state, outputs)
    state, metrics = apply(state, aggregated)

  is a round of `next`, bit for bit; the new client states are in `outputs`. The
  steps of one round may also be far apart in time: an asynchronous driver gives
  `aggregate` the outputs of clients that were dispatched at different rounds.

  Attributes:
    dispatch: (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS), the messages to
      clients of these indices.
    work: ({message}@CLIENTS, {C}@CLIENTS, {D}@CLIENTS -> {<client_state=C,
      update, weight, own_metrics, metrics>}@CLIENTS). Results that are not
      finite are already dropped here: a client that fails sends zeros of weight
      0, keeps its state, and is listed in its metrics.
    aggregate: (S@SERVER, {outputs}@CLIENTS -> <state=A, result, num_present,
      metrics=M>@SERVER), A being the next state of the aggregator.
    apply: (S@SERVER, aggregated@SERVER -> <state=S, metrics=M>@SERVER):
      `finalize`, unless nobody was present, and round + 1.
  """

  dispatch: tff.Computation
  work: tff.Computation
  aggregate: tff.Computation
  apply: tff.Computation


# A computation, or a function that builds it on first use.
Built = Union[tff.Computation, Callable[[], tff.Computation]]


class RoundOutput(collections.OrderedDict):
  """<state=S, client_states={C}, metrics=M>, by key or by attribute."""

  state = property(operator.itemgetter('state'))
  client_states = property(operator.itemgetter('client_states'))
  metrics = property(operator.itemgetter('metrics'))


class PersonalizedProcess(tff.templates.IterativeProcess):
  """One model per client, learned together.

    initialize        : ( -> S@SERVER)
    initialize_seeded : (int64@SERVER -> S@SERVER)
    initialize_client : (S, int32 -> C)
    next              : (S@SERVER, {C}@CLIENTS, {D}@CLIENTS
                         -> <state=S@SERVER, client_states={C}@CLIENTS,
                             metrics=M@SERVER>)
    deploy            : (S@SERVER, {C}@CLIENTS, {D}@CLIENTS
                         -> {<report, weights=W>}@CLIENTS), after adapting to D
    evaluate          : (S@SERVER, {C}@CLIENTS, {<adapt=D, test=D>}@CLIENTS
                         -> {per-client metrics}@CLIENTS)
    evaluate_global   : (S@SERVER, D@SERVER -> <tier=metrics, ...>@SERVER)
    client_model      : (S, C, int32 -> W)
    deployed          : functional model over W

  S starts with the fields `seed` (int64), `round` (int32), `aggregator`. M
  holds `train_loss` (NaN in a round where nobody trained), `num_examples`,
  `bytes_down` and `bytes_up` (per client), `non_finite` (int32[?], clients that
  were dropped for a NaN or infinite loss or update), then the method's own, and
  `aggregator`, what the aggregator measured, if it measures anything.
  """

  def __init__(
      self,
      *,
      initialize_seeded: tff.Computation,
      initialize_client: tff.Computation,
      next_fn: tff.Computation,
      deploy: tff.Computation,
      evaluate: Built,
      client_model: tff.Computation,
      deployed: Any,
      parts: Optional[Parts] = None,
      evaluate_global: Optional[Built] = None,
      tiers: Optional[Mapping[str, Any]] = None,
  ):
    """Checks the types and stores the computations that the class lists.

    Args:
      initialize_seeded: (int64@SERVER -> S@SERVER).
      initialize_client: (S, int32 -> C), the first state of this client.
      next_fn: A round, see the class.
      deploy: What clients use after adapting, see the class.
      evaluate: What that scores on test data, see the class; or a function
        without arguments that builds it on first use.
      client_model: (S, C, int32 -> W).
      deployed: The `FunctionalModel` over W.
      parts: The steps of a round, if it consists of such steps.
      evaluate_global: (S@SERVER, D@SERVER -> <tier=metrics, ...>@SERVER), or
        a function that builds it; None: the server has no models of its own.
      tiers: The `deployment.Tier`s that `evaluate_global` evaluates, by name.

    Raises:
      TypeError: If a computation does not fit the others; the message names the
        offending type. A computation that is built later is checked then.
    """
    state_type = _server_member(
        'initialize_seeded', initialize_seeded.type_signature.result
    )
    _check_state(state_type)
    _check_parameters(
        'initialize_seeded', initialize_seeded,
        [tff.FederatedType(np.int64, tff.SERVER)],
    )
    _check_parameters(
        'initialize_client', initialize_client, [state_type, _INDEX]
    )
    client_type = initialize_client.type_signature.result
    _check_next(next_fn, state_type, client_type)
    data_type = next_fn.type_signature.parameter[2].member
    _check_parameters(
        'deploy', deploy,
        [
            tff.FederatedType(state_type, tff.SERVER),
            tff.FederatedType(client_type, tff.CLIENTS),
            tff.FederatedType(data_type, tff.CLIENTS),
        ],
    )
    _check_parameters(
        'client_model', client_model, [state_type, client_type, _INDEX]
    )
    check_assignable(
        'client_model', 'result', deployed.weights_type,
        client_model.type_signature.result,
    )

    @tff.tensorflow.computation
    def default_seed():
      return tf.constant(0, tf.int64)

    @tff.federated_computation
    def initialize():
      return initialize_seeded(tff.federated_eval(default_seed, tff.SERVER))

    self._cohort = inputs.Cohort()

    def looks(computation, cohort=inputs.Cohort):
      return inputs.checked(
          computation,
          lambda given: inputs.checked_arguments(
              given, data_type, cohort, deployed.labels
          ),
      )

    # TFF wants an `initialize` without arguments, hence the default seed.
    super().__init__(
        initialize, looks(next_fn, lambda: self._cohort), next_is_multi_arg=True
    )
    self._initialize_seeded = initialize_seeded
    self._initialize_client = initialize_client
    self._deploy = looks(deploy)
    self._looks, self._given = looks, (evaluate, evaluate_global)
    self._tiers = dict(tiers or {})
    self._client_model = client_model
    self._deployed = deployed
    self._parts = parts
    self._types = (state_type, client_type, data_type)
    for name, given in zip(('evaluate', 'evaluate_global'), self._given):
      if isinstance(given, tff.Computation):
        getattr(self, name)  # Already built, so its type is checked now.

  def require(
      self, num_clients: int, full_participation: bool = False
  ) -> 'PersonalizedProcess':
    """Makes `next` refuse clients that it was not built for.

    Where a method has a table with a row per client, an index without a row
    would be an error of the runtime or, on a GPU, no error at all.

    Args:
      num_clients: N; indices must be in 0..N-1, each at most once.
      full_participation: Whether all N clients must take part.

    Returns:
      This process.
    """
    self._cohort = inputs.Cohort(num_clients, full_participation)
    return self

  @property
  def initialize_seeded(self) -> tff.Computation:
    """(int64@SERVER -> S@SERVER), the first state of the run of that seed."""
    return self._initialize_seeded

  @property
  def initialize_client(self) -> tff.Computation:
    """(S, int32 -> C), the state of a client never seen before."""
    return self._initialize_client

  @property
  def deploy(self) -> tff.Computation:
    """The weights that clients use after adapting to their data."""
    return self._deploy

  @functools.cached_property
  def evaluate(self) -> tff.Computation:
    """What models score on test data after adapting; see the class."""
    state_type, client_type, data_type = self._types
    return self._looks(_built('evaluate', self._given[0], [
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(client_type, tff.CLIENTS),
        tff.FederatedType(adapt_and_test(data_type), tff.CLIENTS),
    ]))

  @functools.cached_property
  def evaluate_global(self) -> Optional[tff.Computation]:
    """Evaluates the server's models, or None if the method has none."""
    state_type, _, data_type = self._types
    return self._given[1] and _built('evaluate_global', self._given[1], [
        tff.FederatedType(state_type, tff.SERVER),
        tff.FederatedType(data_type, tff.SERVER),
    ])

  @property
  def tier_parameters(self) -> Mapping[str, int]:
    """The number of parameters of every model of `evaluate_global`."""
    return {
        name: tier.model.num_parameters for name, tier in self._tiers.items()
    }

  @property
  def tiers(self) -> Mapping[str, Any]:
    """The server's models, each a `deployment.Tier`; '1' is the full model."""
    return self._tiers

  @property
  def client_model(self) -> tff.Computation:
    """(S, C, int32 -> W), what a client deploys without adapting."""
    return self._client_model

  @property
  def deployed(self) -> Any:
    """The functional model over W, what clients deploy."""
    return self._deployed

  @property
  def parts(self) -> Optional[Parts]:
    """The steps of a round, or None if the method is not made of them."""
    return self._parts

  @property
  def server_state_type(self) -> tff.Type:
    """The TFF type of S, not federated."""
    return self._types[0]

  @property
  def client_state_type(self) -> tff.Type:
    """The TFF type of C, not federated; empty for stateless clients."""
    return self._types[1]

  @property
  def data_type(self) -> tff.Type:
    """The TFF type of D, see `client_data.client_data_type`."""
    return self._types[2]

  @property
  def is_stateful(self) -> bool:
    """Whether clients keep a state between rounds."""
    return bool(tff.structure.flatten(self._types[1]))


_INDEX = tff.TensorType(np.int32)


def adapt_and_test(data_type: tff.Type) -> tff.StructType:
  """Returns <adapt=D, test=D>, what a client is evaluated on."""
  return tff.to_type(
      collections.OrderedDict(adapt=data_type, test=data_type)
  )


def _server_member(name: str, federated: tff.Type) -> tff.Type:
  is_federated = isinstance(federated, tff.FederatedType)
  if not is_federated or federated.placement is not tff.SERVER:
    raise TypeError(
        f'`{name}` must return a value at the server, found {federated}.'
    )
  return federated.member


def _check_state(state_type: tff.Type) -> None:
  """Checks that S starts with seed, round, aggregator."""
  names = (
      tff.structure.name_list(state_type)
      if isinstance(state_type, tff.StructType)
      else []
  )
  if names[:3] != ['seed', 'round', 'aggregator']:
    raise TypeError(
        'The server state must start with the fields `seed`, `round` and'
        f' `aggregator`, found {state_type}.'
    )
  for name, expected in (('seed', np.int64), ('round', np.int32)):
    check_assignable(
        'initialize_seeded', f'field `{name}`', tff.TensorType(expected),
        state_type[name],
    )


def _built(name: str, given: Built, expected: list[Any]) -> tff.Computation:
  """Returns the computation, whose parameters are checked."""
  computation = given if isinstance(given, tff.Computation) else given()
  _check_parameters(name, computation, expected)
  return computation


def _check_parameters(name: str, computation, expected: list[Any]) -> None:
  """Checks the parameters of a computation one by one."""
  parameter = computation.type_signature.parameter
  if len(expected) == 1:
    found = [] if parameter is None else [parameter]
  else:
    found = list(parameter) if isinstance(parameter, tff.StructType) else []
  if len(found) != len(expected):
    raise TypeError(
        f'`{name}` must take {len(expected)} argument(s), found {parameter}.'
    )
  for position, (want, have) in enumerate(zip(expected, found)):
    # A parameter must accept its argument, so the type found is the target
    # here; for results, the expected type is.
    check_assignable(name, f'argument {position}', have, want)


def check_assignable(
    name: str, what: str, target: tff.Type, source: tff.Type
) -> None:
  """Raises a TypeError unless a `source` may be given where a `target` goes."""
  if not target.is_assignable_from(source):
    raise TypeError(
        f'`{name}`: {what} must be of type {target.compact_representation()},'
        f' found {source.compact_representation()}.'
    )


def _check_next(next_fn, state_type, client_type) -> None:
  """Checks `next` against the server and client state types."""
  parameter = next_fn.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or len(parameter) != 3:
    raise TypeError(
        '`next_fn` must take the server state, the client states and the'
        f' clients\' data, found {parameter}.'
    )
  states = [
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client_type, tff.CLIENTS),
  ]
  for position, want in enumerate(states):
    check_assignable(
        'next_fn', f'argument {position}', parameter[position], want
    )
  result = next_fn.type_signature.result
  names = (
      tff.structure.name_list(result)
      if isinstance(result, tff.StructType)
      else []
  )
  if names != ['state', 'client_states', 'metrics']:
    raise TypeError(
        '`next_fn` must return <state, client_states, metrics>, found'
        f' {result}.'
    )
  for name, want in zip(names, states):
    check_assignable('next_fn', f'result `{name}`', want, result[name])
