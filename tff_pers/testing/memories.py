"""Finds where tensors of a traced function would be on a GPU; needs no GPU.

TensorFlow's registry of kernels states which operations a GPU has, and which of
their tensors stay in host memory. The graph is as TensorFlow runs it: functions
inlined, control flow as switches and merges, constants folded. The number of
iterations of loops is unknown.
"""

import collections
import dataclasses
import functools
from typing import Any, Optional

import tensorflow as tf
# Not exported by TensorFlow: messages, registries and the graph optimizer.
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.framework import kernels
from tensorflow.python.framework import op_def_registry
from tensorflow.python.grappler import tf_optimizer

# Types of handles, which are not tensors that move.
_RESOURCE = tf.resource.as_datatype_enum
_STRING = tf.string.as_datatype_enum
# Nodes that replace calls, or only synchronize other nodes.
_NOTHING = ('NoOp', 'Placeholder', '_Arg', '_Retval')


@dataclasses.dataclass
class Moves:
  """Moves of tensors between host and device memory.

  Attributes:
    up: Tensors of the graph that move to the device; those of a loop body once.
    down: Tensors that move to the host.
    without_kernel: Counts of operations without a GPU kernel, by name and
      types: they run on the host although they were not placed there.
    arguments_up: Numbers of the function's arguments that stay on the host and
      move to the device in every call.
  """

  up: int = 0
  down: int = 0
  without_kernel: collections.Counter = dataclasses.field(
      default_factory=collections.Counter
  )
  arguments_up: set[int] = dataclasses.field(default_factory=set)


def count(function: Any, device: str) -> Moves:
  """Returns the moves in a traced function.

  Args:
    function: A `ConcreteFunction`.
    device: The end of the name of the device that is, or stands in for, the
    GPU.
  """
  nodes = {node.name: node for node in _optimized(function).node}
  arguments = {t.op.name: k for k, t in enumerate(function.inputs)}
  found = Moves()
  outputs = {}
  for name, node in nodes.items():
    hosted = _kept_on_host(node, device)
    types = sorted({tf.as_dtype(dtype).name for _, dtype in _types(node)})
    if hosted is None and types != ['int32']:  # Those are on the host anyway.
      found.without_kernel[' '.join([node.op, *types])] += 1
    outputs[name] = _places(node, 'output_arg', hosted)
  moved = set()
  for node in nodes.values():
    hosted = _kept_on_host(node, device)
    inputs = [i for i in node.input if i[0] != '^']
    for source, is_hosted in zip(inputs, _places(node, 'input_arg', hosted)):
      name, _, number = source.partition(':')
      was_hosted = outputs[name][int(number or 0)]
      if None in (is_hosted, was_hosted) or is_hosted == was_hosted:
        continue
      if source not in moved:
        moved.add(source)
        found.up += was_hosted
        found.down += not was_hosted
        if name in arguments:
          found.arguments_up.add(arguments[name])
  return found


def _optimized(function) -> Any:
  """Returns the graph as TensorFlow runs it, a `GraphDef`."""
  with tf.Graph().as_default() as graph:
    tf.graph_util.import_graph_def(function.graph.as_graph_def(), name='')
    meta_graph = tf.compat.v1.train.export_meta_graph(graph=graph)
  meta_graph.collection_def['train_op'].node_list.value.extend(
      tensor.op.name for tensor in function.outputs
  )
  config = config_pb2.ConfigProto()
  options = config.graph_options.rewrite_options
  # Optimizations that depend on the devices of this machine.
  options.layout_optimizer = options.remapping = options.OFF
  options.memory_optimization = options.NO_MEM_OPT
  options.min_graph_nodes = -1
  options.fail_on_optimizer_errors = True
  return tf_optimizer.OptimizeGraph(config, meta_graph, verbose=False)


def _kept_on_host(node, device: str) -> Optional[frozenset]:
  """Returns the arguments of a node that stay on the host.

  Returns:
    None if the node is on the device, and there is no such kernel.
  """
  everything = frozenset(
      argument.name for kind in ('input_arg', 'output_arg')
      for argument in getattr(op_def_registry.get(node.op), kind)
  )
  if node.op in _NOTHING or node.op.startswith('_'):
    on_host = node.attr['dtype'].type in (tf.int32.as_datatype_enum, _STRING)
    return everything if on_host else frozenset()
  if node.device and not node.device.endswith(device):
    return everything
  return _of_kernel(node.op, _types(node))


@functools.cache
def _of_kernel(op: str, types: tuple) -> Optional[frozenset]:
  found = kernels.get_registered_kernels_for_op(op).kernel
  for device in ('GPU', 'DEFAULT'):
    for kernel in found:
      if kernel.device_type == device and all(
          dict(types).get(each.name) in each.allowed_values.list.type
          for each in kernel.constraint
      ):
        return frozenset(kernel.host_memory_arg)
  return None


def _types(node) -> tuple:
  """Returns the attributes of a node that are types, sorted."""
  return tuple(sorted(
      (name, value.type) for name, value in node.attr.items()
      if value.WhichOneof('value') == 'type'
  ))


def _places(node, kind: str, hosted: Optional[frozenset]) -> list:
  """Returns whether each input, or output, of a node is on the host.

  Args:
    node: The node.
    kind: `input_arg` or `output_arg`.
    hosted: See `_kept_on_host`.

  Returns:
    A list of booleans, None for handles.
  """
  places = []
  for argument in getattr(op_def_registry.get(node.op), kind):
    is_hosted = hosted is None or argument.name in hosted
    if argument.type_list_attr:
      types = node.attr[argument.type_list_attr].list.type
    else:
      dtype = argument.type or node.attr[argument.type_attr].type
      count_ = node.attr[argument.number_attr].i if argument.number_attr else 1
      types = [dtype] * count_
    places += [
        None if dtype == _RESOURCE else is_hosted or dtype == _STRING
        for dtype in types
    ]
  return places
