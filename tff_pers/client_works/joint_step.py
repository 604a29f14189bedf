"""A local step of several parts of a model, each with its own rate."""

import collections
import types
from typing import Any, Mapping, Sequence

import tensorflow as tf

from tff_pers.client_works import local_step


def start(
    local: local_step.LocalStep, parts: Mapping[str, Any],
    rates: Mapping[str, Any],
) -> dict[str, local_step.SgdState]:
  """Returns the states of parts that are trained jointly, by name.

  Args:
    local: The step of each part.
    parts: Weights by name.
    rates: Step sizes by name; a part whose rate is the number 0 is frozen.
  """
  frozen = lambda part: local_step.SgdState(part, ())
  return collections.OrderedDict(
      (name, (local.start if local_step.moves(rates[name]) else frozen)(part))
      for name, part in parts.items()
  )


def apply(
    local: local_step.LocalStep,
    states: Mapping[str, local_step.SgdState],
    gradients: Mapping[str, Any],
    rates: Mapping[str, Any],
    undecayed: Sequence[str] = (),
    unclipped: Sequence[str] = (),
    statistics: Mapping[str, tuple[bool, ...]] = types.MappingProxyType({}),
) -> dict[str, local_step.SgdState]:
  """Returns the states after a joint step: one norm, a rate for each part.

  A frozen part has no gradient (and does not count in the norm), no momentum
  and no weight decay.

  Args:
    local: The step; its norm limit applies to all parts together.
    states: See `start`.
    gradients: By name, each like its part; all taken at the same point.
    rates: See `start`.
    undecayed: Parts that are not weights of a model and do not decay.
    unclipped: Parts whose directions have no scale: they are not clipped
      and do not count in the norm.
    statistics: For parts with moving statistics, which leaves are statistics.
  """
  moving = [name for name in states if local_step.moves(rates[name])]
  # Frozen parts are removed before the norm is taken, because their gradients
  # would shorten the steps of the others.
  gradients = {name: gradients[name] for name in moving}
  if local.clip_norm:
    clipped = {n: g for n, g in gradients.items() if n not in unclipped}
    masks = {
        n: statistics.get(n) or tf.nest.map_structure(lambda _: False, g)
        for n, g in clipped.items()
    }
    gradients.update(
        local_step.clip(clipped, local.clip_norm, tuple(tf.nest.flatten(masks)))
    )
  after = collections.OrderedDict(states)
  for name in moving:
    # Without clip_norm, because the joint norm has been clipped above.
    step = local_step.LocalStep(
        local.momentum, 0.0 if name in undecayed else local.weight_decay,
        statistics=statistics.get(name, ()),
    )
    after[name] = step.apply(states[name], gradients[name], rates[name])
  return after
