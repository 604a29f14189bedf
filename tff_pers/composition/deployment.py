"""Builds the computations that deploy and evaluate models of clients."""

import collections
from typing import (
    Any, Callable, Mapping, NamedTuple, Optional, Sequence, Union,
)

import numpy as np
import tensorflow as tf

from tff_pers.core import process
from tff_pers.core import round_metrics
from tff_pers.core import structures
from tff_pers.core import traces
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers import tff

_UNKNOWN_SIZE = 32
EVALUATION_BATCH = 256
# Smaller batches are multiples of this: measured, the values of an example are
# then the same bit for bit, whatever the size of its batch.
_ROWS = 32


class Deployed(NamedTuple):
  """What a client deploys, and what it reports about that.

  Attributes:
    weights: W.
    report: Tensors by name (e.g. `router`, float[C]); `evaluate` returns them
      along with the client's metrics.
  """

  weights: Any
  report: Mapping[str, Any]


class Choosing(NamedTuple):
  """The deployment of clients that first choose one of E options together.

  Attributes:
    score: `(message, C, D) -> float[E]`, a client's scores of the options,
      larger is better; zeros if it cannot tell. The option with the largest sum
      over the clients that are evaluated together is chosen.
    deploy: `(message, C, D, int32) -> W` or `Deployed`; the last argument is
      the option, 0 to E - 1.
  """

  score: Callable[[Any, Any, Any], Any]
  deploy: Callable[[Any, Any, Any, Any], Any]


class Tier(NamedTuple):
  """A model that the server can hand out, e.g. to devices of one capacity.

  Attributes:
    model: The `FunctionalModel` of this tier.
    weights: `S -> W`, a TensorFlow function.
    variants: `S -> [W, ...]`, if the tier has several W: its metrics are means
      over these.
  """

  model: functional.FunctionalModel
  weights: Callable[[Any], Any]
  variants: Optional[Callable[[Any], Sequence[Any]]] = None


def deployed_metrics(
    deployed: functional.FunctionalModel, weights: Any, data: Mapping[str, Any]
) -> collections.OrderedDict[str, tf.Tensor]:
  """Returns `<loss, metrics..., num_examples>`, means over a client's data.

  Metrics with `FunctionalModel.weights_of` are means over units, e.g. tokens: 0
  if the client has examples, but none has units. Without examples all are NaN.

  Args:
    deployed: The model.
    weights: Its weights.
    data: Dense client data.
  """

  def measured(batch):
    return (
        deployed.metric_sums(weights, batch), deployed.metric_weights(batch)
    )

  def step(sums, batch):
    return tf.nest.map_structure(tf.add, sums, measured(batch))

  one = lambda specs: tf.nest.map_structure(
      lambda spec: tf.zeros(
          # Sizes that the model leaves open: large enough for its windows.
          [1, *(size or _UNKNOWN_SIZE for size in spec.shape[1:])], spec.dtype
      ), specs,
  )
  # A batch of one masked row gives zeros with the names and types of the sums,
  # whatever metrics the model has.
  nothing = client_data.Batch(
      one(deployed.x_spec), one(deployed.y_spec), tf.constant([False]),
      tf.zeros([2], tf.int64),
  )
  # Filler rows take as long as examples, so a small client has a small batch.
  rows = structures.num_rows(data['examples']['x'])
  batch_size = tf.clip_by_value(
      -(-rows // _ROWS) * _ROWS, _ROWS, EVALUATION_BATCH
  )
  # Sums over all examples, then one division: a mean of the means of batches
  # would give the short last batch too much weight.
  sums, units = client_data.fold_batches(
      data, step, measured(nothing),
      seed=tf.zeros([2], tf.int64), batch_size=batch_size, num_epochs=1,
      shuffle=False,
  )
  count = data['num_examples']
  means = collections.OrderedDict(
      (name, total / tf.cast(_divisor(count, units.get(name)), total.dtype))
      for name, total in sums.items() if name not in deployed.states
  )
  for name, state in deployed.states.items():
    found = tf.cast(state.result(sums[name]), tf.float32)
    means[name] = tf.where(count > 0, found, tf.constant(np.nan))
  means['num_examples'] = count
  return means


def _divisor(count, units):
  """Returns what a sum is divided by: the examples, or their units if known."""
  if units is None:
    return count
  # Examples without units give 0 / 1; no examples give 0 / 0.
  return tf.maximum(units, tf.cast(tf.minimum(count, 1), units.dtype))


def tier_metrics(
    tier: Tier, state: Any, data: Mapping[str, Any]
) -> collections.OrderedDict[str, tf.Tensor]:
  """Returns `deployed_metrics` of a tier's model, means over its variants."""
  if tier.variants is None:
    return deployed_metrics(tier.model, tier.weights(state), data)
  found = [
      deployed_metrics(tier.model, own, data) for own in tier.variants(state)
  ]

  def mean(*values):
    # All have the same number of examples.
    return values[0] if values[0].dtype.is_integer else tf.add_n(values) / len(
        values
    )

  return tf.nest.map_structure(mean, *found)


def build_deploy(
    dispatch: tff.Computation,
    client_type: tff.Type,
    data_type: tff.Type,
    deploy: Union[Callable[[Any, Any, Any], Any], Choosing],
    deployed: functional.FunctionalModel,
) -> tff.Computation:
  """Returns `deploy`: what clients deploy after adapting to their own data.

  (S@SERVER, {C}@CLIENTS, {D}@CLIENTS -> {<report, weights=W>}@CLIENTS), D the
  data that a client adapts to. Nothing changes any state.

  Args:
    dispatch: (S@SERVER, {int32}@CLIENTS -> {message}@CLIENTS), by the clients'
      indices; or with {D}@CLIENTS, their training data, instead of indices.
    client_type: C.
    data_type: D.
    deploy: `(message, C, D) -> W`, a TensorFlow function: the client's
      adaptation to its training data D. Or it returns a `Deployed`, or is a
      `Choosing`.
    deployed: The model over W.

  Raises:
    TypeError: If `deploy` does not return weights of `deployed`.
  """
  message_type = dispatch.type_signature.result.member
  state_type = dispatch.type_signature.parameter[0].member
  by_index = isinstance(
      dispatch.type_signature.parameter[1].member, tff.TensorType
  )

  own_types = (message_type, client_type, data_type)
  choosing: Optional[Choosing] = None
  adapt: Callable[..., Any]
  if isinstance(deploy, Choosing):
    choosing, adapt = deploy, deploy.deploy
  else:
    adapt = deploy

  # TFF accepts no `*arguments`, so they are one tuple.
  @traces.tensorflow_computation(
      tff.to_type((*own_types, np.int32) if choosing else own_types)
  )
  def deploy_fields(arguments):
    result = adapt(*arguments)
    if not isinstance(result, Deployed):
      result = Deployed(result, {})
    return collections.OrderedDict(
        report=collections.OrderedDict(result.report), weights=result.weights
    )

  process.check_assignable(
      'deploy', 'result', deployed.weights_type,
      deploy_fields.type_signature.result['weights'],
  )
  if choosing:
    score = tff.tensorflow.computation(choosing.score, own_types)
    choose = tff.tensorflow.computation(
        lambda scores: tf.argmax(scores, output_type=tf.int32),
        score.type_signature.result,
    )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client_type, tff.CLIENTS),
      tff.FederatedType(data_type, tff.CLIENTS),
  )
  def deploy_all(state, client_states, data):
    message = dispatch(
        state,
        tff.federated_map(client_index(data_type), data) if by_index else data,
    )
    own = [message, client_states, data]
    if choosing:
      scores = tff.federated_map(score, tuple(own))
      best = tff.federated_map(choose, tff.federated_sum(scores))
      own.append(tff.federated_broadcast(best))
    return tff.federated_map(deploy_fields, tuple(own))

  return deploy_all


def build_evaluate(
    deploy: tff.Computation, deployed: functional.FunctionalModel
) -> tff.Computation:
  """Returns `evaluate`: deploy on `adapt`, then mean metrics on `test`.

  The result is `<loss, accuracy, ..., num_examples>` per client: means over the
  client's test examples (NaN when it has none), then the fields of the report,
  if there is one. Nothing changes any state.

  Args:
    deploy: See `build_deploy`.
    deployed: The model over W.
  """
  state_type, client_type, data_type = (
      federated.member for federated in deploy.type_signature.parameter
  )

  @tff.tensorflow.computation(
      deploy.type_signature.result.member, data_type
  )
  def evaluate_weights(result, data):
    metrics = deployed_metrics(deployed, result['weights'], data)
    return round_metrics.joined(metrics, result['report'])

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(client_type, tff.CLIENTS),
      tff.FederatedType(process.adapt_and_test(data_type), tff.CLIENTS),
  )
  def evaluate(state, client_states, data):
    result = deploy(state, client_states, data.adapt)
    return tff.federated_map(evaluate_weights, (result, data.test))

  return evaluate


def check_tiers(tiers: Mapping[str, Tier], state_type: tff.Type) -> None:
  """Raises a TypeError if a tier's function of S does not give its weights."""

  @tff.tensorflow.computation(state_type)
  def weights_of(state):
    return collections.OrderedDict(
        (name, (tier.variants or (lambda s: [tier.weights(s)]))(state))
        for name, tier in tiers.items()
    )

  for name, found in tff.structure.iter_elements(
      weights_of.type_signature.result
  ):
    for weights in found:
      process.check_assignable(
          'tiers', f'weights of {name!r}', tiers[name].model.weights_type,
          weights,
      )


def build_evaluate_global(
    tiers: Mapping[str, Tier], state_type: tff.Type, data_type: tff.Type
) -> tff.Computation:
  """Returns (S@SERVER, D@SERVER -> <tier=<loss, ..., num_examples>>@SERVER).

  Args:
    tiers: The models by name; all are evaluated on the same examples.
    state_type: S.
    data_type: D.
  """

  @tff.tensorflow.computation(state_type, data_type)
  def evaluate_tiers(state, data):
    return collections.OrderedDict(
        (name, tier_metrics(tier, state, data)) for name, tier in tiers.items()
    )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(data_type, tff.SERVER),
  )
  def evaluate_global(state, data):
    return tff.federated_map(evaluate_tiers, (state, data))

  return evaluate_global


def client_index(data_type: tff.Type) -> tff.Computation:
  """Returns `(D -> int32)`, the client's index."""
  return tff.tensorflow.computation(lambda data: data['index'], data_type)
