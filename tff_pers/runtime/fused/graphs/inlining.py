"""Inlines functions that take a data set.

TFF's client updates are TensorFlow functions that reduce their data set inside.
For the reduction to become a loop over tensors, it has to be visible where the
data set is passed. (Grappler does not inline calls with side effects.)
"""

from typing import Any, Iterable

import tensorflow as tf
# TensorFlow does not export the conversion of a function's names to a graph's.
from tensorflow.python.framework import function_def_to_graph

_CALLS = ('PartitionedCall', 'StatefulPartitionedCall')


def inline(graph_def: Any, variants: Iterable[str]) -> Any:
  """Returns a `GraphDef` with calls on data sets inlined, at all depths.

  `variants` are the names of the placeholders of data sets.
  """
  functions = {f.signature.name: f for f in graph_def.library.function}
  with tf.Graph().as_default():
    tf.graph_util.import_graph_def(graph_def, name='')  # Registers functions.
    while True:
      call = next(
          (n for n in graph_def.node
           if n.op in _CALLS
           and any(_node(i) in variants for i in n.input)),
          None,
      )
      if call is None:
        return graph_def
      graph_def = _inline_call(
          graph_def, call, functions[call.attr['f'].func.name]
      )


def _inline_call(graph_def, call, function):
  """Returns the graph with one call inlined."""
  body, flat_names = function_def_to_graph.function_def_to_graph_def(function)
  prefix = call.name + '/'
  data = [i for i in call.input if not i.startswith('^')]
  controls = [i for i in call.input if i.startswith('^')]
  arguments = {
      arg.name: source
      for arg, source in zip(function.signature.input_arg, data)
  }
  results = [
      _renamed(flat_names[function.ret[arg.name]], prefix, arguments)
      for arg in function.signature.output_arg
  ]
  inlined = tf.compat.v1.GraphDef()
  inlined.CopyFrom(graph_def)
  inlined.ClearField('node')
  for node in graph_def.node:
    if node.name == call.name:
      continue
    node = _copy(inlined, node)
    for k, source in enumerate(node.input):
      if not source.startswith('^') and _node(source) == call.name:
        node.input[k] = results[int(source.partition(':')[2] or 0)]
  for node in body.node:
    if node.name in arguments:
      continue
    node = _copy(inlined, node)
    node.name = prefix + node.name
    node.attr.pop('_class', None)  # Colocates it with nodes of the body.
    sources = [_renamed(source, prefix, arguments) for source in node.input]
    node.ClearField('input')
    node.input.extend(sorted(
        sources + [c for c in controls if c not in sources],
        key=lambda s: s.startswith('^'),  # Control inputs must come last.
    ))
  done = inlined.node.add(name=call.name, op='NoOp')
  done.input.extend(
      '^' + prefix + node.name
      for node in body.node
      if node.name not in arguments
  )
  return inlined


def _copy(graph_def, node):
  copied = graph_def.node.add()
  copied.CopyFrom(node)
  return copied


def _renamed(source: str, prefix: str, arguments) -> str:
  """Returns the outer name of what is called `source` in the body."""
  control = source.startswith('^')
  name = _node(source.lstrip('^'))
  if name in arguments:
    outside = arguments[name]
    return '^' + _node(outside) if control else outside
  return ('^' if control else '') + prefix + source.lstrip('^')


def _node(source: str) -> str:
  return source.split(':')[0]
