"""Builds the steps of a round: work, aggregate, apply.

The `next` of a composed process consists of them, and so do drivers that run a
round step by step (see `process.Parts`).
"""

import collections
from typing import Any, Callable, Optional

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import absence
from tff_pers.core import process
from tff_pers.core import round_metrics
from tff_pers.core import traces
from tff_pers import tff


_GUARDED = ('client_state', 'update', 'weight', 'loss')


def build_guard(client_update: tff.Computation) -> tff.Computation:
  """Wraps `client_update`: drops failed clients and adds the metrics.

  A client whose result is not finite, or that has no examples, sends zeros of
  weight 0 and keeps its state.

  Args:
    client_update: See `client_work.as_personalized`.
  """
  message_type, client_type, data_type = client_update.type_signature.parameter

  @traces.tensorflow_computation(message_type, client_type, data_type)
  def guarded(message, client_state, data):
    output = client_update(message, client_state, data)
    finite = _is_finite(output)
    sent = collections.OrderedDict(
        update=output['update'], weight=output['weight']
    )
    # A client without examples has not trained, whatever its weight.
    counts = tf.logical_and(finite, data['num_examples'] > 0)
    new_state, sent = _kept(
        counts, (output['client_state'], sent),
        (client_state, tf.nest.map_structure(tf.zeros_like, sent)),
        by_branches='witness' not in output,
    )
    metrics = round_metrics.client_metrics(
        data, output['loss'], finite,
        _bytes(output, 'bytes_down', message),
        _bytes(output, 'bytes_up', sent['update']),
    )
    # A mean with weight 0 is not enough: 0 times NaN is NaN for everybody, and
    # a metric may well be 0 / 0 at a client without examples.
    own_metrics = tf.nest.map_structure(
        lambda m: tf.where(metrics['weight'] > 0, tf.cast(m, tf.float32), 0.0),
        output['metrics'],
    )
    return collections.OrderedDict(
        client_state=new_state, **sent, own_metrics=own_metrics,
        metrics=metrics,
    )

  return guarded


def _is_finite(output):
  """Returns whether what a client computed is finite, bool."""
  if 'witness' not in output:
    return round_metrics.all_finite([output[name] for name in _GUARDED])
  names = [name for name in _GUARDED if name != 'update']
  return round_metrics.each_finite(
      [output['witness'], *(output[name] for name in names)]
  )


def _kept(counts, new, old, by_branches: bool):
  """Returns `new` if the client counts, else `old`.

  Args:
    counts: bool scalar.
    new: A structure of tensors.
    old: A structure like `new`.
    by_branches: Whether to use a conditional, which copies no tensor but takes
      several passes where clients are vectorized.
  """
  if by_branches:
    return tf.cond(counts, lambda: new, lambda: old)
  leaves = [
      tf.where(counts, a, b)
      for a, b in zip(tf.nest.flatten(new), tf.nest.flatten(old))
  ]
  return tf.nest.pack_sequence_as(new, leaves)


def _bytes(output, name: str, payload):
  """Returns the bytes that the work reports, else the size of the tensors."""
  if name in output:
    return tf.cast(output[name], tf.float32)
  return round_metrics.payload_bytes(payload)


def placed(work_fn: tff.Computation) -> tff.Computation:
  """Returns `work_fn`, mapped over the clients of a cohort."""
  types = work_fn.type_signature.parameter

  @tff.federated_computation(
      *(tff.FederatedType(member, tff.CLIENTS) for member in types)
  )
  def work(messages, client_states, data):
    return tff.federated_map(work_fn, (messages, client_states, data))

  return work


def build_aggregate(
    aggregation: tff.templates.AggregationProcess, state_type: tff.Type,
    output_type: tff.Type,
) -> tff.Computation:
  """Returns `aggregate`, see `process.Parts`."""

  is_present = absence.build_is_present(output_type['weight'])

  @traces.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(output_type, tff.CLIENTS),
  )
  def aggregate(state, outputs):
    aggregated = aggregation.next(
        state.aggregator, outputs.update, outputs.weight
    )
    measured = aggregated.measurements
    metrics = [
        round_metrics.aggregate(outputs.metrics),
        round_metrics.mean(
            outputs.own_metrics, outputs.metrics.weight, outputs.weight
        ),
        *round_metrics.of_aggregator(measured),
    ]
    present = tff.federated_sum(
        tff.federated_map(is_present, outputs.weight)
    )
    return tff.federated_zip(
        collections.OrderedDict(
            state=aggregated.state,
            result=aggregated.result,
            num_present=_unless_impossible(present, measured),
            metrics=round_metrics.merge(*metrics),
        )
    )

  return aggregate


def _unless_impossible(num_present, measured):
  """Returns 0 if a rule had too few messages for a result, else `num_present`.

  The round then counts as one in which nobody took part. Robust rules measure
  `impossible`, also inside other aggregators.
  """
  found = list(_named('impossible', measured))
  if not found:
    return num_present
  found_types = [value.type_signature.member for value in found]

  @tff.tensorflow.computation(np.int32, found_types)
  def unless(number, impossible):
    return tf.where(tf.reduce_any(tf.stack(impossible) > 0), 0, number)

  return tff.federated_map(unless, (num_present, tff.federated_zip(found)))


def _named(field: str, value):
  """Yields the parts of a value@SERVER with this name, at any depth."""
  member = value.type_signature.member
  if not isinstance(member, tff.StructType):
    return
  for position, name in enumerate(tff.structure.name_list_with_nones(member)):
    if name == field:
      yield value[position]
    else:
      yield from _named(field, value[position])


def build_apply(
    finalize: Callable[..., Any], measure: Optional[Callable[..., Any]],
    state_type: tff.Type, aggregated_type: tff.Type,
) -> tff.Computation:
  """Returns `apply`, see `process.Parts`."""

  result_type = aggregated_type['result']
  changed_type = tff.tensorflow.computation(
      lambda state, result: collections.OrderedDict(finalize(state, result)),
      state_type, result_type,
  ).type_signature.result
  _check_changed(changed_type, state_type)

  @traces.tensorflow_computation(state_type, aggregated_type)
  def apply_fn(state, aggregated):
    result, someone = aggregated['result'], aggregated['num_present'] > 0
    changed = collections.OrderedDict(finalize(state, result))
    changed['aggregator'] = aggregated['state']
    # Without participants there is no step: an optimizer would still move by
    # its momentum, and an adaptive aggregator by zeros that nobody sent.
    changed = _if(
        someone, changed, {name: state[name] for name in changed}
    )
    metrics = [aggregated['metrics']]
    if measure is not None:
      metrics.append(measure(state, result))
    return collections.OrderedDict(
        state=collections.OrderedDict(
            # The round counts even if nobody took part: the keys of all draws
            # depend on it and would otherwise repeat.
            state, **changed, round=state['round'] + 1
        ),
        metrics=round_metrics.joined(*metrics),
    )

  @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      tff.FederatedType(aggregated_type, tff.SERVER),
  )
  def apply(state, aggregated):
    return tff.federated_map(apply_fn, (state, aggregated))

  return apply


def _check_changed(changed_type, state_type) -> None:
  """Raises a TypeError if `finalize` returns a field that S does not have."""
  own = tff.structure.name_list(state_type)[3:]  # Not seed, round, aggregator.
  for name, found in tff.structure.iter_elements(changed_type):
    if name not in own:
      raise TypeError(
          f'`finalize` must return fields among {", ".join(own) or "none"},'
          f' found {name}.'
      )
    process.check_assignable(
        'finalize', f'field `{name}`', state_type[name], found
    )


def _if(condition, new, old):
  """Returns one of two structures of the same leaves; copies neither."""
  leaves = tf.cond(
      condition, lambda: tf.nest.flatten(new), lambda: tf.nest.flatten(old)
  )
  return tf.nest.pack_sequence_as(new, leaves)
