"""Attacks on what a server receives: `attacked(factory, attack)`."""

import collections
from typing import Any

import tensorflow as tf

from tff_pers.aggregators import absence
from tff_pers.aggregators import mapped
from tff_pers.aggregators import nothing
from tff_pers.aggregators import shuffling
from tff_pers.aggregators import structure
from tff_pers.attacks import attack as attack_lib
from tff_pers.attacks import computations
from tff_pers.numerics import attacks_adaptive
from tff_pers import tff


def attacked(
    factory: structure.Factory,
    attack: attack_lib.Attack,
    rule: Any = attacks_adaptive.Mean(),
    window: int = 0,
) -> tff.aggregators.WeightedAggregationFactory:
  """Returns `factory` with clients that attack it.

  A value is `<update=U, byzantine=bool, index=int32, place=float64>`, the last
  two as in `attack.Sender`. Messages of honest
  clients are not changed. Attackers see the honest messages of the round (those
  that have a weight > 0 and are finite), and send what `attack` computes from
  them; an attacker of weight 0 is absent and sends nothing. Then the server
  screens: a non-finite message becomes zeros of weight 0, so that it never
  reaches the others; robust rules remove such messages themselves (see
  `robust.RobustFactory`). The rest goes to `factory`, which makes its random
  draws (buckets, noise) only then.

  `next`: <S@SERVER, {<update, byzantine, index>}@CLIENTS, {W}@CLIENTS> ->
  <state=S, result=R, measurements=M>@SERVER with S = `<inner, seed=int64[2],
  round=int32, memory>`, where `memory` is the state of the attackers, with the
  messages that they have seen before if there is a `window`. M has the
  fields of the measurements of `factory` (as one field `inner` if they have no
  names) and

    refused: int32[?], indices of the clients whose message was not finite.
    num_refused: int32, their number.
    impossible: int32, the inner one plus 1 if no message was left.

  Args:
    factory: Any TFF factory.
    attack: The attack of the Byzantine clients.
    rule: The rule that attackers assume, see `attacks_adaptive.Rule`.
    window: 0: attackers see the messages of the round; else the last `window`
      messages, where a round is a single message that has arrived.
  """
  return _AttackedFactory(
      absence.leave_out_absent(factory), attack, rule, window
  )


class _AttackedFactory(tff.aggregators.WeightedAggregationFactory):
  """See `attacked`."""

  def __init__(self, inner, attack, rule, window):
    self._inner = inner
    self._attack = attack
    self._rule = rule
    self._window = window

  def create(
      self, value_type: tff.Type, weight_type: tff.Type
  ) -> tff.templates.AggregationProcess:
    """Creates the process.

    Raises:
      TypeError: If the update has no floating tensor, or attackers need to see
        messages of unknown shapes.
    """
    update_type = value_type['update']
    if not tff.structure.flatten(update_type):
      # TFF's factories refuse empty values, and there is nothing to attack.
      inner = nothing.NothingFactory().create(update_type, weight_type)
      return mapped.map_first(computations.build_update(value_type), inner)
    if hasattr(self._inner, 'build_form'):
      form = computations.build_form(self._inner, value_type)
      formed = attacked(
          self._inner.of_formed, self._attack, self._rule, self._window
      )
      return mapped.map_first(
          form, formed.create(form.type_signature.result, weight_type)
      )
    inner = self._inner.create(update_type, weight_type)
    computations.check_update(self._attack, update_type)
    collect = computations.build_collect(self._attack, value_type, weight_type)
    start = computations.build_start(self._attack, value_type, self._window)
    plan = computations.build_plan(
        self._attack, self._rule, start.type_signature.result,
        collect.type_signature.result.member,
    )
    send = computations.build_send(
        self._attack, value_type, weight_type,
        plan.type_signature.result['order'],
        screens=not removes_non_finite(inner),
    )
    return _process(inner, start, collect, plan, send)


def removes_non_finite(process: tff.templates.AggregationProcess) -> bool:
  """Returns whether robust rules remove and count non-finite messages.

  They do, also inside TFF's clipping and zeroing, which pass NaN on, if there
  is a robust rule for every part of a value.
  """
  def is_removed(measured):
    if not isinstance(measured, tff.StructType):
      return False
    parts = dict(tff.structure.iter_elements(measured))
    if 'num_non_finite' in parts:
      return True
    wrapped = [parts[name] for name in ('clipping', 'zeroing') if name in parts]
    inner = wrapped or parts.values()
    return bool(inner) and all(map(is_removed, inner))
  return is_removed(process.next.type_signature.result.measurements.member)


def _process(inner, start, collect, plan, send):
  """Returns the attacked process, composed of the given computations."""
  value_type, weight_type, _ = send.type_signature.parameter
  memory_type = start.type_signature.result
  measure = computations.build_measure(
      inner.next.type_signature.result.measurements.member
  )
  is_present = absence.build_is_present(weight_type)
  gather = shuffling.RowCollectionFactory(computations.EXPECTED).create(
      send.type_signature.result['refused']
  )

  @tff.tensorflow.computation(
      inner.initialize.type_signature.result.member, memory_type
  )
  def assemble(inner_state, memory):
    return collections.OrderedDict(
        # First, so that its keys equal those of a run without attack.
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
    rows = collect(value, weight)
    planned = tff.federated_map(
        plan, (state.seed, state.round, state.memory, rows)
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
