"""The fused runtime: a whole round as one TensorFlow function.

An execution context of TFF in this process: every computation is compiled to
one `tf.function` per layout of its argument and run on CPU or GPU, without a
second process and without serialisation.
"""

import asyncio
import weakref

import tensorflow as tf
import tensorflow_federated as tff

from tff_pers.runtime import arguments
from tff_pers.runtime import context as context_lib
from tff_pers.runtime import line
from tff_pers.runtime import mapping
from tff_pers.runtime import stages

_CACHE_BYTES = 2 * 2**30


class Executor:
  """Runs computations."""

  def __init__(self, strategy='loop'):
    self._converter = arguments.Converter(_CACHE_BYTES)
    self._compiled = weakref.WeakKeyDictionary()
    self._strategy = strategy

  def invoke(self, computation, argument):
    compiled = self._compiled.get(computation)
    if compiled is None:
      compiled = _Compiled(computation, self._converter, self._strategy)
      self._compiled[computation] = compiled
    return compiled(argument)


class _Compiled:
  """A computation and its traced functions, by layout."""

  def __init__(self, computation, converter, strategy):
    self._type = computation.type_signature
    self._program = stages.Program(line.from_computation(computation))
    self._converter = converter
    self._traces = {}
    self._strategy = strategy

  def __call__(self, argument):
    kind, tensors, cardinality = None, [], 0
    if self._type.parameter is not None:
      cardinality = tff.framework.merge_cardinalities(
          {}, _cardinalities(argument, self._type.parameter)
      ).get(tff.CLIENTS, 0)
      kind, tensors = self._converter.ingest(argument, self._type.parameter)
    key = (kind, cardinality > 0)
    if key not in self._traces:
      self._traces[key] = self._trace(kind, cardinality > 0)
    function, result = self._traces[key]
    outputs = function(tf.constant(cardinality), *tensors)
    return self._converter.export(
        iter(outputs), result, self._type.result, cardinality
    )

  def _trace(self, kind, has_clients):
    traced = []

    def mapper(number, loop, num_clients):
      del number
      if not has_clients:
        return mapping.empty(loop)
      return mapping.run(self._strategy, loop, num_clients)

    def run(num_clients, *tensors):
      argument = None if kind is None else kind.read(iter(tensors))
      result = self._program.trace(argument, num_clients, mapper)
      traced.append(result)
      return arguments.flat_result(result, self._type.result)

    specs = [] if kind is None else kind.specs
    function = tf.function(run, autograph=False).get_concrete_function(
        tf.TensorSpec([], tf.int32), *specs
    )
    return function, _skeleton(traced[-1])


def _skeleton(value):
  """Returns the structure of a traced result without its tensors."""
  if type(value) is tuple:  # pylint: disable=unidiomatic-typecheck
    return tuple(_skeleton(v) for v in value)
  if isinstance(value, tuple):
    return type(value)(*(None for _ in value))
  return None


def _cardinalities(value, type_signature):
  from tensorflow_federated.python.core.impl.executors import cardinalities_utils  # pylint: disable=g-import-not-at-top
  return cardinalities_utils.infer_cardinalities(value, type_signature)


class FusedContext(tff.framework.SyncContext):
  """TFF's context for direct calls."""

  def __init__(self, executor: Executor):
    self._executor = executor

  def invoke(self, comp, arg):
    return self._executor.invoke(comp, arg)


class AsyncFusedContext(tff.framework.AsyncContext):
  """TFF's context for `tff.program`."""

  def __init__(self, executor: Executor):
    self._executor = executor

  async def invoke(self, comp, arg):
    if asyncio.iscoroutine(arg):
      arg = await arg
    return self._executor.invoke(comp, arg)


def use(strategy='loop'):
  context = FusedContext(Executor(strategy))
  return context_lib.Installed(context)
