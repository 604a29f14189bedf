"""Keeps computations as TensorFlow has optimized them, for later processes.

A process that runs the computation of an earlier one spares itself loading
TFF's graphs, tracing the round, and TensorFlow's optimizer. It executes the
very graph that was executed before, so that results are bit-identical.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
import os
import pathlib
import platform
import re
import sys
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence
import weakref

from absl import logging
import tensorflow as tf
# Not exported by TensorFlow: messages of functions, and the context that runs
# them.
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context as context_lib
from tensorflow.python.eager import execute
from tensorflow.python.framework import config as config_lib
from tensorflow.python.util import function_utils

import tff_pers
from tff_pers import number_inputs
from tff_pers.runtime.fused import disk
from tff_pers.runtime.fused.graphs import libraries
from tff_pers.runtime.fused.graphs import number_variables
from tff_pers.runtime.fused import schedule as schedule_lib
from tff_pers.runtime.fused.values import packing
from tff_pers import tff

_ENVIRONMENT = ('TF_', 'XLA_', 'DNNL_', 'ONEDNN_', 'OMP_')
_loads = itertools.count()
_IMPORTED = tff_pers._imported  # pylint: disable=protected-access
_ROOT = pathlib.Path(__file__).parents[3]
# What a compiled computation depends on, besides itself.
_RUNTIME = ('tff_pers/runtime', 'tff_pers/number_inputs.py')


class Program(NamedTuple):
  """What calls need to know of a computation, see `stages.Program`.

  Attributes:
    passes: The largest number of passes of a graph over a data set.
    num_stages: The number of its stages.
  """

  passes: float
  num_stages: int


class Kept:
  """What is kept of one computation, by what it depends on.

  Attributes:
    digest: What the computation computes, the same in all processes.
  """

  def __init__(
      self, folder: Optional[disk.Folder], proto: Any, devices: Sequence[str]
  ):
    """Finds out what it depends on; without a folder nothing is kept.

    `proto` is the computation, as TFF serializes it.
    """
    content = proto.SerializeToString(deterministic=True)
    self._folder = None
    with unless_it_fails():
      content, self._numbers = number_variables.numbered(
          libraries.canonical(proto)
      )
      if folder is not None and is_plain() and sources(*_RUNTIME):
        self._source = [*devices, process()]
        self._folder = folder
    self.digest = hashlib.sha256(content).hexdigest()

  def program(self) -> Optional[Program]:
    """Returns what is kept of `stages.Program`, or None."""
    return self._get(lambda entry: Program(**entry.description), 'program')

  def put_program(self, program: Program) -> None:
    """Keeps a program."""
    self._put(disk.Entry(program._asdict()), 'program')

  def schedules(self, *situation: Any) -> Optional[list]:
    """Returns the schedules that were chosen in a situation, or None."""
    return self._get(
        lambda entry: [
            schedule_lib.Schedule(**each)
            for each in entry.description['stages']
        ],
        'schedules', *situation,
    )

  def put_schedules(
      self, schedules: Sequence[schedule_lib.Schedule], *situation: Any
  ) -> None:
    """Keeps the schedules that were chosen in a situation."""
    chosen = [dataclasses.asdict(each) for each in schedules]
    self._put(disk.Entry(dict(stages=chosen)), 'schedules', *situation)

  def trace(
      self, schedules: Sequence[schedule_lib.Schedule], *situation: Any
  ) -> Optional[schedule_lib.Trace]:
    """Returns the trace of a computation with these schedules, or None."""
    return self._get(
        lambda entry: schedule_lib.Trace(
            schedules, _Loaded(entry, self._numbers),
            _meant(entry.description['result']),
        ),
        'trace', schedules, *situation,
    )

  def put_trace(self, trace: schedule_lib.Trace, *situation: Any) -> None:
    """Keeps a trace that was executed once, if it is `watched`."""
    if not isinstance(trace.function, _Watched):
      return
    graph = trace.function.taken()
    if graph is None:
      return
    with unless_it_fails():
      arguments, library = libraries.of_optimized(graph, 'round')
      for function in library.function:
        number_variables.name_by_place(function.node_def, self._numbers)
      description = dict(
          arguments=arguments, num_results=trace.function.num_results,
          result=_spelled(trace.result),
      )
      content = library.SerializeToString(deterministic=True)
      self._put(
          disk.Entry(description, content), 'trace', trace.schedules, *situation
      )

  def watched(self, function: Any) -> Any:
    """Returns a traced function such that `put_trace` can keep it."""
    if self._folder is None or function.captured_inputs:
      return function
    return _Watched(function)

  def _get(self, decoded: Callable[[disk.Entry], Any], *parts: Any) -> Any:
    """Returns what `decoded` makes of an entry, None without a valid one."""
    if self._folder is None:
      return None
    with unless_it_fails():
      entry = self._folder.get(self._key(parts))
      return entry and decoded(entry)
    return None

  def _put(self, entry, *parts) -> None:
    if self._folder is not None:
      self._folder.put(self._key(parts), entry)

  def _key(self, parts) -> str:
    known = repr([self.digest, self._source, *parts])
    return hashlib.sha256(known.encode()).hexdigest()


def is_plain() -> bool:
  """Whether no debugger of TensorFlow changes graphs while they are traced."""
  return not context_lib.context().op_callbacks


@contextlib.contextmanager
def unless_it_fails() -> Iterator[None]:
  """Tells an error in the log: what is kept only saves time."""
  try:
    yield
  except Exception as error:  # pylint: disable=broad-except
    logging.warning('A compiled computation is not kept: %r.', error)


class _Watched:
  """A traced function, of which the first call records the optimized graph."""

  def __init__(self, function: Any):
    self.num_results = len(function.outputs)
    self._function = function
    self._graph: Any = None
    self._is_new = True

  def __call__(self, *tensors):
    if not self._is_new:
      return self._function(*tensors)
    self._is_new = False
    context = context_lib.context()
    context.enable_graph_collection()
    try:
      outputs = self._function(*tensors)
      found = context.export_run_metadata().function_graphs
    finally:
      context.disable_graph_collection()
    # Other threads may have executed functions, too.
    mine = {node.name for node in self._function.function_def.node_def}
    if len(found) == 1 and mine <= {
        node.name for node in found[0].pre_optimization_graph.node
    }:
      self._graph = found[0].post_optimization_graph
    return outputs

  def taken(self) -> Any:
    """Returns the graph, and holds it no longer; None if it is not known."""
    graph, self._graph = self._graph, None
    return graph


class _Loaded:
  """A function that an earlier process has optimized."""

  def __init__(
      self, entry: disk.Entry, numbers: Sequence[number_inputs.NumberInput]
  ):
    self._arguments = entry.description['arguments']
    self._num_results = entry.description['num_results']
    library = function_pb2.FunctionDefLibrary.FromString(entry.content)
    # The process may have functions of the same names.
    number = next(_loads)
    names = {
        f.signature.name: f'{f.signature.name}_kept_{number}'
        for f in library.function
    }
    context = context_lib.context()
    for function in library.function:
      function.signature.name = self._name = names[function.signature.name]
      libraries.rename(function.node_def, names)
      number_variables.name_by_key(function.node_def, numbers)
      context.add_function_def(function)
      # At exit the context may be gone.
      weakref.finalize(self, context.remove_function, self._name).atexit = False

  def __call__(self, *tensors):
    config = function_utils.get_disabled_rewriter_config()
    return execute.execute(
        self._name, self._num_results, [tensors[k] for k in self._arguments],
        ('executor_type', '', 'config_proto', config), context_lib.context(),
    )


def _spelled(result: Any) -> Any:
  """Returns a `results.skeleton` as a value of JSON."""
  if isinstance(result, (packing.Rows, packing.Pieces)):
    return type(result).__name__
  return result and [_spelled(part) for part in result]


def _meant(spelled: Any) -> Any:
  """Returns the `results.skeleton` that `_spelled` was given."""
  if spelled == 'Rows':
    return packing.Rows(None)
  if spelled == 'Pieces':
    return packing.Pieces(None, None, None, None)
  return spelled and tuple(_meant(part) for part in spelled)


def process() -> tuple:
  """Returns what graphs of this process depend on, besides the computation."""
  settings = context_lib.context().config
  return (
      *_installation(), settings.SerializeToString(deterministic=True),
      config_lib.is_op_determinism_enabled(),
      sorted(x for x in os.environ.items() if x[0].startswith(_ENVIRONMENT)),
  )


@functools.cache
def _installation() -> tuple:
  """Returns the processor, versions and a digest of the runtime's sources."""
  processor: Any = platform.processor()
  with contextlib.suppress(OSError):
    with open('/proc/cpuinfo', encoding='utf-8') as file:
      first, _, _ = file.read().partition('\n\n')
    processor = re.findall('^(?:model name|flags|Features).*', first, re.M)
  return (
      platform.machine(), processor, os.cpu_count(), sys.version,
      tf.__version__, tf.version.GIT_VERSION, tff.__version__,
      sources(*_RUNTIME),
  )


@functools.cache
def sources(*parts: str) -> Optional[str]:
  """Returns a digest of our modules in some folders, or files.

  None if one has changed since it was imported: a later process, which imports
  what is there now, must not take it for what this process computes. None, too,
  if one cannot be read.
  """
  digest = hashlib.sha256()
  try:
    for path in (_ROOT / part for part in parts):
      for module in sorted(path.rglob('*.py')) if path.is_dir() else [path]:
        status = module.stat()
        # The second, since a copy may keep the time of the original.
        if max(status.st_mtime, status.st_ctime) > _IMPORTED:
          return None
        digest.update(f'{module.relative_to(_ROOT)} {status.st_size}'.encode())
        digest.update(module.read_bytes())
  except OSError:  # Editors keep broken links beside a file.
    return None
  return digest.hexdigest()
