"""Compiles a computation to traced functions."""

import collections
import contextlib
import functools
import hashlib
from typing import Any, Callable, Optional, Sequence

from absl import logging
import tensorflow as tf

from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused import choosing
from tff_pers.runtime.fused import debugging
from tff_pers.runtime.fused import devices as devices_lib
from tff_pers.runtime.fused import disk
from tff_pers.runtime.fused import kept as kept_lib
from tff_pers.runtime.fused import mapping
from tff_pers.runtime.fused import optimizer
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused import stages
from tff_pers.runtime.fused.values import arguments
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import results
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime import line as line_lib
from tff_pers import tff

# Bytes of cohorts' data that stay on the device from round to round.
_CACHE_BYTES = 2 * 2**30
# Traces kept per computation, one per layout of its argument.
_MAX_TRACES = 16


class Compiler:
  """Compiles computations for some devices."""

  def __init__(
      self,
      devices: Sequence[str],
      strategy: str,
      choices: choices_lib.Choices,
      folder: Optional[disk.Folder] = None,
  ):
    self.devices = devices
    self.has_gpu = devices_lib.has_gpu(devices)
    self.strategy = strategy
    self.choices = choices
    # What a GPU or XLA compiles is not in the graphs that TensorFlow shows, and
    # another process may measure other seconds.
    keeps = not self.has_gpu and strategy in ('auto', 'loop', 'vectorized')
    self.folder = folder if keeps else None
    self.optimizer: Callable[[], contextlib.AbstractContextManager[None]] = (
        optimizer.brief
    )
    if self.has_gpu:
      self.optimizer = contextlib.nullcontext
    self.result_tensors = results.ResultTensors(_CACHE_BYTES)
    self.converter = arguments.Converter(
        _CACHE_BYTES, devices[0], self.result_tensors
    )

  def compile(
      self, computation: tff.Computation
  ) -> Callable[[Any], Any]:
    """Returns a function of the computation's argument.

    Raises:
      sequences.Unsupported: If it cannot be fused.
    """
    with sequences.unsupported_if_it_fails():
      if self.strategy == 'debug':
        return debugging.Debugged(
            computation, self.devices[0], self.converter, self.result_tensors
        )
      return Compiled(computation, self)


class Compiled:
  """A computation and its traced functions, by the layout of the argument."""

  def __init__(self, computation: tff.Computation, compiler: Compiler):
    self._type = computation.type_signature
    self._proto = tff.framework.serialize_computation(computation)
    self._compiler = compiler
    self._kept = kept_lib.Kept(compiler.folder, self._proto, compiler.devices)
    self._known = self._kept.program() or self._describe()
    self._traces: collections.OrderedDict[Any, Any] = collections.OrderedDict()
    # The choices that the traces follow, and traces of earlier choices.
    self._choices = compiler.choices
    self._earlier: dict[Any, Any] = {}

  @functools.cached_property
  def _program(self) -> stages.Program:
    """The computation, which is not loaded if all it needs is kept."""
    # TFF's computation would never be freed if it were referenced here.
    computation = tff.framework.deserialize_computation(self._proto)
    return stages.Program(line_lib.from_computation(computation))

  def _describe(self) -> kept_lib.Program:
    """Returns what later processes need to know, and keeps it for them."""
    known = kept_lib.Program(self._program.passes, len(self._program.stages))
    self._kept.put_program(known)
    return known

  def __call__(self, argument: Any) -> Any:
    """Returns the result as Python values."""
    try:
      return self._call(argument)
    except (tf.errors.ResourceExhaustedError, tf.errors.InternalError) as error:
      # A GPU that cannot take a copy says so oddly.
      is_lack = isinstance(error, tf.errors.ResourceExhaustedError) or (
          'Dst tensor is not initialized' in str(error)
      )
      if not is_lack or not self._compiler.converter.hold_on_host():
        raise
      logging.warning(
          'Memory ran out; the data of cohorts stay in host memory.'
      )
      return self._call(argument)

  def _call(self, argument):
    argument_layout, tensors, num_clients = self._compiler.converter.ingest(
        argument, self._type.parameter, self._known.passes
    )
    with tf.device('/CPU:0'):  # The bound of loops must be on the host.
      count = tf.constant(num_clients or 0)
    # TensorFlow places results on the device of the caller, not on the one that
    # computed them.
    with tf.device(self._compiler.devices[0]), self._compiler.optimizer():
      outputs, result = self._run(
          argument_layout, bool(num_clients), [count, *tensors]
      )
    return results.export(
        iter(outputs), result, self._type.result, num_clients,
        self._compiler.result_tensors,
    )

  def _run(self, argument_layout, has_clients, tensors):
    """Runs the traced function, and again if memory or shapes require it."""
    if self._choices is not self._compiler.choices:
      self._choose_anew()
    key = (argument_layout, has_clients)
    is_new = key not in self._traces
    if is_new:
      self._traces[key] = self._choose(argument_layout, has_clients, tensors)
      if len(self._traces) > _MAX_TRACES:
        self._traces.popitem(last=False)
    self._traces.move_to_end(key)
    chosen = self._traces[key]
    while True:
      schedules, function, result = self._traces[key]
      try:
        outputs = function(*tensors)
        if is_new:
          self._record(argument_layout, has_clients)
        return outputs, result
      except tf.errors.ResourceExhaustedError:
        self._compiler.converter.forget()
        schedules = _smaller(schedules, int(tensors[0]))
        if schedules is None:
          raise
        logging.warning(
            'Memory ran out; the round is repeated with %s.',
            schedule_lib.text(schedules),
        )
        self._compiler.choices.put(self._key(argument_layout), schedules)
      except tf.errors.InvalidArgumentError as error:
        # Vectorized clients must send tensors of the same shapes, and whether
        # they do may differ from round to round.
        self._traces[key] = chosen  # A failed call leaves no trace behind.
        if not self._may_repeat(schedules):
          raise
        log = (
            logging.info if self._compiler.strategy in choosing.CHOOSE
            else logging.warning
        )
        log('What clients send differs in shape: %s', error)
        self._traces[key] = self._chooser().narrowed(
            argument_layout, tensors, schedules, log
        )
        is_new = True  # Is recorded if it works.
        continue
      self._traces[key] = self._trace(argument_layout, has_clients, schedules)

  def _may_repeat(self, schedules) -> bool:
    """Whether a failed round may be repeated in a loop, which nobody can see.

    An error that also occurs in a loop is not caused by the strategy.
    """
    return self._program.evaluator.is_private and any(
        schedule.strategy == 'vectorized' for schedule in schedules
    )

  def _choose_anew(self):
    """Drops the choices, but keeps the traces that were made for them."""
    self._choices = self._compiler.choices
    self._earlier = {
        (*key, tuple(trace.schedules)): trace
        for key, trace in self._traces.items()
    }
    self._traces.clear()

  def _choose(self, argument_layout, has_clients, tensors):
    """Returns the trace to use from now on."""
    recorded = self._compiler.choices.get(self._key(argument_layout))
    if recorded is not None and self._fits(recorded):
      return self._trace(argument_layout, has_clients, recorded)
    if not has_clients:
      loops = schedule_lib.loops(self._known.num_stages)
      return self._trace(argument_layout, False, loops)
    situation = (
        self._compiler.strategy, argument_layout, int(tensors[0]),
        [tensor.shape for tensor in tensors[1:]],
    )
    chosen = self._kept.schedules(*situation)
    if chosen is not None:
      return self._trace(argument_layout, True, chosen)
    chooser = self._chooser()
    trace = chooser.choose(argument_layout, tensors)
    if not chooser.has_narrowed:  # Then data may have decided, too.
      self._kept.put_schedules(trace.schedules, *situation)
    return trace

  def _chooser(self) -> choosing.Chooser:
    return choosing.Chooser(
        self._program, self._compiler.strategy, self._compiler.has_gpu,
        lambda *wanted: self._trace(wanted[0], True, wanted[1]),
    )

  def _record(self, argument_layout, has_clients):
    """Stores what was made, unless the call failed: that leaves nothing."""
    trace = self._traces[argument_layout, has_clients]
    self._kept.put_trace(trace, argument_layout, has_clients)
    if has_clients and self._compiler.strategy in choosing.CHOOSE:
      self._compiler.choices.put(self._key(argument_layout), trace.schedules)

  def _fits(self, schedules) -> bool:
    """Whether the schedules follow the requested strategy."""
    strategy = self._compiler.strategy
    return len(schedules) == self._known.num_stages and (
        strategy in choosing.CHOOSE
        or all(s.strategy == strategy for s in schedules)
    )

  def _trace(self, argument_layout, has_clients, schedules):
    """Returns (schedules, traced function, skeleton of its results).

    Raises:
      sequences.Unsupported: If it cannot be traced.
    """
    earlier = self._earlier.get(
        (argument_layout, has_clients, tuple(schedules))
    )
    if earlier is not None:
      return earlier
    kept = self._kept.trace(schedules, argument_layout, has_clients)
    if kept is not None:
      return kept
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
    with sequences.unsupported_if_it_fails():
      function = tf.function(run, autograph=False).get_concrete_function(
          tf.TensorSpec([], tf.int32), *specs
      )
    return schedule_lib.Trace(
        schedules, self._kept.watched(function), results.skeleton(traced[-1])
    )

  def _key(self, argument_layout) -> str:
    """Returns a name of the computation, the same in other processes."""
    kinds = [type(leaf).__name__ for leaf in layout.leaves(argument_layout)]
    text = ' '.join([*self._compiler.devices, *kinds, self._kept.digest])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _smaller(schedules, num_clients):
  """Returns schedules with about half as many clients at once, or None."""
  smaller = []
  for schedule in schedules:
    strategy, at_once = schedule.strategy, 1
    if strategy == 'vectorized':
      at_once = (schedule.clients_at_once or num_clients) // 2
      strategy = 'vectorized' if at_once else 'loop'
    smaller.append(schedule_lib.Schedule(strategy, at_once or 1))
  return None if smaller == list(schedules) else smaller
