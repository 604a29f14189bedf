"""Robust rules as TFF factories: messages are collected and combined."""

import collections
from typing import Union

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import random
from tff_pers.aggregators import shuffling
from tff_pers.aggregators import vectors
from tff_pers.aggregators.robust import naming
from tff_pers.aggregators.robust import rules
from tff_pers.aggregators.robust import sums
from tff_pers.numerics import robust

# Messages that collecting is laid out for; more of them are slower.
_EXPECTED = 128


def build_factory(
    rule: Union[str, naming.AnyRule]
) -> tff.aggregators.UnweightedAggregationFactory:
  """Returns the factory of a rule.

  Args:
    rule: A rule or its name, see `parse`.

  Raises:
    ValueError: If the rule is wrong, or does not say how many clients it
      assumes to be Byzantine.
  """
  if isinstance(rule, str):
    rule = naming.parse(rule)
  if isinstance(
      rule, (rules.GeometricMedian, rules.CenteredClipping)
  ) and rule.sums:
    return sums.SumsFactory(rule)
  return RobustFactory(rule)


class RobustFactory(tff.aggregators.UnweightedAggregationFactory):
  """Collects the messages of all clients and combines them by a rule.

  A message is any structure of floating tensors of known shapes; its leaves are
  joined to one vector of their widest dtype, of which there is one norm, and
  every leaf of the result has its dtype again. Messages that are not finite, or
  too long to calculate with (`numerics.robust.are_finite`), are removed, and
  taken for Byzantine ones: f is lower by as many, not below 0. If too few are
  left for the rule, the result is zero and `impossible` 1.

  `next`: <S@SERVER, {V}@CLIENTS> -> <state=S, result=V, measurements=M>@SERVER
  with S = `<seed=int64[2], round=int32>` and M = `<num_non_finite=int32,
  impossible=int32>`.

  It works as the `model_aggregator` of TFF's `build_weighted_fed_avg` through
  `tff.aggregators.as_weighted_aggregator`. Messages count alike; with
  `leaving_out_absent` a client of weight 0 is absent.

  Collecting costs the server the memory of all messages; see `sums` for what
  does without.
  """

  def __init__(self, rule: naming.AnyRule):
    """Initializes the factory.

    Args:
      rule: The rule; its `f` must be given where that matters.

    Raises:
      ValueError: If it needs to be told f.
    """
    self._rule = rule
    if rule.f == rules.NOT_GIVEN and rule.needs_f:
      raise ValueError(
          f'`aggregator` {naming.as_text(rule)} must be told how many clients'
          f' it assumes to be Byzantine, found no f. Tip: {rule.name}[f=1].'
      )

  def leaving_out_absent(self) -> tff.aggregators.WeightedAggregationFactory:
    """Returns the weighted factory in which a client of weight 0 is absent.

    Other weights are ignored: a Byzantine client could claim any.
    """
    return _WeightedRobustFactory(self._rule)

  def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
    """Returns the process.

    Args:
      value_type: TFF type of what a client sends.

    Raises:
      TypeError: If a leaf is not floating, or its shape is not known.
    """
    return _create(self._rule, value_type, None)


class _WeightedRobustFactory(tff.aggregators.WeightedAggregationFactory):
  """See `RobustFactory.leaving_out_absent`."""

  removes_non_finite = True  # Nobody has to do so before, see `attacks`.

  def __init__(self, rule: naming.AnyRule):
    self._rule = rule

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    return _create(self._rule, value_type, weight_type)


def _create(rule, value_type, weight_type):
  """Returns the process, with weights unless their type is None."""
  vectors.check_known(value_type)
  wide = vectors.dtype(value_type)

  @tff.tensorflow.computation(value_type)
  def always(value):
    return vectors.flatten(value, wide)[None]

  @tff.tensorflow.computation(value_type, weight_type or np.float32)
  def if_present(value, weight):
    present = tf.cast(tf.reduce_any(weight > 0), tf.int32)
    return vectors.flatten(value, wide)[None][:present]

  as_row = always if weight_type is None else if_present
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

  def finish(state, rows):
    collected = collect.next(collect.initialize(), rows).result
    combined = tff.federated_map(combine, (state, collected))
    return tff.templates.MeasuredProcessOutput(
        combined.state, combined.result, combined.measurements
    )

  at_server = tff.FederatedType(state_type, tff.SERVER)
  at_clients = tff.FederatedType(value_type, tff.CLIENTS)
  if weight_type is None:
    @tff.federated_computation(at_server, at_clients)
    def next_fn(state, value):
      return finish(state, tff.federated_map(as_row, value))
  else:
    @tff.federated_computation(
        at_server, at_clients, tff.FederatedType(weight_type, tff.CLIENTS)
    )
    def next_fn(state, value, weight):
      return finish(state, tff.federated_map(as_row, (value, weight)))

  return tff.templates.AggregationProcess(init_fn, next_fn)


def _combine(rule, rows, state):
  """Returns (vector, measurements) of the messages of a round."""
  finite = robust.are_finite(rows)
  kept = tf.cond(  # Without a copy if all are finite.
      tf.reduce_all(finite), lambda: rows,
      lambda: tf.boolean_mask(rows, finite),
  )
  removed = tf.shape(rows)[0] - tf.shape(kept)[0]
  number = tf.maximum(max(rule.f, 0) - removed, 0)
  possible = tf.logical_and(
      tf.shape(kept)[0] > 0, rule.is_possible(tf.shape(kept)[0], number)
  )
  vector = tf.cond(
      possible,
      lambda: rule(kept, number, random.fold_in(state['seed'], state['round'])),
      lambda: tf.zeros([tf.shape(rows)[1]], rows.dtype),
  )
  return vector, collections.OrderedDict(
      num_non_finite=removed,
      impossible=tf.cast(tf.logical_not(possible), tf.int32),
  )
