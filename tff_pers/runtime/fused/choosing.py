"""Chooses the execution strategy for the clients of each stage.

A strategy that the user asks for is used wherever possible. `auto` decides by a
rule from shapes and graphs, so that two runs with the same seed decide alike;
`measured` decides by timing, see `measuring`.
"""

import functools
from typing import Any, Callable, Sequence

from absl import logging
import numpy as np
import tensorflow as tf

from tff_pers.runtime.fused import measuring
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused import stages
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import serialized
from tff_pers import tff

CHOOSE = ('auto', 'measured')
# On a CPU, running all clients' operations as one saves TensorFlow's overhead
# for starting each of them. That pays with many clients (100 with 8 KB each
# take half the time; 1000 a sixth), and is a loss with large clients (100 with
# 300 KB each take 3.7 times as long).
_MANY_CLIENTS = 100
_SMALL_CLIENT_BYTES = 2**14
# Clients that send factors of matrices do not own a matrix. Vectorized, their
# products with the shared matrix become one product, and so do the products of
# factors; but in parts, because all their factors are in memory together.
_SOME_CLIENTS = 32


class Chooser:
  """Chooses the schedules of one computation.

  Attributes:
    has_narrowed: Whether a stage loops because another schedule has failed.
  """

  def __init__(
      self,
      program: stages.Program,
      strategy: str,
      has_gpu: bool,
      make_trace: Callable[[Any, Sequence], schedule_lib.Trace],
  ):
    """Initializes the chooser for one of `CHOOSE` or `schedule.STRATEGIES`.

    `make_trace` makes a trace for an argument's layout and schedules, one per
    stage.
    """
    self._program = program
    self._strategy = strategy
    self._has_gpu = has_gpu
    self._make_trace = make_trace
    self.has_narrowed = False

  def choose(
      self, argument_layout: Any, tensors: Sequence[tf.Tensor]
  ) -> schedule_lib.Trace:
    """Returns the trace that is used from now on.

    The first of the tensors, the arguments of a trace, is the number of
    clients, > 0.
    """
    loops = self.loops()
    if self._strategy not in CHOOSE:
      schedules = [schedule_lib.Schedule(self._strategy)] * len(loops)
      return self._possible(
          argument_layout, tensors, schedules, logging.warning
      )
    if not self._may_differ(argument_layout):
      return self._make_trace(argument_layout, loops)
    if self._strategy == 'auto':
      schedules = self._by_rule(argument_layout, tensors)
      return self._possible(argument_layout, tensors, schedules, logging.info)
    return measuring.fastest(
        self._program, functools.partial(self._make_trace, argument_layout),
        tensors, self._has_gpu,
    )

  def loops(self) -> list:
    """Returns the schedules that are always possible."""
    return schedule_lib.loops(len(self._program.stages))

  def _may_differ(self, argument_layout) -> bool:
    """Returns whether there is a choice at all."""
    if any(
        isinstance(leaf, (layout.Packed, layout.Varying, serialized.Serialized))
        for leaf in layout.leaves(argument_layout)
    ):
      # Shapes differ, or each client reads a data set: no vectorizing.
      return False
    # Otherwise other calls may see the effects of a trial.
    return self._program.evaluator.is_private

  def _by_rule(self, argument_layout, tensors) -> list:
    """Returns the schedules that the rule derives from shapes and graphs."""
    num_clients = int(tensors[0])
    data = sum(
        _num_bytes(tensor.shape, tensor.dtype)
        for leaf, tensor in zip(layout.leaves(argument_layout), tensors[1:])
        if isinstance(leaf, layout.Stacked)
    )
    return [
        self._schedule(stage, num_clients, data / num_clients)
        for stage in self._program.stages
    ]

  def _schedule(self, stage, num_clients, data_bytes) -> schedule_lib.Schedule:
    """Returns the schedule of a stage by the rule."""
    if self._pays(stage, num_clients, data_bytes):
      return schedule_lib.Schedule('vectorized')
    if num_clients >= _SOME_CLIENTS and self._sends_factors(stage):
      return schedule_lib.Schedule('vectorized', _SOME_CLIENTS)
    return schedule_lib.Schedule('loop')

  def _sends_factors(self, stage) -> bool:
    """Whether clients send factors whose products are added up."""
    graphs = self._program.graphs_at_clients(stage)
    if any(g.is_stateful or g.has_convolutions for g in graphs):
      return False
    return any(
        self._program.adds_products(binding) for binding in stage.aggregates
    )

  def _pays(self, stage, num_clients, data_bytes) -> bool:
    """Whether clients should run together in a stage."""
    graphs = self._program.graphs_at_clients(stage)
    if not graphs or any(g.is_stateful for g in graphs):
      return False
    if self._has_gpu:
      return True  # Including convolutions, see `side_by_side`.
    if any(g.has_convolutions for g in graphs):
      return False
    size = max(data_bytes, *(_type_bytes(b.call) for b in stage.clients))
    return num_clients >= _MANY_CLIENTS and size <= _SMALL_CLIENT_BYTES

  def _possible(self, argument_layout, tensors, schedules, log):
    """Returns a trace of the schedules, with loops where one is impossible."""
    loops = self.loops()
    if schedules == loops:
      return self._make_trace(argument_layout, loops)
    try:
      return self._tried(argument_layout, tensors, schedules)
    except Exception as reason:  # pylint: disable=broad-except  TF has many.
      log('%s is not possible: %s', schedule_lib.text(schedules), reason)
    return self.narrowed(argument_layout, tensors, schedules, log)

  def narrowed(
      self, argument_layout: Any, tensors: Sequence[tf.Tensor],
      schedules: Sequence[schedule_lib.Schedule], log: Callable[..., None],
  ) -> schedule_lib.Trace:
    """Returns a trace in which stages that fail with their schedule are loops.

    Stages are tried one after another, because an error does not say to which
    of them it belongs. `log` takes a message, as `logging.info` does.

    Raises:
      Exception: An error that also occurs in a loop.
    """
    self.has_narrowed = True
    found = self._make_trace(argument_layout, self.loops())
    found.function(*tensors)
    for number, schedule in enumerate(schedules):
      trial = list(found.schedules)
      trial[number] = schedule
      if trial == found.schedules:
        continue
      try:
        found = self._tried(argument_layout, tensors, trial)
      except Exception as reason:  # pylint: disable=broad-except  As above.
        log('Clients run in a loop in stage %d: %s', number + 1, reason)
    return found

  def _tried(self, argument_layout, tensors, schedules):
    """Returns a trace of the schedules, or raises its error."""
    trace = self._make_trace(argument_layout, schedules)
    if self._program.evaluator.is_private:  # Else others may see the trial.
      try:
        trace.function(*tensors)
      except tf.errors.ResourceExhaustedError:
        pass  # It may work with fewer clients at once.
    return trace


def _type_bytes(call) -> int:
  """Returns the bytes of a client's arguments and results of a call.

  Dimensions that the types leave open belong to data, and are not counted.
  """
  return _of_type(call.type_signature) + (
      0 if call.argument is None else _of_type(call.argument.type_signature)
  )


def _of_type(part) -> int:
  if isinstance(part, tff.FederatedType):
    return _of_type(part.member)
  if isinstance(part, tff.StructType):
    return sum(_of_type(each) for each in part.children())
  if isinstance(part, tff.TensorType):
    shape = [None] if part.shape is None else part.shape
    return _num_bytes(shape, tf.as_dtype(part.dtype))
  return 0


def _num_bytes(shape, dtype) -> int:
  return int(np.prod([d or 0 for d in shape])) * dtype.size
