"""TFF computations of an attacked aggregation.

A value is `<update, byzantine, index, place>`, see `aggregation.attacked`.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf

from tff_pers.aggregators import shuffling
from tff_pers.aggregators import vectors
from tff_pers.attacks import attack as attack_lib
from tff_pers.core import random
from tff_pers.core import round_metrics
from tff_pers import tff

# Number of messages that collecting is optimized for; more are slower.
EXPECTED = 128


def build_update(value_type: tff.Type) -> tff.Computation:
  """Returns (value -> update)."""
  return tff.tensorflow.computation(lambda value: value['update'], value_type)


def build_form(factory: Any, value_type: tff.Type) -> tff.Computation:
  """Returns (value -> value), with the update in the server's form."""
  form = factory.build_form(value_type['update'])
  return tff.tensorflow.computation(
      lambda value: collections.OrderedDict(
          value, update=form(value['update'])
      ),
      value_type,
  )


def check_update(attack: attack_lib.Attack, update_type: tff.Type) -> None:
  """Raises a TypeError if the update cannot be attacked."""
  if vectors.dtype(update_type) is None:
    raise TypeError(
        'An update must have a floating tensor to be attacked, found'
        f' {update_type}.'
    )
  if attack.is_omniscient and vectors.width(update_type) is None:
    raise TypeError(
        f'The attack {attack.name} must see messages of known shapes, found'
        f' {update_type}.'
    )


def build_start(
    attack: attack_lib.Attack, value_type: tff.Type, window: int
) -> tff.Computation:
  """Returns ( -> <own, seen>), the initial memory of attackers.

  `seen` are the last `window` messages, () without one; those of index -1 are
  empty.
  """
  update_type = value_type['update']
  dim, dtype = vectors.width(update_type), vectors.dtype(update_type)

  @tff.tensorflow.computation
  def start():
    seen: Any = ()
    if window and attack.is_omniscient:
      seen = collections.OrderedDict(
          byzantine=tf.zeros([window], tf.bool), index=tf.fill([window], -1),
          message=tf.zeros([window, dim], dtype),
      )
    return collections.OrderedDict(own=attack.start(dim, dtype), seen=seen)

  return start


def build_collect(
    attack: attack_lib.Attack, value_type: tff.Type, weight_type: tff.Type
) -> tff.Computation:
  """Returns ({value}, {weight} -> rows@SERVER), the messages of a round.

  Only finite messages of clients with weight > 0 are collected; without
  omniscience the result is ().
  """
  clients = [
      tff.FederatedType(member, tff.CLIENTS)
      for member in (value_type, weight_type)
  ]
  if not attack.is_omniscient:
    return tff.federated_computation(
        lambda value, weight: tff.federated_value((), tff.SERVER), *clients
    )
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

  rows = shuffling.RowCollectionFactory(EXPECTED).create(
      as_row.type_signature.result
  )

  @tff.federated_computation(*clients)
  def collect(value, weight):
    row = tff.federated_map(as_row, (value, weight))
    return rows.next(rows.initialize(), row).result

  return collect


def build_plan(
    attack: attack_lib.Attack, rule: Any, memory_type: tff.Type,
    rows_type: tff.Type,
) -> tff.Computation:
  """Returns (seed, round, memory, rows -> <memory, order>).

  The order is passed to every attacker; without omniscience rows are ().
  """
  key_type = tff.TensorType(np.int64, [2])

  @tff.tensorflow.computation(key_type, np.int32, memory_type, rows_type)
  def plan(seed, round_num, memory, rows):
    key, before = random.fold_in(seed, round_num), memory['seen']
    if before:
      rows = tf.nest.map_structure(
          lambda old, new: tf.ensure_shape(
              tf.concat([old, new], axis=0)[-old.shape[0]:], old.shape
          ), before, rows,
      )
    seen = _seen(rows, rule) if attack.is_omniscient else None
    own, made = attack.plan(memory['own'], seen, key)
    return collections.OrderedDict(
        memory=collections.OrderedDict(own=own, seen=rows if before else ()),
        order=collections.OrderedDict(key=key, plan=made),
    )

  return plan


def _seen(rows, rule) -> attack_lib.Seen:
  """Returns what attackers see in the collected messages."""
  byzantine = rows['byzantine']
  honest = tf.logical_and(rows['index'] >= 0, tf.logical_not(byzantine))
  return attack_lib.Seen(
      honest=tf.boolean_mask(rows['message'], honest),
      indices=tf.boolean_mask(rows['index'], honest),
      own=tf.boolean_mask(rows['message'], byzantine),
      rule=rule,
  )


def build_send(
    attack: attack_lib.Attack, value_type: tff.Type, weight_type: tff.Type,
    order_type: tff.Type, *, screens: bool,
) -> tff.Computation:
  """Returns (value, weight, order -> <update, weight, refused>).

  It replaces the message of an attacker, and screens all messages: with
  `screens` only finite messages are let in. `refused` is int32[1], the index of
  a client whose message was not finite, else -1.
  """
  wide = vectors.dtype(value_type['update'])

  @tff.tensorflow.computation(value_type, weight_type, order_type)
  def send(value, weight, order):
    own, index = value['update'], value['index']
    sender = attack_lib.Sender(index, value['place'])
    present = tf.reduce_any(weight > 0)
    # An absent client sends nothing, not even an attack.
    attacks = tf.logical_and(value['byzantine'], present)

    def bad():
      message = attack.message(
          vectors.flatten(own, wide), order['plan'],
          random.fold_in(order['key'], index), sender,
      )
      return vectors.unflatten(message, own)

    update = tf.cond(attacks, bad, lambda: own)
    if attack.is_silent:
      leaves = tf.logical_and(attacks, attack.is_absent(sender))
      weight = tf.where(leaves, tf.zeros_like(weight), weight)
    finite = round_metrics.all_finite(update)
    # Also zero the update, because 0 times NaN is NaN.
    update, weight = tf.cond(
        tf.logical_or(finite, not screens),
        lambda: (update, weight),
        lambda: tf.nest.map_structure(tf.zeros_like, (update, weight)),
    )
    is_refused = tf.logical_and(present, tf.logical_not(finite))
    return collections.OrderedDict(
        update=update, weight=weight,
        # Of fixed shape, so that clients can be vectorized.
        refused=tf.where(is_refused, index, -1)[None],
    )

  return send


def build_measure(inner_type: tff.Type) -> tff.Computation:
  """Returns (inner measurements, `refused` of all, number of messages -> M)."""

  @tff.tensorflow.computation(
      inner_type, tff.TensorType(np.int32, [None]), np.int32
  )
  def measure(inner, refused, num_messages):
    fields = collections.OrderedDict(
        inner if hasattr(inner, 'items') else
        dict(inner=inner) if tff.structure.flatten(inner_type) else {}
    )
    nobody = tf.cast(tf.equal(num_messages, 0), tf.int32)
    refused = tf.boolean_mask(refused, refused >= 0)
    fields.update(
        refused=refused, num_refused=tf.size(refused),
        impossible=fields.get('impossible', 0) + nobody,
    )
    return fields

  return measure
