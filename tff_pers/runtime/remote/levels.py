"""Splits a TFF computation into levels of server and worker steps.

Level L holds the steps of the straight line (see `line`) that follow L
aggregations of which each depends on the one before. In each level the server
computes first (reports of aggregates, values to send), then every worker
computes for its clients, up to one partial accumulator per aggregation:

    server : a <- report(merge(partials of level L - 1));  s <- f(a, ...)
    clients: v <- g(broadcast(s), ...);                    partial <- sum of v

A round of FedAvg has two levels, one with two dependent aggregations three.
"""

from typing import NamedTuple, Optional

from tensorflow_federated.proto.v0 import executor_pb2
# TFF does not export its compiler.
from tensorflow_federated.python.core.impl.compiler import building_block_factory

from tff_pers.runtime import line
from tff_pers import tff


class Turn(NamedTuple):
  """Some steps as one TFF computation, a struct of inputs to a struct.

  Attributes:
    function: The computation, serialized for workers.
    inputs: Names of its inputs.
    outputs: Names of its outputs.
  """

  function: executor_pb2.Value
  inputs: list[str]
  outputs: list[str]


class Level(NamedTuple):
  """A turn of the server and one of the workers; None: no steps.

  The values from the server to the workers are one output, a struct; so are the
  accumulators that come back.

  Attributes:
    server: Steps at the server.
    clients: Steps at the clients.
    merge: Merges two workers' structs of accumulators. Its only output has the
      name of that struct in the outputs of `clients`.
  """

  server: Optional[Turn]
  clients: Optional[Turn]
  merge: Optional[Turn]


class Program(NamedTuple):
  """A computation that `round` can run.

  Attributes:
    type_signature: Type of the computation.
    parameters: Paths into the argument, by name of the part.
    types: Types of all values, by name.
    levels: The levels in order.
    result: Struct of references (or one reference) to the results.
  """

  type_signature: tff.FunctionType
  parameters: dict[str, tuple[int, ...]]
  types: dict[str, tff.Type]
  levels: list[Level]
  result: line.Block


def is_at_clients(value_type: tff.Type) -> bool:
  """Returns whether a TFF type is placed at the clients."""
  is_federated = isinstance(value_type, tff.FederatedType)
  return is_federated and value_type.placement is tff.CLIENTS


def from_computation(computation: tff.Computation) -> Program:
  """Compiles a TFF computation."""
  function = line.lowered(computation)
  parameter_type = computation.type_signature.parameter
  paths: dict[str, tuple] = {}
  types: dict[str, tff.Type] = {}
  argument = None
  if parameter_type is not None:
    argument = _part(parameter_type, (), paths, types)
  straight = line.from_block(
      tff.framework.to_call_dominant(tff.framework.Call(function, argument))
  )
  steps = [(binding.name, binding.call) for binding in straight.bindings]
  result = _named_result(straight.result, steps)
  types.update({name: call.type_signature for name, call in steps})
  return Program(
      computation.type_signature, paths, types,
      _levels(steps, types, line.references(result)), result,
  )


def _part(part_type, path, paths, types) -> line.Block:
  """Returns a reference to a part of the argument, or a struct of references.

  A part is the smallest member that has its own placement.
  """
  if isinstance(part_type, tff.StructType) and _has_placements(part_type):
    return tff.framework.Struct([
        (name, _part(member, path + (i,), paths, types))
        for i, (name, member) in enumerate(
            tff.structure.iter_elements(part_type)
        )
    ])
  name = 'argument/' + '/'.join(map(str, path))
  paths[name], types[name] = path, part_type
  return tff.framework.Reference(name, part_type)


def _has_placements(struct_type: tff.StructType) -> bool:
  return any(
      isinstance(member, tff.FederatedType)
      or isinstance(member, tff.StructType) and _has_placements(member)
      for member in struct_type
  )


def _named_result(result: line.Block, steps) -> line.Block:
  """Returns `result` as references; adds steps for everything else."""
  if isinstance(result, tff.framework.Reference):
    return result
  if isinstance(result, tff.framework.Struct):
    return tff.framework.Struct([
        (name, _named_result(member, steps))
        for name, member in tff.structure.iter_elements(result)
    ])
  name = f'result/{len(steps)}'
  steps.append((name, result))
  return tff.framework.Reference(name, result.type_signature)


def _levels(steps, types, result_names) -> list[Level]:
  """Groups the steps into levels."""
  level = dict.fromkeys(types, 0)  # Parameters are in level 0.
  for name, call in steps:
    before = max((level[n] for n in line.references(call)), default=0)
    level[name] = before + _is_aggregation(call)
  last = max(level.values(), default=0)
  server = [_Half(f'sent/{i}') for i in range(last + 1)]
  clients = [_Half(f'partials/{i}') for i in range(last + 1)]
  merges: list[list] = [[] for _ in range(last + 1)]
  for name, call in steps:
    i = level[name]
    if _is_aggregation(call):
      partial = f'{name}/partial'
      clients[i - 1].steps.append((partial, _accumulate(call)))
      clients[i - 1].packed.append(partial)
      merges[i - 1].append(call.argument[3])
      server[i].steps.append((name, _report(partial, call)))
    else:
      half = clients[i] if is_at_clients(types[name]) else server[i]
      half.steps.append((name, call))
  needed = set().union(*(half.inputs for half in clients))
  for half in server:
    half.packed += [name for name, _ in half.steps if name in needed]
  packs = {name: half for half in server + clients for name in half.packed}
  used = set(result_names).union(*(
      half.inputs - packs.keys() for half in server + clients
  ))
  for half in server + clients:
    types.update({name: call.type_signature for name, call in half.steps})
    types[half.pack] = tff.StructType([(None, types[n]) for n in half.packed])
  return [
      Level(
          _turn(server[i], packs, used, types),
          _turn(clients[i], packs, used, types),
          _merge(merges[i], clients[i].pack, types) if merges[i] else None,
      )
      for i in range(last + 1)
  ]


class _Half:
  """The steps of one side in one level.

  Attributes:
    pack: Name of the struct of the values that the other side needs.
    packed: The names of these values.
    steps: Pairs (name, block).
  """

  def __init__(self, pack: str):
    self.pack = pack
    self.packed: list[str] = []
    self.steps: list[tuple[str, line.Block]] = []

  @property
  def inputs(self) -> set[str]:
    """Names that the steps take from elsewhere."""
    return set().union(*(line.references(call) for _, call in self.steps)) - {
        name for name, _ in self.steps
    }


def _turn(half: _Half, packs, used, types) -> Optional[Turn]:
  """Returns the turn that takes and returns packed values in their packs."""
  if not half.steps:
    return None
  unpacked = [
      (name, tff.framework.Selection(
          tff.framework.Reference(packs[name].pack, types[packs[name].pack]),
          index=packs[name].packed.index(name),
      ))
      for name in sorted(half.inputs & packs.keys())
  ]
  inputs = half.inputs - packs.keys() | {
      packs[name].pack for name in half.inputs & packs.keys()
  }
  steps = unpacked + half.steps
  outputs = [name for name, _ in half.steps if name in used]
  if half.packed:
    steps.append((half.pack, _references(half.packed, types)))
    outputs.append(half.pack)
  return _compile(sorted(inputs), steps, outputs, types)


def _compile(inputs, steps, outputs, types) -> Turn:
  """Returns the turn of `steps`."""
  parameter_name = parameter_type = None
  if inputs:
    parameter_name = 'inputs'
    parameter_type = tff.StructType([(None, types[n]) for n in inputs])
    parameter = tff.framework.Reference(parameter_name, parameter_type)
    steps = [
        (name, tff.framework.Selection(parameter, index=i))
        for i, name in enumerate(inputs)
    ] + steps
  block = tff.framework.Lambda(
      parameter_name, parameter_type,
      tff.framework.Block(steps, _references(outputs, types)),
  )
  computation = tff.framework.ConcreteComputation(
      computation_proto=block.proto,
      context_stack=tff.framework.get_context_stack(),
  )
  compiled = tff.backends.native.desugar_and_transform_to_native(computation)
  function, _ = tff.framework.serialize_value(compiled)
  return Turn(function, inputs, outputs)


def _references(names, types) -> line.Block:
  return tff.framework.Struct([
      tff.framework.Reference(name, types[name]) for name in names
  ])


# An aggregation, <value, zero, accumulate, merge, report>, has three parts.


def _is_aggregation(call: line.Block) -> bool:
  return (
      isinstance(call, tff.framework.Call)
      and isinstance(call.function, tff.framework.Intrinsic)
      and call.function.uri == tff.framework.FEDERATED_AGGREGATE.uri
  )


def _accumulate(call: line.Block) -> line.Block:
  """Returns the aggregation of one worker's clients, without the report."""
  value, zero, accumulate, merge = (call.argument[i] for i in range(4))
  accumulator_type = merge.type_signature.result
  unchanged = tff.framework.Lambda(
      'accumulator', accumulator_type,
      tff.framework.Reference('accumulator', accumulator_type),
  )
  return building_block_factory.create_federated_aggregate(
      value, zero, accumulate, merge, unchanged
  )


def _merge(functions, pack: str, types) -> Turn:
  """Returns the merge of two structs of accumulators by `functions`."""
  left, right = (
      tff.framework.Reference(name, types[pack]) for name in ('left', 'right')
  )
  merged = tff.framework.Struct([
      building_block_factory.create_federated_apply(
          function,
          building_block_factory.create_federated_zip(
              tff.framework.Struct([
                  tff.framework.Selection(side, index=i)
                  for side in (left, right)
              ])
          ),
      )
      for i, function in enumerate(functions)
  ])
  turn = _compile(
      ['left', 'right'], [('merged', merged)], ['merged'],
      dict(left=types[pack], right=types[pack], merged=merged.type_signature),
  )
  return turn._replace(outputs=[pack])


def _report(partial: str, call: line.Block) -> line.Block:
  """Returns the result of an aggregation, given the merged accumulator."""
  merge, report = call.argument[3], call.argument[4]
  accumulator_type = tff.FederatedType(merge.type_signature.result, tff.SERVER)
  return building_block_factory.create_federated_apply(
      report, tff.framework.Reference(partial, accumulator_type)
  )
