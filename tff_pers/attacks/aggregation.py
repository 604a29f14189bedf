"""Attacks on what a server receives: `attacked(factory, attack)`."""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers import random
from tff_pers import round_metrics
from tff_pers.aggregators import absence
from tff_pers.aggregators import shuffling
from tff_pers.aggregators import structure
from tff_pers.attacks import attack as attack_lib
from tff_pers.aggregators import vectors
from tff_pers.numerics import attacks_adaptive

# Messages that collecting is laid out for; more of them are slower.
_EXPECTED = 128


def attacked(
    factory: structure.Factory,
    attack: attack_lib.Attack,
    rule: Any = attacks_adaptive.Mean(),
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns `factory` with clients that attack it.

  A value is `<update=U, byzantine=bool, index=int32>`. What the honest clients
  send stays as it is. Attackers see the honest messages of the round (those
  with a weight > 0 and finite), and send what `attack` makes of them; one of
  weight 0 is absent and sends nothing. Then the server screens: a message that
  is not finite becomes zeros of weight 0, so that it never reaches the others.
  What is left goes to `factory`, which draws only then (buckets, noise).

  `next`: <S@SERVER, {<update, byzantine, index>}@CLIENTS, {W}@CLIENTS> ->
  <state=S, result=R, measurements=M>@SERVER with S = `<inner, seed=int64[2],
  round=int32, memory>`, where `memory` is what attackers remember. M has the
  fields of the measurements of `factory` (as one field `inner` if they have no
  names) and

    refused: int32[?], indices of the clients whose message was not finite.
    num_refused: int32, their number.
    impossible: int32, the inner one plus 1 if no message was left.

  Args:
    factory: Any TFF factory.
    attack: What the Byzantine clients do.
    rule: What attackers take `factory` for, see `attacks_adaptive.Rule`.
  """
  return _AttackedFactory(absence.leave_out_absent(factory), attack, rule)


class _AttackedFactory(tff.aggregators.WeightedAggregationFactory):
  """See `attacked`."""

  def __init__(self, inner, attack, rule):
    self._inner = inner
    self._attack = attack
    self._rule = rule

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process.

    Raises:
      TypeError: If attackers have to see messages of unknown shapes.
    """
    inner = self._inner.create(value_type['update'], weight_type)
    if vectors.dtype(value_type['update']) is None:
      return _untouched(inner, value_type, weight_type)
    _check_shapes(self._attack, value_type['update'])
    collect = _build_collect(value_type, weight_type)
    start = _build_start(self._attack, value_type['update'])
    plan = _build_plan(
        self._attack, self._rule, start.type_signature.result,
        collect.type_signature.result.member,
    )
    send = _build_send(
        self._attack, value_type, weight_type,
        plan.type_signature.result['order'],
    )
    return _process(inner, start, collect, plan, send, self._attack)


def _process(inner, start, collect, plan, send, attack):
  """Returns the attacked process; see the functions that build its lines."""
  value_type, weight_type, _ = send.type_signature.parameter
  memory_type = start.type_signature.result
  measure = _build_measure(
      inner.next.type_signature.result.measurements.member
  )
  is_present = absence.build_is_present(weight_type)
  gather = shuffling.RowCollectionFactory(_EXPECTED).create(
      send.type_signature.result['refused']
  )

  @tff.tensorflow.computation(
      inner.initialize.type_signature.result.member, memory_type
  )
  def assemble(inner_state, memory):
    return collections.OrderedDict(
        # First, so that its keys are those of a run without attack.
        inner=inner_state, seed=tf.zeros([2], tf.int64), round=tf.constant(0),
        memory=memory,
    )

  state_type = assemble.type_signature.result

  @tff.tensorflow.computation(
      state_type, inner.initialize.type_signature.result.member, memory_type
  )
  def advance(state, inner_state, memory):
    return collections.OrderedDict(
        state, inner=inner_state, round=state['round'] + 1, memory=memory
    )

  @tff.federated_computation
  def init_fn():
    return tff.federated_map(
        assemble, (inner.initialize(), tff.federated_eval(start, tff.SERVER))
    )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state, value, weight):
    seen = (
        collect(value, weight) if attack.is_omniscient
        else tff.federated_value((), tff.SERVER)
    )
    planned = tff.federated_map(
        plan, (state.seed, state.round, state.memory, seen)
    )
    order = tff.federated_broadcast(planned.order)
    received = tff.federated_map(send, (value, weight, order))
    output = inner.next(state.inner, received.update, received.weight)
    present = tff.federated_map(is_present, received.weight)
    measured = tff.federated_map(measure, (
        output.measurements,
        gather.next(gather.initialize(), received.refused).result,
        tff.federated_sum(present),
    ))
    state = tff.federated_map(
        advance, (state, output.state, planned.memory)
    )
    return tff.templates.MeasuredProcessOutput(state, output.result, measured)

  return tff.templates.AggregationProcess(init_fn, next_fn)


def _check_shapes(attack, update_type) -> None:
  """Raises what `create` documents."""
  if attack.is_omniscient and vectors.width(update_type) is None:
    raise TypeError(
        f'The attack {attack.name} must see messages of known shapes, found'
        f' {update_type}.'
    )


def _build_start(attack, update_type) -> tff.Computation:
  """Returns ( -> memory), what attackers remember at first."""
  return tff.tensorflow.computation(
      lambda: attack.start(
          vectors.width(update_type), vectors.dtype(update_type)
      )
  )


def _build_collect(value_type, weight_type) -> tff.Computation:
  """Returns ({value}, {weight} -> rows@SERVER), the messages of a round.

  Only those of clients with a weight > 0 that are finite.
  """
  wide = vectors.dtype(value_type['update'])

  @tff.tensorflow.computation(value_type, weight_type)
  def as_row(value, weight):
    counts = tf.logical_and(
        tf.reduce_any(weight > 0), round_metrics.all_finite(value['update'])
    )
    keep = lambda leaf: leaf[None][:tf.cast(counts, tf.int32)]
    return collections.OrderedDict(
        byzantine=keep(value['byzantine']), index=keep(value['index']),
        message=keep(vectors.flatten(value['update'], wide)),
    )

  rows = shuffling.RowCollectionFactory(_EXPECTED).create(
      as_row.type_signature.result
  )

  @tff.federated_computation(
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def collect(value, weight):
    row = tff.federated_map(as_row, (value, weight))
    return rows.next(rows.initialize(), row).result

  return collect


def _build_plan(attack, rule, memory_type, rows_type) -> tff.Computation:
  """Returns (seed, round, memory, rows -> <memory, order>).

  An order is what every attacker gets; without omniscience rows are ().
  """
  key_type = tff.TensorType(np.int64, [2])

  @tff.tensorflow.computation(
      key_type, np.int32, memory_type,
      rows_type if attack.is_omniscient else (),
  )
  def plan(seed, round_num, memory, rows):
    key = random.fold_in(seed, round_num)
    seen = _seen(rows, rule) if attack.is_omniscient else None
    memory, made = attack.plan(memory, seen, key)
    return collections.OrderedDict(
        memory=memory, order=collections.OrderedDict(key=key, plan=made)
    )

  return plan


def _seen(rows, rule) -> attack_lib.Seen:
  """Returns what attackers see in the collected messages."""
  byzantine = rows['byzantine']
  honest = tf.logical_not(byzantine)
  return attack_lib.Seen(
      honest=tf.boolean_mask(rows['message'], honest),
      indices=tf.boolean_mask(rows['index'], honest),
      own=tf.boolean_mask(rows['message'], byzantine),
      rule=rule,
  )


def _build_send(
    attack, value_type, weight_type, order_type
) -> tff.Computation:
  """Returns (value, weight, order -> <update, weight, refused>).

  It is what an attacker sends in the place of its message, and what the server
  lets in; `refused` is int32[0 or 1], the index of the client.
  """
  wide = vectors.dtype(value_type['update'])

  @tff.tensorflow.computation(value_type, weight_type, order_type)
  def send(value, weight, order):
    own, index = value['update'], value['index']
    present = tf.reduce_any(weight > 0)
    # Who is absent sends nothing, not even an attack.
    attacks = tf.logical_and(value['byzantine'], present)

    def bad():
      message = attack.message(
          vectors.flatten(own, wide), order['plan'],
          random.fold_in(order['key'], index),
      )
      return vectors.unflatten(message, own)

    update = tf.cond(attacks, bad, lambda: own)
    if attack.is_silent:
      weight = tf.where(attacks, tf.zeros_like(weight), weight)
    finite = round_metrics.all_finite(update)
    # Not by the weight alone: 0 times NaN is NaN.
    update, weight = tf.cond(
        finite,
        lambda: (update, weight),
        lambda: tf.nest.map_structure(tf.zeros_like, (update, weight)),
    )
    is_refused = tf.logical_and(present, tf.logical_not(finite))
    return collections.OrderedDict(
        update=update, weight=weight,
        refused=tf.boolean_mask(index[None], is_refused[None]),
    )

  return send


def _build_measure(inner_type) -> tff.Computation:
  """Returns (inner measurements, refused, number of messages -> M)."""

  @tff.tensorflow.computation(
      inner_type, tff.TensorType(np.int32, [None]), np.int32
  )
  def measure(inner, refused, num_messages):
    fields = collections.OrderedDict(
        inner if hasattr(inner, 'items') else
        dict(inner=inner) if tff.structure.flatten(inner_type) else {}
    )
    nobody = tf.cast(tf.equal(num_messages, 0), tf.int32)
    fields.update(
        refused=refused, num_refused=tf.size(refused),
        impossible=fields.get('impossible', 0) + nobody,
    )
    return fields

  return measure


def _untouched(inner, value_type, weight_type):
  """Returns the inner process on values without a number to attack."""

  @tff.federated_computation(
      inner.initialize.type_signature.result,
      tff.FederatedType(value_type, tff.CLIENTS),
      tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state, value, weight):
    return inner.next(state, value.update, weight)

  return tff.templates.AggregationProcess(inner.initialize, next_fn)
