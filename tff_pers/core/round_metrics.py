"""The metrics of a round: what clients report, and how it is combined.

A client reports its training loss, how much it trained on, the bytes that a
deployment would have sent for it, and whether it had to be dropped. The server
sees means and sums of these, and the indices of those that were dropped.
"""

import collections
from typing import Any, Mapping

import numpy as np
import tensorflow as tf

from tff_pers.core import interception
from tff_pers import tff


def payload_bytes(structure: Any) -> tf.Tensor:
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


def all_finite(structure: Any) -> tf.Tensor:
  """Returns whether all floating tensors in `structure` are finite."""
  leaves = _floats(structure)
  if not leaves:
    return tf.constant(True)
  # Squared norms take a third of the time of checking each element. A norm may
  # overflow although all elements are finite, so check these if it does.
  norms = tf.stack([_squared_norm(leaf) for leaf in leaves])
  are_finite = tf.reduce_all(tf.math.is_finite(norms))
  return tf.cond(
      are_finite, lambda: tf.constant(True), lambda: each_finite(leaves)
  )


def each_finite(structure: Any) -> tf.Tensor:
  """Returns `all_finite` by checking each element."""
  return tf.reduce_all([
      tf.reduce_all(tf.math.is_finite(leaf)) for leaf in _floats(structure)
  ])


def _floats(structure):
  return [leaf for leaf in tf.nest.flatten(structure) if leaf.dtype.is_floating]


def _squared_norm(leaf):
  """Returns the sum of squares as a float64 scalar, in one pass."""
  row = tf.reshape(leaf, [1, -1])
  return tf.cast(tf.matmul(row, row, transpose_b=True)[0, 0], tf.float64)


def client_metrics(
    data: Mapping[str, Any], loss: tf.Tensor, finite: tf.Tensor,
    bytes_down: tf.Tensor, bytes_up: tf.Tensor, weight: tf.Tensor = 1.0,
) -> Any:
  """Returns the metrics of one client, to be given to `aggregate`.

  Args:
    data: Dense client data.
    loss: Scalar, its training loss.
    finite: bool, whether its result was finite; if not, it is listed as
      dropped.
    bytes_down: float32, see `payload_bytes`.
    bytes_up: float32.
    weight: Scalar >= 0, the weight of `loss` in the mean `train_loss`.
  """
  counted = interception.changed(
      'is_reported', tf.logical_and(finite, data['num_examples'] > 0), data
  )
  return collections.OrderedDict(
      # Replaced, since a weight of 0 does not help: 0 * NaN is NaN.
      loss=tf.where(counted, tf.cast(loss, tf.float32), 0.0),
      weight=tf.where(counted, tf.cast(weight, tf.float32), 0.0),
      num_examples=data['num_examples'],
      bytes_down=bytes_down,
      bytes_up=bytes_up,
      # The index if the client was dropped, else -1. The shape is fixed, since
      # clients of different shapes could not be vectorized.
      non_finite=tf.where(finite, -1, data['index'])[None],
  )


def aggregate(metrics: Any) -> Any:
  """Returns M@SERVER of `client_metrics`@CLIENTS (traced in a computation)."""
  member = metrics.type_signature.member

  indices_type = tff.TensorType(np.int32, [None])

  @tff.tensorflow.computation
  def none():
    return tf.zeros([0], tf.int32)

  @tff.tensorflow.computation(indices_type, member['non_finite'])
  def add(indices, own):
    return tf.concat([indices, own], 0)

  @tff.tensorflow.computation(indices_type, indices_type)
  def concat(a, b):
    return tf.concat([a, b], 0)

  @tff.tensorflow.computation(indices_type)
  def dropped(indices):
    return tf.boolean_mask(indices, indices >= 0)

  return tff.federated_zip(
      collections.OrderedDict(
          train_loss=tff.federated_mean(metrics.loss, metrics.weight),
          num_examples=tff.federated_sum(metrics.num_examples),
          bytes_down=tff.federated_mean(metrics.bytes_down),
          bytes_up=tff.federated_mean(metrics.bytes_up),
          non_finite=tff.federated_aggregate(
              metrics.non_finite, none(), add, concat, dropped
          ),
      )
  )


def mean(metrics: Any, counted: Any, weight: Any) -> Any:
  """Returns the weighted means@SERVER of the fields of `metrics`@CLIENTS.

  Args:
    metrics: Float scalars by name.
    counted: float32@CLIENTS, 0 where a client is left out, else 1.
    weight: The clients' weights, which may be vectors, see `router`.
  """
  names = tff.structure.name_list(metrics.type_signature.member)
  if not names:
    return tff.federated_eval(
        tff.tensorflow.computation(lambda: ()), tff.SERVER
    )

  @tff.tensorflow.computation(np.float32, weight.type_signature.member)
  def own_weight(counted, weight):
    return counted * tf.cast(tf.reduce_sum(weight), tf.float32)

  weight = tff.federated_map(own_weight, (counted, weight))
  return tff.federated_zip(
      collections.OrderedDict(
          (name, tff.federated_mean(metrics[name], weight)) for name in names
      )
  )


def of_aggregator(measurements: Any) -> list[Any]:
  """Returns [<aggregator>@SERVER], or [] if it measures nothing."""
  if not tff.structure.flatten(measurements.type_signature.member):
    return []
  return [tff.federated_zip(collections.OrderedDict(aggregator=measurements))]


def merge(metrics: Any, *others: Any) -> Any:
  """Returns one structure@SERVER with the fields of several (while tracing)."""
  values = (metrics, *others)

  @tff.tensorflow.computation(
      [value.type_signature.member for value in values]
  )
  def merged(structures):
    return joined(*structures)

  return tff.federated_map(merged, tff.federated_zip(values))


def joined(*structures: Mapping[str, Any]) -> Any:
  """Returns one structure with the fields of several.

  Raises:
    ValueError: If a field is in two of them.
  """
  fields = collections.OrderedDict()
  for structure in structures:
    for name, value in dict(structure).items():
      if name in fields:
        raise ValueError(
            f'There is a metric {name} already, found another one of this name.'
            ' Give your own metric a name of its own.'
        )
      fields[name] = value
  return fields
