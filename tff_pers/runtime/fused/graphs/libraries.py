"""Functions of graphs: who calls them, and names that do not depend on history.

TensorFlow numbers functions as a process makes them, and names the arguments of
loops after what they capture.
"""

from typing import Any, Iterable, Iterator, Mapping, Sequence

import tensorflow as tf
# Not exported by TensorFlow: messages of functions, and what it knows of its
# operations.
from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import op_def_registry

from tff_pers.runtime.fused.graphs import number_variables

# Attributes of nodes and functions that tell how they came about: numbers of
# this process, random ones of Keras' layers, settings.
_OF_HISTORY = (
    '_class', '_gradient_op_type', '_user_specified_name', 'api_implements',
    'backward_function_name', 'config_proto', 'forward_function_name',
)


def canonical(computation: Any) -> bytes:
  """Returns a computation, as TFF serializes it, with canonical names.

  They are the same in all processes that build it, whatever else they build.
  Computations that differ in more than names, and the values of their inputs
  (`number_inputs`), differ in their bytes.
  """
  copied = type(computation)()
  copied.CopyFrom(computation)
  resources: dict[bytes, bytes] = {}
  for proto in _graphs(copied):
    graph = tf.compat.v1.GraphDef.FromString(proto.graph_def.value)
    functions = _reached(graph)
    numbers = {name: f'function_{k}' for k, name in enumerate(functions)}
    nodes = _number(graph.node, {}, resources)
    rename(graph.node, numbers)
    graph.ClearField('library')
    for name, function in functions.items():
      _number_function(function, functions, resources)
      rename(function.node_def, numbers)
      function.signature.name = numbers[name]
      graph.library.function.append(function)
    proto.graph_def.value = graph.SerializeToString(deterministic=True)
    _rename_tensors(proto.parameter, nodes)
    _rename_tensors(proto.result, nodes)
    for field in ('initialize_op', 'session_token_tensor_name'):
      if getattr(proto, field):
        setattr(proto, field, _renamed(getattr(proto, field), nodes))
  return copied.SerializeToString(deterministic=True)


def _number(
    nodes: Any, names: dict[str, str], resources: dict[bytes, bytes]
) -> dict[str, str]:
  """Numbers nodes and resources in place; drops what does not compute.

  `names` are those of arguments. Returns them with those of nodes.
  """
  names = dict(names)
  for number, node in enumerate(nodes):
    names[node.name] = f'node_{number}'
    if number_variables.of_node(node) is not None:
      names[node.name] += '/' + node.name.rpartition('/')[2]
      del node.attr['value']
    _drop_history(node.attr)
    node.ClearField('experimental_debug_info')
    shared = node.attr['shared_name'].s if 'shared_name' in node.attr else b''
    if shared:
      known = resources.setdefault(shared, b'resource_%d' % len(resources))
      node.attr['shared_name'].s = known
  for node in nodes:
    node.name = names[node.name]
    node.input[:] = [_renamed(source, names) for source in node.input]
  return names


def _number_function(
    function: Any, functions: Mapping[str, Any], resources: dict[bytes, bytes]
) -> None:
  """Numbers all that has a name in a function, in place."""
  signature = function.signature
  arguments = {}
  for number, argument in enumerate(signature.input_arg):
    arguments[argument.name] = argument.name = f'argument_{number}'
  calls = {node.name for node in function.node_def if node.op in functions}
  if calls:  # Their outputs have names of the function that they call.
    raise NotImplementedError(f'Calls by name: {sorted(calls)}.')
  names = _number(function.node_def, arguments, resources)
  results, controls = dict(function.ret), dict(function.control_ret)
  function.ret.clear()
  function.control_ret.clear()
  for number, result in enumerate(signature.output_arg):
    source = results[result.name]
    result.name = f'result_{number}'
    function.ret[result.name] = _renamed(source, names)
  for number, control in enumerate(list(signature.control_output)):
    signature.control_output[number] = f'control_{number}'
    function.control_ret[f'control_{number}'] = names[controls[control]]
  _drop_history(function.attr)
  for argument in function.arg_attr.values():
    _drop_history(argument.attr)


def _drop_history(attributes: Any) -> None:
  for name in _OF_HISTORY:
    attributes.pop(name, None)


def _renamed(source: str, names: Mapping[str, str]) -> str:
  """Returns a node, one of its outputs, or `^node`, by its new name."""
  if source.startswith('^'):
    return '^' + names[source[1:]]
  name, colon, output = source.partition(':')
  return f'{names[name]}{colon}{output}'


def _rename_tensors(binding: Any, names: Mapping[str, str]) -> None:
  """Renames the tensors of TFF's binding of a parameter or result."""
  case = binding.WhichOneof('binding')
  if case == 'struct':
    for part in binding.struct.element:
      _rename_tensors(part, names)
  elif case == 'tensor':
    tensor = binding.tensor
    tensor.tensor_name = _renamed(tensor.tensor_name, names)
  elif case == 'sequence':
    sequence = binding.sequence
    sequence.variant_tensor_name = _renamed(sequence.variant_tensor_name, names)


def _graphs(computation: Any) -> Iterator[Any]:
  """Yields the TensorFlow graphs of a computation."""
  kind = computation.WhichOneof('computation')
  part = kind and getattr(computation, kind)
  if kind == 'tensorflow':
    yield part
  elif kind == 'call':
    yield from _graphs(part.function)
    yield from _graphs(part.argument)
  elif kind == 'lambda':
    yield from _graphs(part.result)
  elif kind == 'selection':
    yield from _graphs(part.source)
  elif kind == 'struct':
    for each in part.element:
      yield from _graphs(each.value)
  elif kind == 'block':
    for each in part.local:
      yield from _graphs(each.value)
    yield from _graphs(part.result)


def _reached(graph: Any) -> dict[str, Any]:
  """Returns the functions that a graph calls, at all depths, by name."""
  library = {f.signature.name: f for f in graph.library.function}
  found: dict[str, Any] = {}
  todo = list(graph.node)
  while todo:
    node = todo.pop()
    for name in (node.op, *(called.name for called in _called(node))):
      if name in library and name not in found:
        found[name] = library[name]
        todo.extend(library[name].node_def)
  return found


def rename(nodes: Iterable[Any], names: Mapping[str, str]) -> None:
  """Replaces the names of functions that nodes call."""
  for node in nodes:
    node.op = names.get(node.op, node.op)
    for called in _called(node):
      called.name = names.get(called.name, called.name)


def _called(node: Any) -> Iterator[Any]:
  """Yields the functions that the attributes of a node name."""
  for value in node.attr.values():
    if value.HasField('func'):
      yield value.func
    yield from value.list.func


def of_optimized(graph: Any, name: str) -> tuple[list[int], Any]:
  """Returns a function's optimized graph as a library; its own comes last.

  The graph has nodes for arguments and results, and the function gets a new
  name. The numbers of the arguments that it uses come first.
  """
  functions = _reached(graph)
  library = function_pb2.FunctionDefLibrary(function=functions.values())
  main = library.function.add()
  main.signature.name = name
  arguments, results = (
      sorted(
          (node for node in graph.node if node.op == kind),
          key=lambda node: node.attr['index'].i,
      ) for kind in ('_Arg', '_Retval')
  )
  outputs: dict[str, list[str]] = {}
  for node in graph.node:
    outputs[node.name] = _outputs(node, functions)
  for node in arguments:
    outputs[node.name] = [f'argument_{node.attr["index"].i}']
    main.signature.input_arg.add(
        name=outputs[node.name][0], type=node.attr['T'].type
    )
  for number, node in enumerate(results):
    main.signature.output_arg.add(
        name=f'result_{number}', type=node.attr['T'].type
    )
    main.ret[f'result_{number}'] = _source(node.input[0], outputs)
  waits = {f'^{node.name}' for node in arguments}  # They are always there.
  for node in graph.node:
    if node.op not in ('_Arg', '_Retval'):
      copied = main.node_def.add()
      copied.CopyFrom(node)
      copied.ClearField('experimental_debug_info')
      copied.input[:] = [
          _source(name, outputs) for name in node.input if name not in waits
      ]
  return [node.attr['index'].i for node in arguments], library


def _source(name: str, outputs: Mapping[str, Sequence[str]]) -> str:
  """Returns an input's name in a function, from its name in a graph."""
  if name[0] == '^':
    return name
  node, _, number = name.partition(':')
  return outputs[node][int(number or 0)]


def _outputs(node: Any, functions: Mapping[str, Any]) -> list[str]:
  """Returns what a function calls the outputs of a node."""
  definition = op_def_registry.get(node.op) or functions[node.op].signature
  found = []
  for part in definition.output_arg:
    count = 1
    if part.number_attr:
      count = node.attr[part.number_attr].i
    elif part.type_list_attr:
      count = len(node.attr[part.type_list_attr].list.type)
    found += [f'{node.name}:{part.name}:{k}' for k in range(count)]
  return found
