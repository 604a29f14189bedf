"""The one interface: `PersonalizedProcess`, and how to compose one.

A personalized process is a federated computation from end to end: server
state, client states and data in, the same out. Types below: S server state, C
state of one client, D dense data of one client, M metrics, W deployed weights.
"""

import collections
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.data import client_data


class Parts(NamedTuple):
  """The four pieces of a composed method, for those who drive them singly.

  Attributes:
    distribute: (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS).
    client_update: (message, C, D -> <client_state, update, weight, loss>),
      and optionally `metrics`, a structure of float scalars.
    aggregator: `tff.templates.AggregationProcess`; its state is S.aggregator.
    finalize: (S, aggregate -> S).
  """

  distribute: tff.Computation
  client_update: tff.Computation
  aggregator: tff.templates.AggregationProcess
  finalize: tff.Computation


class Evaluation(NamedTuple):
  """How a client's deployed model comes about, and is evaluated.

  Attributes:
    deploy: (message, C, D -> W), the client's own part: adaptation on its
      training data D. `message` is what `distribute` sends. With `reports`:
      (message, C, D -> <report=R, weights=W>).
    deployed: The `models.FunctionalModel` over W.
    distribute: As in `Parts`; None: the same as in training.
    client_model: (S, C, int32 -> W), what the client deploys before adapting
      to its data.
    reports: Whether `evaluate` returns, beside a client's metrics, what else
      `deploy` says of it: R, a structure by name (e.g. `router`).
  """

  deploy: tff.Computation
  deployed: Any
  client_model: tff.Computation
  distribute: Optional[tff.Computation] = None
  reports: bool = False


class PersonalizedProcess(tff.templates.IterativeProcess):
  """One model per client, learned together.

    initialize        : ( -> S@SERVER)
    initialize_seeded : (int64@SERVER -> S@SERVER)
    initialize_client : (S, int32 -> C)
    next              : (S@SERVER, {C}@CLIENTS, {D}@CLIENTS
                         -> <state=S@SERVER, client_states={C}@CLIENTS,
                             metrics=M@SERVER>)
    evaluate          : (S@SERVER, {C}@CLIENTS, {<adapt=D, test=D>}@CLIENTS
                         -> {per-client metrics}@CLIENTS)
    client_model      : (S, C, int32 -> W)
    deployed          : functional model over W

  S starts with the fields `seed` (int64), `round` (int32), `aggregator`. M
  holds `train_loss` (NaN in a round where nobody trained), `num_examples`,
  `bytes_down` and `bytes_up` (per client), `non_finite` (int32[?], clients that
  were dropped for a NaN or infinite loss or update), then the method's own.
  """

  def __init__(
      self,
      *,
      initialize_seeded: tff.Computation,
      initialize_client: tff.Computation,
      next_fn: tff.Computation,
      evaluate: tff.Computation,
      client_model: tff.Computation,
      deployed,
      parts: Optional[Parts] = None,
  ):
    """Checks the types and keeps the computations.

    Raises:
      TypeError: If a computation does not fit the others; the message names the
        offending type.
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
        'evaluate', evaluate,
        [
            tff.FederatedType(state_type, tff.SERVER),
            tff.FederatedType(client_type, tff.CLIENTS),
            tff.FederatedType(_adapt_test(data_type), tff.CLIENTS),
        ],
    )
    _check_parameters(
        'client_model', client_model, [state_type, client_type, _INDEX]
    )
    _check_assignable(
        'client_model', 'result', deployed.weights_type,
        client_model.type_signature.result,
    )

    @tff.tensorflow.computation
    def default_seed():
      return tf.constant(0, tf.int64)

    @tff.federated_computation
    def initialize():
      return initialize_seeded(tff.federated_eval(default_seed, tff.SERVER))

    super().__init__(initialize, next_fn, next_is_multi_arg=True)
    self._initialize_seeded = initialize_seeded
    self._initialize_client = initialize_client
    self._evaluate = evaluate
    self._client_model = client_model
    self._deployed = deployed
    self._parts = parts
    self._types = (state_type, client_type, data_type)

  @property
  def initialize_seeded(self) -> tff.Computation:
    return self._initialize_seeded

  @property
  def initialize_client(self) -> tff.Computation:
    return self._initialize_client

  @property
  def evaluate(self) -> tff.Computation:
    return self._evaluate

  @property
  def client_model(self) -> tff.Computation:
    return self._client_model

  @property
  def deployed(self):
    return self._deployed

  @property
  def parts(self) -> Optional[Parts]:
    """The four pieces, or None if the method is not made of them."""
    return self._parts

  @property
  def server_state_type(self) -> tff.Type:
    return self._types[0]

  @property
  def client_state_type(self) -> tff.Type:
    return self._types[1]

  @property
  def data_type(self) -> tff.Type:
    return self._types[2]

  @property
  def is_stateful(self) -> bool:
    """Whether clients keep a state between rounds."""
    return bool(tff.structure.flatten(self._types[1]))


_INDEX = tff.TensorType(np.int32)


def server_state_type(aggregator, **fields) -> tff.StructType:
  """Returns S: `seed`, `round`, `aggregator`, then the method's own fields.

  Args:
    aggregator: A `tff.templates.AggregationProcess`, or None for no state.
    **fields: Types of the method's own fields, in order.
  """
  inner = () if aggregator is None else (
      aggregator.initialize.type_signature.result.member
  )
  return tff.to_type(
      collections.OrderedDict(
          seed=np.int64, round=np.int32, aggregator=inner, **fields
      )
  )


def build_initialize(init_fields, aggregator=None) -> tff.Computation:
  """Returns `initialize_seeded`.

  Args:
    init_fields: A TensorFlow function `(seed int64) -> OrderedDict` of the
      method's own fields.
    aggregator: Its initial state becomes the field `aggregator`; None: `()`.
  """

  @tff.tensorflow.computation(np.int64)
  def own_fields(seed):
    return collections.OrderedDict(init_fields(seed))

  own_type = own_fields.type_signature.result
  state_type = server_state_type(
      aggregator, **dict(tff.structure.iter_elements(own_type))
  )

  @tff.tensorflow.computation(np.int64, state_type['aggregator'], own_type)
  def assemble(seed, aggregator_state, own):
    return collections.OrderedDict(
        seed=seed, round=tf.constant(0, tf.int32), aggregator=aggregator_state,
        **own,
    )

  @tff.tensorflow.computation
  def empty():
    return ()

  @tff.federated_computation(tff.FederatedType(np.int64, tff.SERVER))
  def initialize_seeded(seed):
    inner = (
        tff.federated_eval(empty, tff.SERVER)
        if aggregator is None
        else aggregator.initialize()
    )
    return tff.federated_map(
        assemble, (seed, inner, tff.federated_map(own_fields, seed))
    )

  return initialize_seeded


def stateless_client(state_type: tff.Type) -> tff.Computation:
  """Returns `initialize_client` of clients that keep nothing."""

  @tff.tensorflow.computation(state_type, np.int32)
  def initialize_client(state, index):
    del state, index  # Unused.
    return ()

  return initialize_client


def broadcast_fields(state_type: tff.Type, *names: str) -> tff.Computation:
  """Returns a `distribute` that sends every client the same fields of S.

  The message is `<seed, round>` and the fields `names`, sorted.
  """

  @tff.tensorflow.computation(state_type)
  def select_fields(state):
    return collections.OrderedDict(
        (name, state[name]) for name in ('seed', 'round', *sorted(names))
    )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(np.int32, tff.CLIENTS),
  )
  def distribute(state, index):
    del index  # The same for all.
    return tff.federated_broadcast(tff.federated_map(select_fields, state))

  return distribute


def compose_personalized_process(
    *,
    initialize_seeded: tff.Computation,
    initialize_client: tff.Computation,
    distribute: tff.Computation,
    client_update: tff.Computation,
    aggregator: tff.templates.AggregationProcess,
    finalize: tff.Computation,
    evaluation: Evaluation,
) -> PersonalizedProcess:
  """Composes a method from its four parts.

    S, index --distribute--> message --client_update(message, C, D)-->
    <C, update, weight> --aggregator--> aggregate --finalize(S, aggregate)--> S

  `next` adds 1 to `round`. An update, client state or loss that is not finite
  is dropped: it becomes zeros of weight 0 (an unweighted aggregator still
  counts the zeros), the client keeps its state, and its index is listed in
  the metric `non_finite`. A cohort of total weight 0 aggregates what the
  aggregator makes of zeros (no change with TFF's means, built with
  `no_nan_division`).

  Args:
    initialize_seeded: (int64@SERVER -> S@SERVER), see `build_initialize`.
    initialize_client: (S, int32 -> C), see `stateless_client`.
    distribute: (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS).
    client_update: (message, C, D -> <client_state, update, weight, loss>), and
      optionally `metrics`, a structure of float scalars by name: their means
      over the clients that were not dropped become metrics of the round.
    aggregator: Weighted or unweighted; aggregates `update`.
    finalize: (S, aggregate -> S), unplaced.
    evaluation: How clients deploy and evaluate.

  Raises:
    TypeError: If the parts do not fit; names the offending type.
  """
  state_type = _server_member(
      'initialize_seeded', initialize_seeded.type_signature.result
  )
  _check_state(state_type)
  _check_parameters(
      'distribute', distribute,
      [
          tff.FederatedType(state_type, tff.SERVER),
          tff.FederatedType(_INDEX, tff.CLIENTS),
      ],
  )
  message_type = _clients_member(
      'distribute', distribute.type_signature.result
  )
  client_type = initialize_client.type_signature.result
  update_type = _check_client_update(client_update, message_type, client_type)
  data_type = client_update.type_signature.parameter[2]
  aggregate_type = _check_aggregator(aggregator, state_type, update_type)
  _check_parameters('finalize', finalize, [state_type, aggregate_type])
  _check_assignable(
      'finalize', 'result', state_type, finalize.type_signature.result
  )
  guard = _build_guard(client_update)
  next_state = _build_next_state(finalize, aggregator, state_type)
  is_weighted = aggregator.is_weighted

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client_type, tff.CLIENTS),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state, client_states, data):
    index = tff.federated_map(client_index(data_type), data)
    message = distribute(state, index)
    output = tff.federated_map(guard, (message, client_states, data))
    if is_weighted:
      aggregated = aggregator.next(
          state.aggregator, output.update, output.weight
      )
    else:
      aggregated = aggregator.next(state.aggregator, output.update)
    new_state = tff.federated_map(
        next_state, (state, aggregated.state, aggregated.result)
    )
    return collections.OrderedDict(
        state=new_state,
        client_states=output.client_state,
        metrics=merge_metrics(
            aggregate_metrics(output.metrics),
            mean_metrics(output.own_metrics, output.metrics.weight),
        ),
    )

  return PersonalizedProcess(
      initialize_seeded=initialize_seeded,
      initialize_client=initialize_client,
      next_fn=next_fn,
      evaluate=build_evaluate(
          state_type, client_type, data_type, distribute, evaluation
      ),
      client_model=evaluation.client_model,
      deployed=evaluation.deployed,
      parts=Parts(distribute, client_update, aggregator, finalize),
  )


def client_index(data_type: tff.Type) -> tff.Computation:
  """Returns `(D -> int32)`, the client's index."""
  return tff.tensorflow.computation(lambda data: data['index'], data_type)


def build_evaluate(
    state_type, client_type, data_type, distribute, evaluation: Evaluation
) -> tff.Computation:
  """Returns `evaluate`: deploy on `adapt`, then mean metrics on `test`.

  The result is `<loss, accuracy, ..., num_examples>` per client: means over the
  client's test examples (NaN when it has none), then the fields of the report,
  if there is one. Nothing changes any state.
  """
  distribute = evaluation.distribute or distribute
  deploy, deployed = evaluation.deploy, evaluation.deployed
  _check_parameters(
      'deploy', deploy,
      [distribute.type_signature.result.member, client_type, data_type],
  )
  result_type = deploy.type_signature.result
  weights_type = result_type['weights'] if evaluation.reports else result_type
  _check_assignable('deploy', 'result', deployed.weights_type, weights_type)

  @tff.tensorflow.computation(result_type, data_type)
  def evaluate_weights(result, data):
    if not evaluation.reports:
      return deployed_metrics(deployed, result, data)
    metrics = deployed_metrics(deployed, result['weights'], data)
    return collections.OrderedDict(metrics, **result['report'])

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client_type, tff.CLIENTS),
      tff.FederatedType(_adapt_test(data_type), tff.CLIENTS),
  )
  def evaluate(state, client_states, data):
    message = distribute(
        state, tff.federated_map(client_index(data_type), data.test)
    )
    weights = tff.federated_map(deploy, (message, client_states, data.adapt))
    return tff.federated_map(evaluate_weights, (weights, data.test))

  return evaluate


EVALUATION_BATCH = 256


def deployed_metrics(deployed, weights, data):
  """Returns `<loss, metrics..., num_examples>`, means over a client's data."""

  def step(sums, batch):
    return tf.nest.map_structure(
        tf.add, sums, deployed.metric_sums(weights, batch)
    )

  one = lambda spec: tf.zeros([1] + spec.shape[1:], spec.dtype)
  nothing = client_data.Batch(
      one(deployed.x_spec), one(deployed.y_spec), tf.constant([False]),
      tf.zeros([2], tf.int64),
  )
  sums = client_data.fold_batches(
      data, step, deployed.metric_sums(weights, nothing),
      seed=tf.zeros([2], tf.int64), batch_size=EVALUATION_BATCH, num_epochs=1,
      shuffle=False,
  )
  count = data['num_examples']
  means = collections.OrderedDict(
      (name, total / tf.cast(count, total.dtype))
      for name, total in sums.items()
  )
  means['num_examples'] = count
  return means


def payload_bytes(structure):
  """Returns the bytes of the floating tensors in `structure`, a float32.

  Counts what a deployment sends: weights, gradients, mixing scalars, each in
  its own dtype. Integers (keys, the seed, the round) are not counted.
  """
  floats = [
      tf.cast(tf.size(leaf), tf.float32) * leaf.dtype.size
      for leaf in tf.nest.flatten(structure)
      if leaf.dtype.is_floating
  ]
  return tf.add_n(floats) if floats else tf.constant(0.0)


def all_finite(structure):
  """Returns whether all floating tensors in `structure` are finite."""
  leaves = [
      leaf for leaf in tf.nest.flatten(structure) if leaf.dtype.is_floating
  ]
  if not leaves:
    return tf.constant(True)

  def each():
    return tf.reduce_all(
        [tf.reduce_all(tf.math.is_finite(leaf)) for leaf in leaves]
    )

  # Norms take a third of the time; one that is infinite may be an overflow.
  norms = tf.stack([_squared_norm(leaf) for leaf in leaves])
  are_finite = tf.reduce_all(tf.math.is_finite(norms))
  return tf.cond(are_finite, lambda: tf.constant(True), each)


def _squared_norm(leaf):
  """Returns the sum of squares as a float64 scalar, in one pass."""
  row = tf.reshape(leaf, [1, -1])
  return tf.cast(tf.matmul(row, row, transpose_b=True)[0, 0], tf.float64)


def client_metrics(data, loss, finite, bytes_down, bytes_up, weight=1.0):
  """Returns the metrics of one client, to be given to `aggregate_metrics`.

  Args:
    data: Dense client data.
    loss: Scalar, its training loss.
    finite: bool, whether its result was finite; if not, it is listed.
    bytes_down: float32, see `payload_bytes`.
    bytes_up: float32.
    weight: Scalar >= 0, the weight of `loss` in the mean `train_loss`.
  """
  trained = tf.logical_and(finite, data['num_examples'] > 0)
  return collections.OrderedDict(
      loss=tf.where(trained, tf.cast(loss, tf.float32), 0.0),
      weight=tf.where(trained, tf.cast(weight, tf.float32), 0.0),
      num_examples=data['num_examples'],
      bytes_down=bytes_down,
      bytes_up=bytes_up,
      # The index if the client was dropped, else nothing.
      non_finite=tf.boolean_mask(data['index'][None], [tf.logical_not(finite)]),
  )


def aggregate_metrics(metrics):
  """Returns M@SERVER of `client_metrics`@CLIENTS (traced in a computation)."""
  member = metrics.type_signature.member

  @tff.tensorflow.computation(member['non_finite'])
  def as_is(indices):
    return indices

  indices_type = tff.TensorType(np.int32, [None])

  @tff.tensorflow.computation
  def none():
    return tf.zeros([0], tf.int32)

  @tff.tensorflow.computation(indices_type, indices_type)
  def concat(a, b):
    return tf.concat([a, b], 0)

  non_finite = tff.federated_map(as_is, metrics.non_finite)
  return tff.federated_zip(
      collections.OrderedDict(
          train_loss=tff.federated_mean(metrics.loss, metrics.weight),
          num_examples=tff.federated_sum(metrics.num_examples),
          bytes_down=tff.federated_mean(metrics.bytes_down),
          bytes_up=tff.federated_mean(metrics.bytes_up),
          non_finite=tff.federated_aggregate(
              non_finite, none(), concat, concat,
              tff.tensorflow.computation(lambda x: x, indices_type),
          ),
      )
  )


def mean_metrics(metrics, weight):
  """Returns the weighted means@SERVER of the fields of `metrics`@CLIENTS."""
  names = tff.structure.name_list(metrics.type_signature.member)
  if not names:
    return tff.federated_eval(
        tff.tensorflow.computation(lambda: ()), tff.SERVER
    )
  return tff.federated_zip(
      collections.OrderedDict(
          (name, tff.federated_mean(metrics[name], weight)) for name in names
      )
  )


def merge_metrics(metrics, more):
  """Returns one structure@SERVER of two (traced in a computation)."""

  @tff.tensorflow.computation(
      metrics.type_signature.member, more.type_signature.member
  )
  def merge(metrics, more):
    return collections.OrderedDict(metrics, **dict(more))

  return tff.federated_map(merge, (metrics, more))


def _build_guard(client_update) -> tff.Computation:
  """Wraps `client_update`: drops what is not finite, adds the metrics."""
  message_type, client_type, data_type = client_update.type_signature.parameter

  @tff.tensorflow.computation(message_type, client_type, data_type)
  def guarded(message, client_state, data):
    output = client_update(message, client_state, data)
    finite = all_finite(
        [output[name] for name in _UPDATE_FIELDS]
    )
    sent = collections.OrderedDict(
        update=output['update'],
        weight=output['weight'],
        own_metrics=tf.nest.map_structure(
            lambda m: tf.cast(m, tf.float32),
            output['metrics'] if 'metrics' in output else (),
        ),
    )
    kept = tf.cond(  # Not `tf.where`, which copies all of it.
        finite,
        lambda: (output['client_state'], sent),
        lambda: (client_state, tf.nest.map_structure(tf.zeros_like, sent)),
    )
    new_state, sent = kept
    return collections.OrderedDict(
        client_state=new_state,
        **sent,
        metrics=client_metrics(
            data, output['loss'], finite, payload_bytes(message),
            payload_bytes(sent['update']),
        ),
    )

  return guarded


def _build_next_state(finalize, aggregator, state_type) -> tff.Computation:
  """Returns (S, aggregator state, aggregate -> S): finalize, then round + 1."""

  @tff.tensorflow.computation(
      state_type, state_type['aggregator'],
      finalize.type_signature.parameter[1],
  )
  def next_state(state, aggregator_state, aggregate):
    new = collections.OrderedDict(finalize(state, aggregate))
    new['aggregator'] = aggregator_state
    new['round'] = state['round'] + 1
    return new

  return next_state


def _adapt_test(data_type) -> tff.StructType:
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


def _clients_member(name: str, federated: tff.Type) -> tff.Type:
  is_federated = isinstance(federated, tff.FederatedType)
  if not is_federated or federated.placement is not tff.CLIENTS:
    raise TypeError(
        f'`{name}` must return a value at the clients, found {federated}.'
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
    _check_assignable(
        'initialize_seeded', f'field `{name}`', tff.TensorType(expected),
        state_type[name],
    )


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
    _check_assignable(name, f'argument {position}', have, want)


def _check_assignable(name: str, what: str, target, source) -> None:
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
    _check_assignable(
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
    _check_assignable('next_fn', f'result `{name}`', want, result[name])


_UPDATE_FIELDS = ['client_state', 'update', 'weight', 'loss']


def _check_client_update(client_update, message_type, client_type):
  """Checks `client_update`; returns the type of its update."""
  parameter = client_update.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or len(parameter) != 3:
    raise TypeError(
        '`client_update` must take the message, the client state and the'
        f' data, found {parameter}.'
    )
  for position, want in enumerate([message_type, client_type]):
    _check_assignable(
        'client_update', f'argument {position}', parameter[position], want
    )
  result = client_update.type_signature.result
  names = (
      tff.structure.name_list(result)
      if isinstance(result, tff.StructType)
      else []
  )
  if names not in (_UPDATE_FIELDS, [*_UPDATE_FIELDS, 'metrics']):
    raise TypeError(
        '`client_update` must return <client_state, update, weight, loss>,'
        f' found {result}.'
    )
  _check_assignable(
      'client_update', 'result `client_state`', client_type,
      result['client_state'],
  )
  return result['update']


def _check_aggregator(aggregator, state_type, update_type):
  """Checks the aggregator; returns the type of its aggregate."""
  parameter = aggregator.next.type_signature.parameter
  _check_assignable(
      'aggregator', 'state', parameter[0].member, state_type['aggregator']
  )
  _check_assignable(
      'aggregator', 'value', parameter[1].member, update_type
  )
  return aggregator.next.type_signature.result['result'].member
