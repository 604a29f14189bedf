"""Finds the fastest schedules by timing, for the strategy `measured`."""

import time
from typing import Callable, Optional, Sequence

from absl import logging
import tensorflow as tf

from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused import stages

# Below this, times vary more than strategies differ.
_SECONDS_WORTH_A_CHOICE = 0.002
# On a CPU, clients that take longer are bound by arithmetic, which no strategy
# speeds up; FLoRAL's tasks (5 ms a client) take twice as long vectorized.
_SECONDS_OF_ARITHMETIC = 0.001
# Time limit of measuring one schedule.
_SECONDS_OF_MEASURING = 1.0
_MEASURED_CALLS = 3
# A strategy this much slower with one client is not tried with all.
_HOPELESS = 3.0
# Another strategy must be this much faster, because measurements vary.
_CLEARLY_FASTER = 0.8


def fastest(
    program: stages.Program,
    make_trace: Callable[[Sequence], schedule_lib.Trace],
    tensors: Sequence[tf.Tensor], has_gpu: bool,
) -> schedule_lib.Trace:
  """Returns a trace of loops, or a faster one; stages are varied in turn.

  The first of the tensors, the arguments of a trace, is the number of clients.
  `make_trace` takes schedules, one per stage.
  """
  best = make_trace(schedule_lib.loops(len(program.stages)))
  if not any(_candidates(program, s, has_gpu, 0.0) for s in program.stages):
    return best
  seconds = _seconds(best, tensors)
  if seconds is None or seconds < _SECONDS_WORTH_A_CHOICE:
    return best
  loop_seconds = seconds
  per_client = seconds / int(tensors[0])
  for number, stage in enumerate(program.stages):
    for strategy in _candidates(program, stage, has_gpu, per_client):
      schedules = list(best.schedules)
      schedules[number] = schedule_lib.Schedule(strategy)
      trace, now = _try(make_trace, tensors, schedules, best)
      if trace is not None and now is not None and (
          now < _CLEARLY_FASTER * seconds
      ):
        best, seconds = trace, now
  logging.info(
      'A computation of %d stages runs with %s: %.4f s, %.4f s in loops.',
      len(best.schedules), schedule_lib.text(best.schedules), seconds,
      loop_seconds,
  )
  return best


def _candidates(program, stage, has_gpu, seconds_per_client) -> list:
  """Returns the strategies that may be faster than a loop."""
  graphs = program.graphs_at_clients(stage)
  if not graphs or any(graph.is_stateful for graph in graphs):
    return []
  if has_gpu:
    # XLA drops assertions, which must fail as in other strategies.
    asserts = any('Assert' in graph.operations for graph in graphs)
    return ['vectorized'] if asserts else ['vectorized', 'xla']
  if any(graph.has_convolutions for graph in graphs):
    return []  # On a CPU both are slower, XLA by a factor of 50.
  if seconds_per_client > _SECONDS_OF_ARITHMETIC:
    return []
  return ['vectorized']  # On a CPU, XLA compiles a round for a minute.


def _try(
    make_trace, tensors, schedules, best
) -> tuple[Optional[schedule_lib.Trace], Optional[float]]:
  """Returns (the trace, its seconds), or (None, None) if it is no use.

  One client is tried first: XLA may take a hundred times longer.
  """
  alone = [tf.ones_like(tensors[0]), *tensors[1:]]
  try:
    trace = make_trace(schedules)
    seconds = _seconds(trace, alone, num_calls=1)
    usual = _seconds(best, alone, num_calls=1)
    if seconds is None or usual is None or seconds > _HOPELESS * usual:
      return None, None
    return trace, _seconds(trace, tensors)
  except Exception as reason:  # pylint: disable=broad-except  TF has many.
    logging.info(
        '%s is not possible: %s', schedule_lib.text(schedules), reason
    )
    return None, None


def _seconds(trace, tensors, num_calls=_MEASURED_CALLS) -> Optional[float]:
  """Returns the seconds of a call, or None if memory runs out."""
  seconds = []
  try:
    for _ in range(1 + num_calls):
      start = time.perf_counter()
      trace.function(*tensors)
      # A call returns before the devices have finished.
      tf.test.experimental.sync_devices()
      seconds.append(time.perf_counter() - start)
      if sum(seconds[1:]) > _SECONDS_OF_MEASURING:
        break
  except tf.errors.ResourceExhaustedError:
    return None
  return min(seconds[1:])
