"""Fingerprints that identify computations within and across processes.

TensorFlow numbers functions, nodes and resources as they are created, so that
the same Python function gets different names in every process. A fingerprint
depends only on what is computed: operations, their inputs, constants.
"""

import hashlib
from typing import Any, Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
# Not exported by TensorFlow: what it knows of its operations.
from tensorflow.python.framework import op_def_registry

from tff_pers.runtime.fused.graphs import graph as graph_lib
from tff_pers.runtime.fused.graphs import number_variables
from tff_pers.runtime import line as line_lib
from tff_pers import tff

# Names and settings of a process, which do not affect what is computed.
_IGNORED = frozenset({
    'config', 'config_proto', 'container', 'debug_name', 'executor_type',
    'metadata', 'shared_name',
})


def of_line(line: line_lib.Line) -> bytes:
  """Returns the fingerprint of a computation."""
  names = {line.parameter_name: 'argument'}
  known: dict[Any, Any] = {}
  text = [str(line.parameter_type)]
  for number, binding in enumerate(line.bindings):
    text.append(_spelled(binding.call, names, known))
    names[binding.name] = f'step {number}'
  text.append(_spelled(line.result, names, known))
  return _digest(part.encode() for part in text)


def _spelled(block, names, known) -> str:
  """Returns a block as text, with the meaning of its names."""
  spell = lambda part, inner=names: _spelled(part, inner, known)
  if isinstance(block, tff.framework.Reference):
    return names[block.name]
  if isinstance(block, tff.framework.Selection):
    return f'{spell(block.source)}[{block.as_index()}]'
  if isinstance(block, tff.framework.Struct):
    return f'<{",".join(spell(block[i]) for i in range(len(block)))}>'
  if isinstance(block, tff.framework.Call):
    argument = '' if block.argument is None else spell(block.argument)
    return f'{spell(block.function)}({argument})'
  if isinstance(block, tff.framework.Lambda):
    inner = {**names, block.parameter_name: f'parameter {len(names)}'}
    return f'({block.parameter_type} -> {spell(block.result, inner)})'
  if isinstance(block, tff.framework.Block):
    inner, steps = dict(names), []
    for name, value in block.locals:
      steps.append(spell(value, inner))
      inner[name] = f'local {len(inner)}'
    return f'let {";".join(steps)} in {spell(block.result, inner)}'
  if isinstance(block, tff.framework.CompiledComputation):
    key = graph_lib.key(block)
    if key not in known:
      known[key] = of_graph(block.proto.tensorflow).hex()
    return known[key]
  if isinstance(block, tff.framework.Literal):
    return f'{block.type_signature} {np.asarray(block.value).tolist()!r}'
  return f'{getattr(block, "uri", block)} {block.type_signature}'


def of_graph(proto: Any) -> bytes:
  """Returns the fingerprint of a TensorFlow graph as TFF serializes it."""
  graph_def = tf.compat.v1.GraphDef()
  proto.graph_def.Unpack(graph_def)
  parameters = graph_lib.tensor_names(proto.parameter)
  results = graph_lib.tensor_names(proto.result)
  if proto.initialize_op:
    results.append(proto.initialize_op)
  functions = _Functions(graph_def.library.function)
  return functions.digest(
      graph_def.node, [_node(name) for name in parameters], results
  )


class _Functions:
  """The functions of a graph and their fingerprints."""

  def __init__(self, library: Iterable):
    self._library = {f.signature.name: f for f in library}
    self._digests: dict[str, bytes] = {}

  def digest(
      self, nodes: Iterable, arguments: Sequence[str], results: Sequence[str]
  ) -> bytes:
    """Returns the fingerprint of nodes, made from their `results`.

    These are outputs, and `^name` for nodes run for their effect; `arguments`
    are the names of inputs.
    """
    nodes = {node.name: node for node in nodes}
    done = {
        name: f'argument {k}'.encode() for k, name in enumerate(arguments)
    }
    for name in results:
      self._add(nodes, _node(name), done)
    return _digest(_in_order(results, done))

  def _add(self, nodes, wanted: str, done) -> None:
    """Adds the fingerprints of node `wanted` and of all its inputs."""
    # Not recursive, because graphs are deeper than Python's stack.
    todo, begun = [wanted], set()
    while todo:
      name = todo[-1]
      if name in done:
        todo.pop()
        continue
      needs = {_node(source) for source in nodes[name].input}
      # A missing node that was begun already is part of a loop in the graph.
      missing = [n for n in needs if n not in done and n not in begun]
      if missing and name not in begun:
        begun.add(name)
        todo.extend(missing)
      else:
        done[name] = self._of_node(nodes[name], done)

  def _of_node(self, node, done) -> bytes:
    operation = (
        self._of_function(node.op) if node.op in self._library
        else node.op.encode()
    )
    return _digest([
        operation, *self._attributes(node), *_in_order(node.input, done)
    ])

  def _attributes(self, node) -> list:
    """Returns the fingerprints of the operation's own attributes."""
    definition = op_def_registry.get(node.op)
    names = [] if definition is None else [a.name for a in definition.attr]
    ignored = _IGNORED
    if number_variables.of_node(node) is not None:
      ignored = _IGNORED | {'value'}  # Graphs serve all values of an input.
    found = []
    for name in sorted(set(names) - ignored):
      if name in node.attr:
        value = node.attr[name]
        called = [value.func] if value.HasField('func') else value.list.func
        found.append(name.encode())
        found += [self._of_function(f.name) for f in called] or [
            value.SerializeToString(deterministic=True)
        ]
    return found

  def _of_function(self, name: str) -> bytes:
    if name not in self._digests:
      function = self._library[name]
      arguments = [arg.name for arg in function.signature.input_arg]
      outputs = [arg.name for arg in function.signature.output_arg]
      results = [function.ret[output] for output in outputs]
      results += ['^' + node for node in function.control_ret.values()]
      self._digests[name] = self.digest(
          function.node_def, arguments, results
      )
    return self._digests[name]


def _in_order(names: Sequence[str], done: Mapping[str, bytes]) -> list:
  """Returns the fingerprints of outputs in order, of control inputs sorted."""
  meant = lambda name: (
      done.get(_node(name), b'loop') + name.partition(':')[2].encode()
  )
  values = [meant(name) for name in names if name[0] != '^']
  return [*values, b'after', *sorted(meant(n) for n in names if n[0] == '^')]


def _node(name: str) -> str:
  return name.lstrip('^').split(':')[0]


def _digest(parts: Iterable[bytes]) -> bytes:
  found = hashlib.sha256()
  for part in parts:
    found.update(len(part).to_bytes(8, 'little'))
    found.update(part)
  return found.digest()
