"""A computation as traced functions, and how fast they are."""

import collections
import hashlib
import time
from typing import Any, Sequence

from absl import logging
import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused.graphs import graph as graph_lib
from tff_pers.runtime.fused import mapping
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused import stages
from tff_pers.runtime.fused.values import arguments
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import results
from tff_pers.runtime import line as line_lib

# Data of cohorts that is kept on the device from round to round.
_CACHE_BYTES = 2 * 2**30
# Traces of a computation that are kept, one per layout of its argument.
_MAX_TRACES = 16
# Faster than this, a call is not worth a choice.
_SECONDS_WORTH_A_CHOICE = 0.05
# On a CPU, arithmetic takes the time of a client that needs longer, however it
# is ordered; vectorized, the tasks of FLoRAL (5 ms a client) take twice as long.
_SECONDS_OF_ARITHMETIC = 0.001
# Enough of measuring.
_SECONDS_OF_MEASURING = 1.0
_MEASURED_CALLS = 3
# Slower by this factor with one client, a strategy is not tried with all.
_HOPELESS = 3.0
# Another strategy has to be faster by this factor: measurements vary.
_CLEARLY_FASTER = 0.8


class Compiler:
  """Compiles computations for some devices."""

  def __init__(
      self,
      devices: Sequence[str],
      strategy: str,
      choices: choices_lib.Choices,
  ):
    self.devices = devices
    self.strategy = strategy
    self.choices = choices
    self.result_tensors = results.ResultTensors()
    self.converter = arguments.Converter(
        _CACHE_BYTES, devices[0], self.result_tensors
    )

  @property
  def has_gpu(self) -> bool:
    return any('GPU' in device for device in self.devices)

  def compile(self, computation: tff.Computation) -> 'Compiled':
    """Compiles a computation.

    Raises:
      sequences.Unsupported: If it cannot be fused.
    """
    return Compiled(computation, self)


class Compiled:
  """A computation and its traced functions, by the layout of the argument."""

  def __init__(self, computation: tff.Computation, compiler: Compiler):
    self._type = computation.type_signature
    self._compiler = compiler
    self._program = stages.Program(line_lib.from_computation(computation))
    self._traces = collections.OrderedDict()

  def __call__(self, argument: Any) -> Any:
    """Returns the result as Python values."""
    try:
      return self._call(argument)
    except (tf.errors.ResourceExhaustedError, tf.errors.InternalError) as error:
      if not _is_lack_of_memory(error):
        raise
      if not self._compiler.converter.hold_on_host():
        raise
      logging.warning(
          'Memory ran out; the data of cohorts stay in the memory of the host.'
      )
      return self._call(argument)

  def _call(self, argument):
    converter = self._compiler.converter
    argument_layout, tensors, num_clients = None, [], None
    if self._type.parameter is not None:
      num_clients = arguments.cohort_size(argument, self._type.parameter)
      argument_layout, tensors = converter.ingest(argument, self._type.parameter)
    count = num_clients or 0
    outputs, result = self._run(
        argument_layout, count > 0, [tf.constant(count), *tensors]
    )
    return results.export(
        iter(outputs), result, self._type.result, num_clients,
        self._compiler.result_tensors,
    )

  def _run(self, argument_layout, has_clients, tensors):
    """Runs the traced function, with fewer clients at once if memory lacks."""
    key = (argument_layout, has_clients)
    if key not in self._traces:
      self._traces[key] = self._choose(argument_layout, has_clients, tensors)
      if len(self._traces) > _MAX_TRACES:
        self._traces.popitem(last=False)
    self._traces.move_to_end(key)
    while True:
      schedules, function, result = self._traces[key]
      try:
        return function(*tensors), result
      except tf.errors.ResourceExhaustedError:
        self._compiler.converter.forget()
        schedules = _smaller(schedules, int(tensors[0]))
        if schedules is None:
          raise
        logging.warning(
            'Memory ran out; the round is repeated with %s.', _text(schedules)
        )
        self._compiler.choices.put(self._key(argument_layout), schedules)
        self._traces[key] = self._trace(argument_layout, has_clients, schedules)

  def _choose(self, argument_layout, has_clients, tensors):
    """Returns the trace that is used from now on."""
    count = len(self._program.stages)
    recorded = self._compiler.choices.get(self._key(argument_layout))
    if recorded is not None and len(recorded) == count and self._fits(recorded):
      return self._trace(argument_layout, has_clients, recorded)
    loop = [schedule_lib.Schedule('loop')] * count
    if self._compiler.strategy == 'loop' or not has_clients:
      return self._trace(argument_layout, has_clients, loop)
    if self._compiler.strategy != 'auto':
      return self._forced(argument_layout, tensors, loop)
    best = self._measured(argument_layout, tensors, self._trace(argument_layout, True, loop))
    self._compiler.choices.put(self._key(argument_layout), best[0])
    return best

  def _fits(self, schedules) -> bool:
    """Whether the schedules are of the strategy that was asked for."""
    strategy = self._compiler.strategy
    return strategy == 'auto' or all(s.strategy == strategy for s in schedules)

  def _forced(self, argument_layout, tensors, loop):
    """Returns a trace of the strategy asked for, or of a loop if that fails."""
    schedules = [schedule_lib.Schedule(self._compiler.strategy)] * len(loop)
    try:
      trace = self._trace(argument_layout, True, schedules)
      if self._program.evaluator.is_private:  # Else a trial may be seen elsewhere.
        trace[1](*tensors)
      return trace
    except tf.errors.ResourceExhaustedError:
      return trace  # Fewer clients at once may do.
    except Exception as reason:  # pylint: disable=broad-except  TF's are many.
      found = self._trace(argument_layout, True, loop)
      found[1](*tensors)  # Raises what is no matter of the strategy.
      logging.warning(
          '%s is not possible, clients run in a loop: %s', _text(schedules), reason
      )
      return found

  def _measured(self, argument_layout, tensors, best):
    """Returns the fastest trace; one stage after the other is varied."""
    if any(isinstance(part, layout.Packed) for part in _parts(argument_layout)):
      return best  # Shapes differ: clients cannot run together.
    if not self._program.evaluator.is_private:
      return best  # What a trial does may be seen elsewhere.
    if not any(self._candidates(s, 0.0) for s in self._program.stages):
      return best
    seconds = self._seconds(best, tensors)
    if seconds is None or seconds < _SECONDS_WORTH_A_CHOICE:
      return best
    loop_seconds = seconds
    per_client = seconds / int(tensors[0])
    for number, stage in enumerate(self._program.stages):
      for strategy in self._candidates(stage, per_client):
        schedules = list(best[0])
        schedules[number] = schedule_lib.Schedule(strategy)
        trace, now = self._try(argument_layout, schedules, tensors, best)
        if now is not None and now < _CLEARLY_FASTER * seconds:
          best, seconds = trace, now
    logging.info(
        'A computation of %d stages runs with %s: %.4f s, %.4f s in loops.',
        len(best[0]), _text(best[0]), seconds, loop_seconds,
    )
    return best

  def _candidates(self, stage, seconds_per_client) -> list:
    """Returns what may be faster than a loop."""
    used = [
        self._program.evaluator.graphs[key]
        for binding in stage.clients
        for key in graph_lib.collect(binding.call)
    ]
    if not used or any(graph.is_stateful for graph in used):
      return []
    if self._compiler.has_gpu:
      return ['vectorized', 'xla']
    if any(graph.has_convolutions for graph in used):
      return []  # On a CPU both are slower, XLA by a factor of 50.
    if seconds_per_client > _SECONDS_OF_ARITHMETIC:
      return []
    return ['vectorized']  # XLA compiles a CPU's round for a minute.

  def _try(self, argument_layout, schedules, tensors, best):
    """Returns (the trace, its seconds); None where it is no use.

    One client alone comes first: XLA may take a hundred times longer.
    """
    alone = [tf.ones_like(tensors[0]), *tensors[1:]]
    try:
      trace = self._trace(argument_layout, True, schedules)
      seconds = self._seconds(trace, alone, num_calls=1)
      if seconds > _HOPELESS * self._seconds(best, alone, num_calls=1):
        return None, None
      return trace, self._seconds(trace, tensors)
    except Exception as reason:  # pylint: disable=broad-except  TF's are many.
      logging.info('%s is not possible: %s', _text(schedules), reason)
      return None, None

  def _seconds(self, trace, tensors, num_calls=_MEASURED_CALLS):
    """Returns the seconds of a call, or None if memory lacks."""
    seconds = []
    try:
      for _ in range(1 + num_calls):
        start = time.perf_counter()
        outputs = trace[1](*tensors)
        if outputs and outputs[-1].dtype != tf.variant:
          outputs[-1].numpy()  # Waits for the device.
        seconds.append(time.perf_counter() - start)
        if sum(seconds[1:]) > _SECONDS_OF_MEASURING:
          break
    except tf.errors.ResourceExhaustedError:
      return None
    return min(seconds[1:])

  def _trace(self, argument_layout, has_clients, schedules):
    """Returns (schedules, the traced function, what its results stand for)."""
    traced = []
    devices = self._compiler.devices

    def mapper(number, loop, num_clients):
      if not has_clients:
        return mapping.empty(loop)
      return mapping.run(schedules[number], loop, num_clients, devices)

    def run(num_clients, *tensors):
      with tf.device(devices[0]):
        argument = None if argument_layout is None else argument_layout.read(iter(tensors))
        result = self._program.trace(argument, num_clients, mapper)
        traced.append(result)
        return results.flat(result, self._type.result)

    specs = [] if argument_layout is None else argument_layout.specs
    function = tf.function(run, autograph=False).get_concrete_function(
        tf.TensorSpec([], tf.int32), *specs
    )
    return schedules, function, results.skeleton(traced[-1])

  def _key(self, argument_layout) -> str:
    """Returns what names the computation in this and other processes."""
    text = [*self._compiler.devices]
    text += [self._type.compact_representation(), _names(argument_layout)]
    for binding in self._program.line.bindings:
      text.append(binding.call.type_signature.compact_representation())
      for key in graph_lib.collect(binding.call):
        text.append(' '.join(sorted(self._program.evaluator.graphs[key].operations)))
    return hashlib.sha256('\n'.join(text).encode()).hexdigest()[:16]


def _is_lack_of_memory(error) -> bool:
  """Also of a GPU that could not take a copy, which TensorFlow says oddly."""
  return (
      isinstance(error, tf.errors.ResourceExhaustedError)
      or 'Dst tensor is not initialized' in str(error)
  )


def _smaller(schedules, num_clients):
  """Returns schedules with about half as many clients at once, or None."""
  smaller = []
  for schedule in schedules:
    at_once = schedule.clients_at_once
    if schedule.strategy == 'vectorized':
      at_once = (at_once or num_clients) // 2
      schedule = schedule_lib.Schedule('vectorized', at_once) if at_once else schedule_lib.Schedule(
          'loop', 1
      )
    else:
      schedule = schedule_lib.Schedule(schedule.strategy, 1)
    smaller.append(schedule)
  return None if smaller == list(schedules) else smaller


def _text(schedules) -> str:
  return ', '.join(
      schedule.strategy
      + (f' ({schedule.clients_at_once} at once)' if schedule.clients_at_once else '')
      for schedule in schedules
  )


def _parts(argument_layout) -> list:
  """Returns the layouts of the tensors of an argument."""
  if isinstance(argument_layout, layout.Parts):
    return [leaf for part in argument_layout.parts for leaf in _parts(part)]
  return [] if argument_layout is None else [argument_layout]


def _names(argument_layout) -> str:
  return ' '.join(type(part).__name__ for part in _parts(argument_layout))
