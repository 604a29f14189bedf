"""Robust rules as TFF factories that collect and combine messages."""

import collections
from typing import Union

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling
from tff_pers.aggregators import vectors
from tff_pers.aggregators.robust import naming
from tff_pers.aggregators.robust import rules
from tff_pers.core import random
from tff_pers.numerics import robust
from tff_pers import tff

# Number of messages that collecting is optimized for; more are slower.
_EXPECTED = 128


def build_factory(
    rule: Union[str, naming.AnyRule]
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns the factory of a rule.

  Args:
    rule: A rule or its name, see `parse`.

  Raises:
    ValueError: If the rule is bad, or does not give the assumed number of
      Byzantine clients.
  """
  if isinstance(rule, str):
    rule = naming.parse(rule)
  return RobustFactory(rule)


class RobustFactory(tff.aggregators.WeightedAggregationFactory):
  """Collects the messages of all clients and combines them by a rule.

  A client of weight 0 is absent. Other weights are ignored, because a Byzantine
  client could claim any.

  A message is any structure of floating tensors of known shapes; its leaves are
  concatenated into one vector of their widest dtype, which has one norm, and
  every leaf of the result is cast back to its dtype. Messages that are not
  finite, or too large to calculate with (`numerics.robust.are_finite`), are
  removed. They may come from honest clients: the rule assumes the largest k
  with f - removed <= k <= f that it can handle with the remaining messages. If
  there is none, the result is zero and `impossible` is 1.

  `next`: <S@SERVER, {V}@CLIENTS, {weight}@CLIENTS> -> <state=S, result=V,
  measurements=M>@SERVER with S = `<seed=int64[2], round=int32>` and M =
  `<num_non_finite=int32, impossible=int32>`.

  It works as the `model_aggregator` of TFF's `build_weighted_fed_avg`, and
  inside TFF's clipping and zeroing. It is not a sum, so TFF's factories that
  need one (differential privacy, means) refuse it with a TypeError.

  Collecting takes server memory for all messages.
  """

  def __init__(self, rule: naming.AnyRule):
    """Initializes the factory.

    Args:
      rule: The rule; its `f` must be given if the rule depends on it.

    Raises:
      ValueError: If the rule needs f, and f is not given.
    """
    self._rule = rule
    if rule.f == rules.NOT_GIVEN and rule.needs_f:
      text = naming.as_text(rule)
      raise ValueError(
          f'`aggregator` {text} must be told how many clients it assumes to be'
          f' Byzantine, found no f. Tip: {naming.with_num_byzantine(text, 1)}.'
      )

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of what a client sends.
      weight_type: TFF type of its weight, a tensor; any positive entry means
        that the client is present.

    Raises:
      TypeError: If a leaf is not floating, or its shape is unknown.
    """
    vectors.check_known(value_type)
    return _create(self._rule, value_type, weight_type)


def _create(rule, value_type, weight_type):
  """Returns the process of `RobustFactory`."""
  wide = vectors.dtype(value_type)

  @tff.tensorflow.computation(value_type, weight_type)
  def as_row(value, weight):
    present = tf.cast(tf.reduce_any(weight > 0), tf.int32)
    return vectors.flatten(value, wide)[None][:present]

  collect = shuffling.RowCollectionFactory(_EXPECTED).create(
      as_row.type_signature.result
  )
  state_type = tff.to_type(
      collections.OrderedDict(seed=(np.int64, [2]), round=np.int32)
  )

  @tff.tensorflow.computation(
      state_type, collect.next.type_signature.result['result'].member
  )
  def combine(state, rows):
    vector, measured = _combine(rule, rows, state)
    return collections.OrderedDict(
        state=collections.OrderedDict(state, round=state['round'] + 1),
        result=vectors.of_type(vector, value_type),
        measurements=measured,
    )

  @tff.tensorflow.computation
  def start():
    return collections.OrderedDict(
        seed=tf.zeros([2], tf.int64), round=tf.constant(0)
    )

  @tff.federated_computation
  def init_fn():
    return tff.federated_eval(start, tff.SERVER)

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state, value, weight):
    rows = tff.federated_map(as_row, (value, weight))
    collected = collect.next(collect.initialize(), rows).result
    combined = tff.federated_map(combine, (state, collected))
    return tff.templates.MeasuredProcessOutput(
        combined.state, combined.result, combined.measurements
    )

  return tff.templates.AggregationProcess(init_fn, next_fn)


def _combine(rule, rows, state):
  """Returns (vector, measurements) for the messages of a round."""
  finite = robust.are_finite(rows)
  kept = tf.cond(  # Without a copy if all are finite.
      tf.reduce_all(finite), lambda: rows,
      lambda: tf.boolean_mask(rows, finite),
  )
  removed = tf.shape(rows)[0] - tf.shape(kept)[0]
  # A removed message may come from an honest client, so f decreases only as far
  # as the rule needs with fewer messages.
  most = max(rule.f, 0)
  numbers = tf.range(tf.maximum(most - removed, 0), most + 1)
  number = tf.reduce_max(
      tf.where(rule.is_possible(tf.shape(kept)[0], numbers), numbers, -1)
  )
  possible = number >= 0
  vector = tf.cond(
      possible,
      lambda: rule(kept, number, random.fold_in(state['seed'], state['round'])),
      lambda: tf.zeros([tf.shape(rows)[1]], rows.dtype),
  )
  return vector, collections.OrderedDict(
      num_non_finite=removed,
      impossible=tf.cast(tf.logical_not(possible), tf.int32),
  )
