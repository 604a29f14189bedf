"""Represents a TFF computation as a straight line of calls.

TFF's compiler turns every computation into call-dominant form: a block of
bindings, each one call of an intrinsic (`federated_map`, `federated_aggregate`,
...) or of a TensorFlow graph, on results of earlier ones. Only this module
depends on TFF's compiler.
"""

import dataclasses
from typing import Optional

from tff_pers import tff
import typing_extensions
# TFF does not export its compiler.
from tensorflow_federated.python.core.environments.tensorflow_backend import tensorflow_tree_transformations
from tensorflow_federated.python.core.impl.compiler import tree_analysis

Block: typing_extensions.TypeAlias = tff.framework.ComputationBuildingBlock


@dataclasses.dataclass(frozen=True)
class Binding:
  """One step: later steps use `name` for the value of `call`."""

  name: str
  call: Block


@dataclasses.dataclass(frozen=True)
class Line:
  """A computation as a straight line.

  Attributes:
    parameter_name: Name that the bindings use for the argument, or None.
    parameter_type: Its TFF type, or None.
    bindings: The steps in order. Sums, means, minima and secure sums are
      replaced by their `federated_aggregate`. A step is a `tff.framework.Call`
      of an intrinsic or of a compiled computation.
    result: The result: references, selections, structs, or a constant.
  """

  parameter_name: Optional[str]
  parameter_type: Optional[tff.Type]
  bindings: tuple
  result: Block

  @property
  def result_type(self) -> tff.Type:
    """The TFF type of the result."""
    return self.result.type_signature


def from_computation(computation: tff.Computation) -> Line:
  """Compiles a TFF computation of zero or one parameters."""
  return from_block(tff.framework.to_call_dominant(lowered(computation)))


def lowered(computation: tff.Computation) -> Block:
  """Returns a computation whose only aggregation is `federated_aggregate`."""
  block = computation.to_building_block()
  if tree_analysis.contains(block, _is_secure):
    # TFF does this through another proto, which takes as long as the rest.
    block = tff.backends.test.replace_secure_intrinsics_with_bodies(
        computation
    ).to_building_block()
  block, _ = tensorflow_tree_transformations.replace_intrinsics_with_bodies(
      block
  )
  return block


def _is_secure(block):
  is_intrinsic = isinstance(block, tff.framework.Intrinsic)
  return is_intrinsic and block.uri.startswith('federated_secure_')


def from_block(block: Block) -> Line:
  """Returns a call-dominant block as a `Line`."""
  if isinstance(block, tff.framework.CompiledComputation):
    block = _called(block)
  name, parameter_type = None, None
  if isinstance(block, tff.framework.Lambda):
    name, parameter_type = block.parameter_name, block.parameter_type
    block = block.result
  bindings: tuple[Binding, ...] = ()
  if isinstance(block, tff.framework.Block):
    bindings = tuple(Binding(*local) for local in block.locals)
    block = block.result
  return Line(name, parameter_type, bindings, block)


def _called(compiled):
  """Returns a TensorFlow computation as a lambda that calls it."""
  parameter_type = compiled.type_signature.parameter
  name = None if parameter_type is None else 'argument'
  argument = name and tff.framework.Reference(name, parameter_type)
  call = tff.framework.Call(compiled, argument)
  result = tff.framework.Reference('result', call.type_signature)
  return tff.framework.Lambda(
      name, parameter_type, tff.framework.Block([('result', call)], result)
  )


def references(block: Block) -> set:
  """Returns the names that `block` uses but does not bind."""
  if isinstance(block, tff.framework.Reference):
    return {block.name}
  if isinstance(block, tff.framework.Selection):
    return references(block.source)
  if isinstance(block, tff.framework.Struct):
    return set().union(*(references(block[i]) for i in range(len(block))))
  if isinstance(block, tff.framework.Call):
    argument = set() if block.argument is None else references(block.argument)
    return references(block.function) | argument
  if isinstance(block, tff.framework.Lambda):
    return references(block.result) - {block.parameter_name}
  if isinstance(block, tff.framework.Block):
    free: set[str] = set()
    bound: set[str] = set()
    for name, value in block.locals:
      free |= references(value) - bound
      bound.add(name)
    return free | (references(block.result) - bound)
  return set()
