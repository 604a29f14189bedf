"""Puts TensorFlow graphs of TFF computations into the graph being traced.

A computation's graph is imported where it is called. Resources that two calls
in one process would share are made private to each call: functions get new
names, variables and tables become anonymous. Reductions of a data set become
loops over its elements (`sequences.Sequence`); reading the only element of a
data set becomes that element.
"""

import collections
import math
from typing import Any, Callable

import tensorflow as tf
# Not exported by TensorFlow: types of functions, and function libraries as traceable functions (names
# made unique, bodies with graphs, which `vectorized_map` needs).
from tensorflow.core.function import trace_type
from tensorflow.core.function.polymorphism import function_type
from tensorflow.python.saved_model import function_deserialization

from tff_pers.runtime.fused.graphs import inlining
from tff_pers.runtime.fused.graphs import libraries
from tff_pers.runtime.fused.graphs import number_variables
from tff_pers.runtime.fused import operations
from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime import line as line_lib
from tff_pers import tff

# TensorFlow's name for a variable that no other operation shares, and that is
# destroyed with its last handle.
_ANONYMOUS = b'cd2c89b7-88b7-44c8-ad83-06c2a9158347'
_ANONYMOUS_TABLES = {
    'HashTableV2': 'AnonymousHashTable',
    'MutableHashTableV2': 'AnonymousMutableHashTable',
    'MutableHashTableOfTensorsV2': 'AnonymousMutableHashTableOfTensors',
    'MutableDenseHashTableV2': 'AnonymousMutableDenseHashTable',
}
_PASSES = ('DatasetToSingleElement', 'ReduceDataset')
_SHARING_ATTRIBUTES = ('container', 'shared_name', 'use_node_name_sharing')
_CONVOLUTIONS = frozenset({
    'Conv2D', 'Conv2DBackpropFilter', 'Conv2DBackpropInput', 'Conv3D',
    'DepthwiseConv2dNative',
})


class Graph:
  """A TensorFlow computation of TFF, called with symbolic tensors.

  Attributes:
    operations: Names of the operation types in it and its functions.
    is_stateful: Whether it has variables, tables or randomness of its own, or
      affects the outside (prints, files).
    is_private: Whether it has no state but variables, separate for each call.
    has_convolutions: Whether there is a convolution.
    has_races: Whether calls on a CPU must not overlap.
    passes: The largest number of full passes over one of its data sets;
      infinity if one is used in any other way: a part is taken, or it is
      mapped, returned, or read in a branch.
  """

  def __init__(
      self,
      compiled: tff.framework.CompiledComputation,
      unique_name: Callable[[], str],
  ):
    """Loads the graph.

    Args:
      compiled: The computation as a building block.
      unique_name: Gives each import a name that differs from captured tensors'
        (TensorFlow does not ensure that), and is the same in every trace.

    Raises:
      sequences.Unsupported: If calls of the graph may affect each other.
    """
    self._unique_name = unique_name
    proto = compiled.proto.tensorflow
    self._type = compiled.type_signature
    self._parameter = proto.parameter if self._type.parameter else None
    self._result = proto.result
    self._token = proto.session_token_tensor_name
    graph_def = tf.compat.v1.GraphDef()
    proto.graph_def.Unpack(graph_def)
    _drop_unneeded(graph_def, proto)
    variants = set(_data_sets(proto.parameter))
    if variants:
      graph_def = inlining.inline(graph_def, variants)
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
      nodes.extend(function.node_def)
    self.operations = frozenset(node.op for node in nodes)
    if operations.reads_files(self.operations):
      raise sequences.Unsupported('A file is read, which may change.')
    self.passes = _count_passes(graph_def, variants, _data_sets(proto.result))
    stateful = operations.stateful(self.operations)
    self.is_stateful = bool(stateful)
    self.is_private = operations.only_variables(stateful)
    self.has_convolutions = bool(self.operations & _CONVOLUTIONS)
    self.has_races = operations.race(self.operations)
    for node in nodes:
      _make_private(node)
      if operations.is_of_the_host(node):
        node.device = operations.HOST
    shared = operations.shared(node.op for node in nodes)
    if shared:
      raise sequences.Unsupported(
          f'Effects of TensorFlow\'s {", ".join(shared)} may be seen by other'
          ' clients and rounds.'
      )
    if proto.initialize_op:
      _run_first(graph_def, proto.initialize_op)
    number_variables.read_inputs(graph_def.node, '')
    for function in graph_def.library.function:
      number_variables.read_inputs(function.node_def, ':value:0')
    self._functions = function_deserialization.load_function_def_library(
        graph_def.library, load_shared_name_suffix='',
        wrapper_function=_with_result_type,
    )
    graph_def.ClearField('library')
    libraries.rename(graph_def.node, {
        old: _name(function) for old, function in self._functions.items()
    })
    self._graph_def = graph_def

  def __call__(self, argument: Any = None) -> Any:
    """Adds the operations to the graph being traced; returns the result.

    It and the argument are nested tuples of tensors and `sequences.Sequence`s,
    in the order of the computation's type.
    """
    values = self._tensors(argument, tensor_names(self._result))
    return _unflatten(
        self._result, self._type.result, iter(values),
        lambda name: self._tensors(argument, [name])[0],
    )

  def _tensors(self, argument, fetches) -> list:
    """Returns the tensors named `fetches`, or sequences that pass through."""
    inputs: dict[str, Any] = {}
    if self._parameter is not None:
      _bind(self._parameter, argument, inputs)
    graph_def = self._graph_def
    if any(isinstance(v, sequences.Sequence) for v in inputs.values()):
      graph_def, inputs = self._with_loops(inputs)
    if self._token:
      inputs[self._token] = tf.constant('')
    graph = tf.compat.v1.get_default_graph()
    for function in self._functions.values():
      function.add_to_graph(graph)
    inputs = {name: _within(graph, t) for name, t in inputs.items()}
    graph_def = _without_placeholders(graph_def, inputs)
    used = {i for node in graph_def.node for i in _tensors(node)}
    wanted = [name for name in fetches if name not in inputs]
    found = tf.graph_util.import_graph_def(
        graph_def,
        input_map={n: t for n, t in inputs.items() if n in used},
        return_elements=wanted,
        name=self._unique_name(),
    )
    values = {**inputs, **dict(zip(wanted, found))}
    return [values[n] for n in fetches]

  def _with_loops(self, inputs):
    """Replaces uses of sequences by loops over their elements."""
    graph_def = tf.compat.v1.GraphDef()
    graph_def.CopyFrom(self._graph_def)
    graph = tf.compat.v1.get_default_graph()
    flat_inputs = {}
    given = {
        name.split(':')[0]: value
        for name, value in inputs.items()
        if isinstance(value, sequences.Sequence)
    }
    elements: dict[str, list] = {}
    for name, sequence in given.items():
      elements[name] = []
      for tensor in sequences.flat(sequence.segments or ()):
        node = graph_def.node.add(
            name=f'{name}/part_{len(elements[name])}', op='Placeholder'
        )
        node.attr['dtype'].type = tensor.dtype.as_datatype_enum
        elements[name].append(node.name)
        flat_inputs[node.name + ':0'] = tensor
    for node in graph_def.node:
      source = node.input[0].split(':')[0] if node.input else None
      if not elements.get(source):
        continue
      sequence = given[source]
      if node.op == 'ReduceDataset':
        function = sequences.reduction(
            self._function(node.attr['f'].func.name),
            sequence.segments,
            [tf.TensorShape(s) for s in node.attr['output_shapes'].list.shape],
        )
      elif node.op == 'DatasetToSingleElement' and _is_single(sequence):
        function = sequences.only_element(sequence.segments[0])
      else:
        continue
      function.add_to_graph(graph)
      others = list(node.input[1:])
      node.ClearField('input')
      node.input.extend(elements[source] + others)
      _wait_for_inputs(node)
      _make_call(node, function)
    used = {i.split(':')[0] for node in graph_def.node for i in node.input}
    for name, value in inputs.items():
      if name.split(':')[0] not in given:
        flat_inputs[name] = value
      elif name.split(':')[0] in used:
        flat_inputs[name] = value.variant
    return graph_def, flat_inputs

  def _function(self, name: str):
    """Returns the loaded function of that (new) name."""
    return next(f for f in self._functions.values() if _name(f) == name)


def _with_result_type(function):
  """Sets a loaded function's result type, which `vectorized_map` needs."""
  loaded = function.function_type
  result = trace_type.from_value(tuple(
      tf.TensorSpec(t.shape, t.dtype) for t in function.outputs
  ))
  function._inference_function._function_type = function_type.FunctionType(  # pylint: disable=protected-access
      loaded.parameters.values(), loaded.captures, return_annotation=result
  )
  return function


def _make_private(node) -> None:
  """Makes what `node` creates invisible to other calls."""
  if node.op == 'VarHandleOp':
    node.attr['shared_name'].s = _ANONYMOUS
  elif node.op in _ANONYMOUS_TABLES:
    node.op = _ANONYMOUS_TABLES[node.op]
    for attribute in _SHARING_ATTRIBUTES:
      if attribute in node.attr:
        del node.attr[attribute]


def _drop_unneeded(graph_def, proto) -> None:
  """Removes nodes that no result needs; TFF's own runtime does not run them.

  A Keras model, for example, leaves placeholders that are never fed.
  """
  needed = _ancestors(graph_def, filter(None, [
      proto.initialize_op, proto.session_token_tensor_name,
      *tensor_names(proto.parameter), *tensor_names(proto.result),
  ]))
  nodes = [node for node in graph_def.node if node.name in needed]
  for node in nodes:
    node.attr.pop('_class', None)  # Names nodes that may be replaced.
  graph_def.ClearField('node')
  graph_def.node.extend(nodes)


def _ancestors(graph_def, names) -> set:
  """Returns the names of all nodes that the tensors or nodes `names` need."""
  by_name = {node.name: node for node in graph_def.node}
  needed, todo = set(), list(names)
  while todo:
    name = todo.pop().lstrip('^').split(':')[0]
    if name not in needed:
      needed.add(name)
      todo.extend(by_name[name].input)
  return needed


def _run_first(graph_def, name: str) -> None:
  """Makes every node wait for node `name`, unless `name` needs it itself."""
  needed = _ancestors(graph_def, [name])
  for node in graph_def.node:
    if node.name not in needed and node.op not in ('Placeholder', 'Const'):
      node.input.append('^' + name)


def _wait_for_inputs(node) -> None:
  """Makes `node` wait for all of its inputs, even if it is inlined.

  An operation starts when it has all inputs. The operations of a function that
  replaces it start earlier, and could read a variable before another input of
  the operation is computed, which assigns it.
  """
  sources = dict.fromkeys(i.lstrip('^').split(':')[0] for i in node.input)
  waits = ['^' + name for name in sources]
  node.input.extend(w for w in waits if w not in node.input)


def _make_call(node, function) -> None:
  """Turns `node` into a call of `function` with the node's inputs."""
  node.op = 'StatefulPartitionedCall'
  node.ClearField('device')
  node.ClearField('attr')
  node.attr['f'].func.name = _name(function)
  for key, tensors in (
      ('Tin', function.inputs), ('Tout', function.outputs)
  ):
    node.attr[key].list.type.extend(
        tensor.dtype.as_datatype_enum for tensor in tensors
    )


def _without_placeholders(graph_def, inputs):
  """Returns the graph without the nodes that `inputs` replace.

  They would do nothing, but XLA and `vectorized_map` do not support
  placeholders.
  """
  replaced = {name.split(':')[0] for name in inputs}
  smaller = tf.compat.v1.GraphDef(versions=graph_def.versions)
  smaller.node.extend(n for n in graph_def.node if n.name not in replaced)
  for node in smaller.node:
    remaining = [
        i for i in node.input if not (i[0] == '^' and i[1:] in replaced)
    ]
    if len(remaining) < len(node.input):
      node.ClearField('input')
      node.input.extend(remaining)
  return smaller


def _tensors(node) -> list:
  """Returns the names of a node's inputs, complete."""
  return [i if ':' in i else i + ':0' for i in node.input if i[0] != '^']


def _within(graph, tensor):
  """Returns `tensor` as a tensor of the function `graph` being traced."""
  tensor = tf.convert_to_tensor(tensor)
  if getattr(tensor, 'graph', None) is graph:
    return tensor
  return graph.capture(tensor)


def _name(function) -> str:
  return tf.compat.as_str(function.name)


def _is_single(sequence) -> bool:
  """Returns whether the sequence is known to have one element."""
  first = sequence.segments[0][0]
  return (
      len(sequence.segments) == 1
      and isinstance(first, packing.Rows)
      and first.tensor.shape[0] == 1
  )


def _bind(binding, value, inputs) -> None:
  """Adds the tensors of `value` to `inputs`, by the names of `binding`."""
  case = binding.WhichOneof('binding')
  if case == 'struct':
    for part, item in zip(binding.struct.element, value):
      _bind(part, item, inputs)
  elif case == 'tensor':
    inputs[binding.tensor.tensor_name] = value
  elif case == 'sequence':
    inputs[binding.sequence.variant_tensor_name] = value


def tensor_names(binding: Any) -> list[str]:
  """Returns the names of the tensors of `binding` in order."""
  case = binding.WhichOneof('binding')
  if case == 'tensor':
    return [binding.tensor.tensor_name]
  if case == 'sequence':
    return [binding.sequence.variant_tensor_name]
  return [name for part in binding.struct.element for name in tensor_names(part)]


def _count_passes(graph_def, variants, results) -> float:
  """Returns `Graph.passes`, by the nodes of arguments and of results."""
  found: dict[str, float] = {name: 0 for name in variants}
  for node in graph_def.node:
    for position, source in enumerate(node.input):
      name = source.split(':')[0]
      if name in found:
        is_pass = position == 0 and node.op in _PASSES
        found[name] += 1 if is_pass else math.inf
  found.update((name, math.inf) for name in results if name in found)
  return max(found.values(), default=0)


def _data_sets(binding) -> list[str]:
  """Returns the names of the nodes of the data sets of `binding`."""
  if binding.WhichOneof('binding') == 'sequence':
    return [binding.sequence.variant_tensor_name.split(':')[0]]
  return [name for part in binding.struct.element for name in _data_sets(part)]


def _unflatten(binding, type_signature, values, again):
  """Returns nested tuples of `values`, with the shapes of the type.

  `again` creates the data set of a name again.
  """
  case = binding.WhichOneof('binding')
  if case == 'struct':
    return tuple(
        _unflatten(part, type_signature[i], values, again)
        for i, part in enumerate(binding.struct.element)
    )
  value = next(values)
  if case == 'sequence':
    if isinstance(value, sequences.Sequence):
      return value
    name = binding.sequence.variant_tensor_name
    return sequences.Made(
        type_signature.element, value, lambda: again(name)
    )
  if type_signature.shape is not None:
    value.set_shape(type_signature.shape)
  return value


def collect(block: line_lib.Block) -> collections.OrderedDict:
  """Returns the compiled computations within `block`, by their bytes."""
  found = collections.OrderedDict()

  def visit(part):
    if isinstance(part, tff.framework.CompiledComputation):
      found[key(part)] = part
    return part, False

  tff.framework.transform_postorder(block, visit)
  return found


def key(compiled: tff.framework.CompiledComputation) -> bytes:
  """Returns a key that identifies the computation."""
  return compiled.proto.SerializeToString(deterministic=True)
