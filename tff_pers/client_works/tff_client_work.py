"""Turns a client work into one of TFF's learning templates."""

import collections

import numpy as np
import tensorflow as tf

from tff_pers.client_works import client_work
from tff_pers.core import round_metrics
from tff_pers.core import structures
from tff_pers.data import client_data
from tff_pers.models import functional
from tff_pers import tff


def as_client_work_process(
    work: client_work.ClientWork, model: functional.FunctionalModel,
    seed: int = 0,
) -> tff.learning.templates.ClientWorkProcess:
  """Returns a stateless `work` on `tf.data` batches as TFF's client work.

  The server state is `<seed, round>`, the keys of local draws. The message is
  `<seed, round, weights>`; the data type is a sequence of batches `<x, y>`. The
  measurements are `train=<loss, num_non_finite>`: the mean loss, and the number
  of clients dropped because their result was not finite. These clients, and
  clients without examples, send zeros of weight 0.

  Args:
    work: The client work; it keeps no client state.
    model: The model of the message's `weights`.
    seed: The run's seed, int64.

  Raises:
    TypeError: If `work` needs dense data, a client state, or more of a message.
  """
  weights_type = model.weights_type
  # Our models have no non-trainable weights, hence the empty structure.
  model_weights_type = tff.learning.models.ModelWeights(weights_type, ())
  state_type = tff.to_type(
      collections.OrderedDict(seed=np.int64, round=np.int32)
  )
  batch_type = client_data.client_data_type(model.x_spec, model.y_spec)[
      'examples'
  ]

  @tff.tensorflow.computation
  def initial_state():
    return collections.OrderedDict(
        seed=tf.constant(seed, tf.int64), round=tf.constant(0, tf.int32)
    )

  def work_on(message, dataset):
    try:
      return work.update(message, (), dataset)
    except (AttributeError, KeyError, TypeError) as error:
      # `work` used something that data, client state or message do not have.
      wants_more = isinstance(error, KeyError) or any(
          word in str(error) for word in ('Dataset', 'tuple')
      )
      if not wants_more:
        raise
      raise TypeError(
          '`work` must need nothing but a message <seed, round, weights> and a'
          " `tf.data.Dataset` of batches as TFF's client work, found one that"
          f' fails with {error!r}. Tip: use works on dense data or with client'
          ' states in `composition.compose`.'
      ) from error

  @tff.tensorflow.computation(
      state_type, tff.to_type(model_weights_type), tff.SequenceType(batch_type)
  )
  def update(state, model_weights, dataset):
    # TFF's templates distribute only the model weights; the seed and the round
    # come from the state of this client work.
    output = work_on(
        collections.OrderedDict(
            seed=state['seed'], round=state['round'],
            weights=model_weights.trainable,
        ),
        dataset,
    )
    is_finite = round_metrics.all_finite(
        (output.update, output.weight, output.loss)
    )
    counts = tf.logical_and(is_finite, _has_examples(dataset))
    result, loss = tf.nest.map_structure(
        lambda x: tf.where(counts, x, tf.zeros_like(x)),
        ((output.update, output.weight), output.loss),
    )
    return collections.OrderedDict(
        result=tff.learning.templates.ClientResult(*result),
        loss=loss, counts=tf.cast(counts, tf.float32),
        non_finite=tf.cast(tf.logical_not(is_finite), tf.int32),
    )

  @tff.tensorflow.computation(state_type)
  def next_state(state):
    return collections.OrderedDict(seed=state['seed'], round=state['round'] + 1)

  @tff.federated_computation
  def init_fn():
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(model_weights_type, tff.CLIENTS),
      tff.FederatedType(tff.SequenceType(batch_type), tff.CLIENTS),
  )
  def next_fn(state, weights, data):
    output = tff.federated_map(
        update, (tff.federated_broadcast(state), weights, data)
    )
    train = collections.OrderedDict(
        loss=tff.federated_mean(output.loss, output.counts),
        num_non_finite=tff.federated_sum(output.non_finite),
    )
    return tff.templates.MeasuredProcessOutput(
        tff.federated_map(next_state, state), output.result,
        tff.federated_zip(collections.OrderedDict(train=train)),
    )

  return tff.learning.templates.ClientWorkProcess(init_fn, next_fn)


def _has_examples(dataset):
  """Returns whether the first batch of a data set, if any, has a row, bool."""
  return dataset.take(1).reduce(
      False, lambda _, xy: structures.num_rows(xy) > 0
  )
