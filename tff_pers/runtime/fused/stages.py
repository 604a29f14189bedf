"""Turns a computation into one traced TensorFlow function.

The bindings of a line are ordered in stages. In a stage, the server first
computes what it can; then one loop over the clients runs all their maps and
folds their messages. The next stage starts from the aggregates.
"""

import collections
import math
from typing import Any, Callable

from tff_pers.runtime.fused import adding
from tff_pers.runtime.fused import client_loop
from tff_pers.runtime.fused import evaluation
from tff_pers.runtime.fused import intrinsics
from tff_pers.runtime.fused.values import layout
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime.fused.values import structure
from tff_pers.runtime import line as line_lib
from tff_pers import tff


class Stage:
  """Bindings of one stage.

  Attributes:
    server: Bindings that the server computes first, in order.
    clients: Bindings at clients.
    aggregates: `federated_aggregate`s of values at clients in this stage.
    demands: Names of bindings at clients whose values later stages or the
      result need.
  """

  def __init__(self):
    self.server, self.clients, self.aggregates = [], [], []
    self.demands = []


class Program:
  """A line, ready to be traced.

  Attributes:
    line: The line.
    evaluator: Evaluates its blocks.
    stages: Its stages in order.
    passes: The largest number of passes of a graph over a data set; infinity if
      one is used in any other way, see `graphs.graph`.
  """

  def __init__(
      self,
      line: line_lib.Line,
      evaluator_class: Callable[..., evaluation.Evaluator] = evaluation.Evaluator,
  ):
    """Divides the line into stages.

    Raises:
      sequences.Unsupported: If the computation cannot be fused.
    """
    _check_result(line.result_type)
    self.line = line
    self.evaluator = evaluator_class(
        [*(b.call for b in line.bindings), line.result]
    )
    self.stages = self._staged()
    self.passes = math.inf if structure.has_sequence(line.result_type) else max(
        (graph.passes for graph in self.evaluator.graphs.values()), default=0
    )

  def graphs_at_clients(self, stage: Stage) -> list:
    """Returns the TensorFlow graphs that clients call in a stage."""
    return [
        graph
        for binding in stage.clients
        for graph in self.evaluator.graphs_of(binding.call)
    ]

  def adds_products(self, binding: line_lib.Binding) -> bool:
    """Whether an aggregation adds up products of what clients send."""
    accumulate = binding.call.argument[2]
    # Values of the line are unknown before it is traced.
    return not line_lib.references(accumulate) and adding.adds_products(
        self.evaluator.evaluate(accumulate, {}),
        accumulate.type_signature.parameter,
    )

  def _staged(self) -> list:
    """Returns the stages."""
    stages: dict[int, Stage] = collections.defaultdict(Stage)
    ready: dict[str, int] = {}
    self._lazy = {}
    for binding in self.line.bindings:
      needs = line_lib.references(binding.call)
      stage = max((ready.get(name, 0) for name in needs), default=0)
      ready[binding.name] = stage
      if _uri(binding.call) == intrinsics.AGGREGATE:
        stages[stage].aggregates.append(binding)
        ready[binding.name] = stage + 1
      elif not _is_at_clients(binding.call.type_signature):
        stages[stage].server.append(binding)
      else:
        stages[stage].clients.append(binding)
        self._lazy[binding.name] = binding
    for name, stage in self._used_later(ready).items():
      stages[stage].demands.append(name)
    return [stages[k] for k in range(max(stages, default=-1) + 1)]

  def _used_later(self, ready) -> dict:
    """Returns the stages that must collect the values of bindings, by name."""
    demands = {}

    def use(block, stage):
      for name in line_lib.references(block):
        if name not in self._lazy:
          continue
        binding = self._lazy[name]
        if structure.has_sequence(binding.call.type_signature):
          use(binding.call, stage)  # Evaluated again where it is used.
        elif stage is None or ready[name] < stage:
          demands[name] = ready[name]

    for binding in self.line.bindings:
      stage = ready[binding.name] - (_uri(binding.call) == intrinsics.AGGREGATE)
      use(binding.call, stage)
    use(self.line.result, None)
    return demands

  def trace(self, argument: Any, num_clients: Any, mapper: Callable) -> Any:
    """Adds the computation to the graph being traced; returns its result.

    That is nested tuples of tensors, `packing.Rows`, `packing.Pieces` and
    `sequences.Sequence`s. `argument` is what `layout` reads, `num_clients` an
    int32 scalar, and `mapper` runs the clients of a stage, see `mapping`.
    """
    self.evaluator.start()
    env = {}
    if self.line.parameter_name is not None:
      env[self.line.parameter_name] = layout.on_server(argument)
    for number, stage in enumerate(self.stages):
      for binding in stage.server:
        env[binding.name] = self.evaluator.evaluate(binding.call, env)
      if stage.aggregates or stage.demands:
        loop = client_loop.ClientLoop(
            self.evaluator, self._lazy, stage.demands, stage.aggregates, env
        )
        env.update(mapper(number, loop, num_clients))
    return self.evaluator.evaluate(self.line.result, env)


def _check_result(type_signature) -> None:
  """Raises sequences.Unsupported if clients return sequences."""
  if isinstance(type_signature, tff.StructType):
    for part in type_signature.children():
      _check_result(part)
  elif _is_at_clients(type_signature) and structure.has_sequence(type_signature):
    raise sequences.Unsupported('Sequences cannot be returned by clients.')


def _uri(call) -> str:
  function = call.function if isinstance(call, tff.framework.Call) else None
  return getattr(function, 'uri', '')


def _is_at_clients(type_signature) -> bool:
  return (
      isinstance(type_signature, tff.FederatedType)
      and type_signature.placement is tff.CLIENTS
      and not type_signature.all_equal
  )
