"""The fused runtime: a whole round as one TensorFlow function.

An execution context of TFF in this process: every computation is compiled to
one `tf.function` per layout of its argument, and runs on CPU or GPU without a
second process or serialization. A computation that cannot be fused runs on the
native runtime, which is logged once.
"""

import asyncio
import os
import threading
from typing import Any, Callable, Optional, Sequence, Union
import weakref

from absl import logging
# Not exported by TFF: values that it puts into executors.
from tensorflow_federated.python.core.impl.executors import ingestable_base

from tff_pers.runtime import context
from tff_pers.runtime import errors
from tff_pers.runtime import executor as executor_lib
from tff_pers.runtime.fused import choices as choices_lib
from tff_pers.runtime.fused import choosing
from tff_pers.runtime.fused import compiled
from tff_pers.runtime.fused import devices
from tff_pers.runtime.fused import disk
from tff_pers.runtime.fused.graphs import number_variables
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime import native
from tff_pers import tff

STRATEGIES = (*choosing.CHOOSE, *schedule_lib.STRATEGIES, 'debug')


def use(
    device: Optional[str] = None,
    *,
    strategy: str = 'auto',
    choices: Union[str, os.PathLike, None] = None,
    tf32: bool = False,
    deterministic: bool = False,
    asynchronous: bool = False,
    again: bool = False,
    compile_cache: Union[str, os.PathLike, None] = None,
) -> context.Installed:
  """Installs the fused runtime as TFF's default context.

  Args:
    device: `cpu`, `gpu` (all of them, which share the clients of a cohort),
      `gpu:1`; None for the GPUs if there are any, else the CPU.
    strategy: How to run the clients of a computation, see `schedule`; `auto`
      chooses by a rule from shapes, `measured` times the strategies in the
      first round, `debug` executes step by step, so that errors name the place.
    choices: JSON file of the choices of `auto` and `measured`; choices in it
      are not made again, so that results are bit-identical.
    tf32: Whether a GPU may round the factors of float32 products, see
      `devices.prepare`.
    deterministic: Whether results on a GPU must be bit-identical, see
      `devices.prepare`.
    asynchronous: Whether calls return coroutines, as `tff.program` expects.
    again: Whether to reuse a fused runtime that is TFF's context already, if it
      has the same options: compiled code stays, data of cohorts do not. Choices
      are made again as in a new runtime; only what differs is recompiled.
    compile_cache: Folder that keeps compiled computations for later processes,
      see `kept`; it must be of this user alone. None keeps none.

  Returns:
    The installed runtime, a context manager.

  Raises:
    ValueError: If an argument is invalid, or there is no such device.
  """
  if strategy not in STRATEGIES:
    raise ValueError(
        f'`strategy` must be one of {", ".join(STRATEGIES)}, found'
        f' {strategy!r}.'
    )
  found = devices.find(device)
  devices.prepare(found, tf32=tf32, deterministic=deterministic)
  kind: Any = AsyncFusedContext if asynchronous else FusedContext
  folder = None if compile_cache is None else os.fspath(compile_cache)
  options = (found, strategy, tf32, deterministic, folder)
  kept = choices_lib.Choices(choices)
  current: Any = tff.framework.get_context_stack().current
  if again and isinstance(current, kind) and (
      current.executor.options == options
  ):
    current.executor.record_in(kept)
    return context.Installed(current)
  return context.Installed(kind(Executor(
      found, strategy, kept, options,
      None if folder is None else disk.Folder(folder),
  )))


class Executor:
  """Compiles and runs computations; one call at a time.

  Attributes:
    options: The options of `use`.
    reads_numbers: Whether numbers may be inputs, see `number_inputs`.
    folder: What keeps compiled computations, or None.
  """

  def __init__(
      self,
      device_names: Sequence[str],
      strategy: str,
      choices: choices_lib.Choices,
      options: Any = None,
      folder: Optional[disk.Folder] = None,
  ):
    self.options = options
    # A GPU would copy each number from the host where it is read.
    self.reads_numbers = strategy != 'debug' and not devices.has_gpu(
        device_names
    )
    self._compiler = compiled.Compiler(
        device_names, strategy, choices, folder
    )
    self.folder = self._compiler.folder
    # By id: TFF considers computations with other containers equal, and
    # serializes them to compare.
    self._compiled: dict[Any, Callable[[Any], Any]] = {}
    self._native: set[int] = set()
    self._lock = threading.RLock()

  def record_in(self, choices: choices_lib.Choices) -> None:
    """Makes choices again, and stores them in `choices`."""
    with self._lock:
      self._compiler.choices = choices
      self._compiler.converter.start_anew()

  def invoke(self, computation: tff.Computation, argument: Any) -> Any:
    """Returns the result of a call."""
    with self._lock:
      if id(computation) not in self._native:
        try:
          with errors.named(computation):
            return self._find(computation)(argument)
        except sequences.Unsupported as reason:
          logging.warning(
              'A computation of type %s runs on the native runtime: %s',
              computation.type_signature.compact_representation(), reason,
          )
          number_variables.fix_all(computation)
          self._native.add(id(computation))
          weakref.finalize(computation, self._native.discard, id(computation))
      return native.get_context().invoke(computation, argument)

  def _find(self, computation):
    """Returns the compiled computation."""
    key = id(computation)
    if key not in self._compiled:
      self._compiled[key] = self._compiler.compile(computation)
      weakref.finalize(computation, self._compiled.pop, key, None)
    return self._compiled[key]


class FusedContext(tff.framework.SyncContext):
  """TFF's context for direct calls."""

  def __init__(self, executor: Executor):
    self.executor = executor

  def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Returns the result of a computation; TFF calls this.

    Raises:
      errors.ComputationError: If one of its operations fails.
    """
    return self.executor.invoke(comp, arg)


class AsyncFusedContext(tff.framework.AsyncExecutionContext):
  """TFF's context for `tff.program`: calls are coroutines.

  `tff.program` requires this class of contexts, and data sources that prefetch
  put values into its executor before they become arguments.
  """

  def __init__(self, executor: Executor):
    super().__init__(tff.framework.ResourceManagingExecutorFactory(
        lambda sizes: executor_lib.HoldingExecutor(executor.invoke)
    ))
    self.executor = executor

  async def invoke(self, comp, arg):
    """Returns the result of a computation, run in a thread; TFF awaits this.

    The argument may be a coroutine that returns it.

    Raises:
      errors.ComputationError: If one of its operations fails.
    """
    if asyncio.iscoroutine(arg):
      arg = await arg
    arg = await self._taken_out(arg)
    return await asyncio.get_running_loop().run_in_executor(
        None, self.executor.invoke, comp, arg
    )

  async def _taken_out(self, value):
    """Returns `value` with values held by TFF's executor as Python values."""
    if isinstance(value, ingestable_base.Ingestable):
      held = await value.ingest(self.executor_factory.create_executor({}))
      return await held.compute()
    if isinstance(value, tff.structure.Struct):
      return tff.structure.Struct([
          (name, await self._taken_out(part))
          for name, part in tff.structure.to_elements(value)
      ])
    return value
