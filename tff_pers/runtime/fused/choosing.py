"""Who decides how the stages of a computation go over the clients.

A strategy that was asked for is taken wherever it is possible. `auto` decides
by a rule from shapes and graphs, so that two runs of one seed do the same;
`measured` by timing, see `measuring`.
"""

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
# On a CPU the operations of all clients as one save what TensorFlow spends on
# starting each of them: it shows where there are many clients (100 with 8 KB
# each: half the time; 1000: a sixth), and turns into a loss where clients are
# large (100 with 300 KB each: 3.7 times as long).
_MANY_CLIENTS = 100
_SMALL_CLIENT_BYTES = 2**14
# Clients that send factors of matrices own no matrix. Done together, their
# products with the shared one are one, and so are the products of factors; some
# at a time, because their factors have to be in memory together.
_SOME_CLIENTS = 32


class Chooser:
  """Chooses the schedules of one computation."""

  def __init__(
      self,
      program: stages.Program,
      strategy: str,
      has_gpu: bool,
      make_trace: Callable[[Any, Sequence], schedule_lib.Trace],
  ):
    """Initializes the chooser.

    Args:
      program: The computation.
      strategy: One of `CHOOSE` or `schedule.STRATEGIES`.
      has_gpu: Whether clients run on GPUs.
      make_trace: Makes a trace for an argument's layout and schedules, one per
        stage.
    """
    self._program = program
    self._strategy = strategy
    self._has_gpu = has_gpu
    self._make_trace = make_trace

  def choose(
      self, argument_layout: Any, tensors: Sequence[tf.Tensor]
  ) -> schedule_lib.Trace:
    """Returns the trace that is used from now on.

    Args:
      argument_layout: Layout of the argument.
      tensors: What a trace is called with; the first is the number of clients,
        > 0.
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
    make_trace = lambda schedules: self._make_trace(argument_layout, schedules)
    measurement = measuring.Measurement(
        self._program, make_trace, tensors, self._has_gpu
    )
    return measurement.fastest(make_trace(loops))

  def loops(self) -> list:
    """Returns the schedules that are always possible."""
    return schedule_lib.loops(len(self._program.stages))

  def _may_differ(self, argument_layout) -> bool:
    """Whether there is a choice at all."""
    if any(
        isinstance(leaf, (layout.Packed, layout.Varying, serialized.Serialized))
        for leaf in layout.leaves(argument_layout)
    ):
      # Shapes differ, or each reads a data set: clients cannot run together.
      return False
    # What a trial does may be seen elsewhere.
    return self._program.evaluator.is_private

  def _by_rule(self, argument_layout, tensors) -> list:
    """Returns the schedules that shapes and graphs speak for."""
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
      return True  # Convolutions, too, see `side_by_side`.
    if any(g.has_convolutions for g in graphs):
      return False
    size = max(data_bytes, *(_type_bytes(b.call) for b in stage.clients))
    return num_clients >= _MANY_CLIENTS and size <= _SMALL_CLIENT_BYTES

  def _possible(self, argument_layout, tensors, schedules, log):
    """Returns a trace of the schedules, or of those that are possible."""
    loops = self.loops()
    if schedules == loops:
      return self._make_trace(argument_layout, loops)
    try:
      return self._tried(argument_layout, tensors, schedules)
    except Exception as reason:  # pylint: disable=broad-except  TF's are many.
      log('%s is not possible: %s', schedule_lib.text(schedules), reason)
    return self.narrowed(argument_layout, tensors, schedules, log)

  def narrowed(
      self, argument_layout: Any, tensors: Sequence[tf.Tensor],
      schedules: Sequence[schedule_lib.Schedule], log: Callable[..., None],
  ) -> schedule_lib.Trace:
    """Returns a trace where stages that cannot run as they should are loops.

    Args:
      argument_layout: Layout of the argument.
      tensors: What it is called with, and its stages one after the other: an
        error does not say which of them it is of.
      schedules: Those that are not possible together.
      log: Takes a sentence, as `logging.info`.

    Raises:
      Exception: What a loop raises, too.
    """
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
    """Returns a trace of the schedules, or raises what it does."""
    trace = self._make_trace(argument_layout, schedules)
    if self._program.evaluator.is_private:  # Else a trial may be seen.
      try:
        trace.function(*tensors)
      except tf.errors.ResourceExhaustedError:
        pass  # Fewer clients at once may do.
    return trace


def _type_bytes(call) -> int:
  """Returns the bytes of what a client's call takes and returns.

  Dimensions that the types leave open are those of data.
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
