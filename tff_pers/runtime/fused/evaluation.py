"""Evaluates building blocks of TFF as Python functions of symbolic tensors."""

import itertools
from typing import Any, Iterable, Protocol

import tensorflow as tf

from tff_pers.runtime.fused.graphs import graph as graph_lib
from tff_pers.runtime.fused import intrinsics
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime import line as line_lib
from tff_pers import tff


class Scope(Protocol):
  """Values by name: a mapping, or an object that finds them on demand."""

  def __getitem__(self, name: str, /) -> Any:
    ...


class Evaluator:
  """Evaluates the blocks of one computation.

  Attributes:
    graphs: The TensorFlow graphs in the blocks, by `graph.key`.
    is_private: Whether no call of a graph can see the effects of another.
    has_races: Whether calls on a CPU must not overlap.
    is_traced: Whether blocks are put into a graph instead of being executed.
  """

  is_traced = True

  def __init__(self, blocks: Iterable[line_lib.Block]):
    """Loads the graphs of `blocks`.

    Raises:
      sequences.Unsupported: If a graph cannot be fused.
    """
    self._calls = itertools.count()
    self.graphs: dict[Any, Any] = {}
    for block in blocks:
      for key, compiled in graph_lib.collect(block).items():
        if key not in self.graphs:
          self.graphs[key] = graph_lib.Graph(
              compiled, lambda: f'call_{next(self._calls)}'
          )
    self.is_private = all(g.is_private for g in self.graphs.values())
    self.has_races = any(g.has_races for g in self.graphs.values())

  def start(self) -> None:
    """Begins a trace; its calls get the same names in every trace."""
    self._calls = itertools.count()

  def graphs_of(self, block: line_lib.Block) -> list:
    """Returns the graphs that `block` calls."""
    return [self.graphs[key] for key in graph_lib.collect(block)]

  def evaluate(self, block: line_lib.Block, env: Scope) -> Any:
    """Returns the value of `block`; functions become Python functions.

    `env` has the values of its free names.

    Raises:
      sequences.Unsupported: If the fused runtime does not know the block.
    """
    if isinstance(block, tff.framework.Reference):
      return env[block.name]
    if isinstance(block, tff.framework.Selection):
      return self.evaluate(block.source, env)[block.as_index()]
    if isinstance(block, tff.framework.Struct):
      return tuple(self.evaluate(block[i], env) for i in range(len(block)))
    if isinstance(block, tff.framework.Call):
      function = self.evaluate(block.function, env)
      if block.argument is None:
        return function()
      return function(self.evaluate(block.argument, env))
    if isinstance(block, tff.framework.Lambda):
      return lambda *a: self.evaluate(
          block.result,
          _Scope({block.parameter_name: a[0]} if a else {}, env),
      )
    if isinstance(block, tff.framework.Block):
      scope = _Scope({}, env)
      for name, value in block.locals:
        scope.names[name] = self.evaluate(value, scope)
      return self.evaluate(block.result, scope)
    if isinstance(block, tff.framework.CompiledComputation):
      return self.graphs[graph_lib.key(block)]
    if isinstance(block, tff.framework.Intrinsic):
      return intrinsics.function(block)
    if isinstance(block, tff.framework.Literal):
      return tf.constant(block.value, block.type_signature.dtype)
    raise sequences.Unsupported(
        f'The fused runtime does not know {type(block).__name__}.'
    )


class _Scope:
  """Names bound inside a function or block, which hide outer ones."""

  def __init__(self, names, outer):
    self.names, self.outer = names, outer

  def __getitem__(self, name):
    return self.names[name] if name in self.names else self.outer[name]
