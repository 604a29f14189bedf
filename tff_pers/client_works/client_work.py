"""A client work: the computation on a client, written once, used everywhere.

`update` is a plain TensorFlow function of (message, client state, data) that
visits the data through `fold_batches`; it accepts dense data or `tf.data`
batches. `as_personalized` turns it into a computation over dense data with
client state, `tff_client_work` into a process for `tff.learning.templates`.
"""

import collections
import dataclasses
from typing import Any, Callable, Mapping, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tff_pers.core import random
from tff_pers.core import structures
from tff_pers.core import traces
from tff_pers.data import client_data
from tff_pers import tff


class ClientOutput(NamedTuple):
  """Result of a client work.

  Attributes:
    client_state: The client's next state; `()` for stateless clients.
    update: What is sent to the server; for models, initial minus final weights.
    weight: float32 scalar >= 0, this client's weight in a mean.
    loss: float scalar, mean training loss over the local steps.
    metrics: Further float scalars by name; their means over the cohort, with
      the clients' weights, become metrics of the round.
    bytes_down: float scalar, the bytes that a real deployment would send to
      this client if that is less than the message, e.g. to a device that trains
      only a part of it; None: the bytes of the message's floats.
    bytes_up: Likewise, what this client would send.
    witness: Tensors that are finite only if the update is, but are cheaper to
      check; None: the update itself.
  """

  client_state: Any
  update: Any
  weight: Any
  loss: Any
  metrics: Any = ()
  bytes_down: Any = None
  bytes_up: Any = None
  witness: Any = None


class Summed(NamedTuple):
  """A client work for servers that only take the weighted mean.

  Attributes:
    update: As that of the work, but the update has the form that `factory`
      takes. A real deployment would not use this form, so the update itself
      states the bytes sent.
    factory: Takes the weighted mean of such updates.
  """

  update: Callable[[Any, Any, Any], ClientOutput]
  factory: tff.aggregators.WeightedAggregationFactory


@dataclasses.dataclass(frozen=True)
class ClientWork:
  """A client work as plain functions.

  Attributes:
    update: `(message, client_state, data) -> ClientOutput`; `message` has the
      fields `seed`, `round` and what the method distributes (`weights`).
    summed: The same work, cheaper if the server takes the weighted mean; None:
      there is no cheaper form.
  """

  update: Callable[[Any, Any, Any], ClientOutput]
  summed: Optional[Summed] = None


def message_type(**fields: Any) -> tff.StructType:
  """Returns the type of a message: `seed`, `round`, then `fields`, sorted."""
  return tff.to_type(
      collections.OrderedDict(
          seed=np.int64, round=np.int32, **dict(sorted(fields.items()))
      )
  )


def key(
    message: Mapping[str, Any], data: Mapping[str, Any], use: int = 0
) -> tf.Tensor:
  """Returns the key of (seed, round, client, use), int64[2].

  Use 0 is a method's main sequence of batches; independent draws take 1, 2, ...
  A `tf.data.Dataset` does not know its client and counts as client 0.
  """
  # Two datasets thus get equal draws in a round, e.g. for dropout.
  index = 0 if isinstance(data, tf.data.Dataset) else data['index']
  return random.key(message['seed'], message['round'], index, use)


def is_unseen(index: tf.Tensor, num_clients: Optional[int]) -> tf.Tensor:
  """Returns whether a client is new (it never trains): its index is N or more.

  Args:
    index: int32 scalar.
    num_clients: N; None: every client may train.
  """
  if num_clients is None:
    return tf.constant(False)
  return index >= num_clients


def client_weight(
    weighting: str, data: Mapping[str, Any], batch_size: int
) -> tf.Tensor:
  """Returns a client's aggregation weight, float32.

  Args:
    weighting: `uniform` (1), `examples` (n_i) or `batches` (ceil(n_i / batch)).
    data: Dense client data, or a `tf.data.Dataset` of batches.
    batch_size: Examples per batch.

  Raises:
    ValueError: If `weighting` is none of these.
  """
  if weighting == 'uniform':
    return tf.constant(1.0)
  if weighting not in ('examples', 'batches'):
    raise ValueError(
        '`client_weighting` must be one of uniform, examples, batches, found'
        f' {weighting!r}.'
    )
  if isinstance(data, tf.data.Dataset):
    by_examples = weighting == 'examples'
    total = data.reduce(
        0,
        lambda count, xy: count
        + (structures.num_rows(xy) if by_examples else 1),
    )
    return tf.cast(total, tf.float32)
  examples = data['num_examples']
  if weighting == 'batches':
    examples = client_data.batches_per_epoch(examples, batch_size)
  return tf.cast(examples, tf.float32)


def as_personalized(
    work: ClientWork,
    message: tff.Type,
    client_state: tff.Type,
    data: tff.Type,
) -> tff.Computation:
  """Returns `(message, C, D -> ClientOutput)` without fields that are None.

  Args:
    work: The client work.
    message: TFF type of the message, see `message_type`.
    client_state: TFF type C.
    data: TFF type D of dense client data.
  """

  @traces.tensorflow_computation(message, client_state, data)
  def client_update(message, client_state, data):
    fields = work.update(message, client_state, data)._asdict()
    return collections.OrderedDict(
        (name, value) for name, value in fields.items() if value is not None
    )

  return client_update
