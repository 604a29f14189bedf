"""`tf.data` pipelines as TensorFlow writes them down: a graph with their data.

What a data set contains is in this graph, constants, functions and seeds alike,
and TFF's own executor makes every data set anew from it. Two data sets that are
the same pipeline over other data differ in constants only.
"""

import hashlib
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tff_pers.runtime.fused import operations
from tff_pers.runtime.fused.values import element_functions

# What these do to elements is to choose and to order them.
_ORDERING = frozenset({
    'RepeatDataset', 'ShardDataset', 'ShuffleDatasetV3', 'SkipDataset',
    'TakeDataset',
})
_NO_EFFECT = frozenset({'ModelDataset', 'OptionsDataset', 'PrefetchDataset'})
_BATCHES = frozenset({'BatchDatasetV2', 'ParallelBatchDataset'})
# Inputs behind the values that the function captures.
_MAPS = {'MapDataset': 0, 'ParallelMapDataset': 1, 'ParallelMapDatasetV2': 1}
_PLAIN = frozenset({'Const', 'TensorSliceDataset', '_Retval'}).union(
    _ORDERING, _NO_EFFECT, _BATCHES, _MAPS
)
# Their state is a resource of this process, which other passes have advanced.
_WITH_STATE = ('Cache', 'Shuffle')


class Ordering(NamedTuple):
  """A step that chooses or orders elements.

  Attributes:
    operation: Name of the TensorFlow operation.
    reshuffles: Of a shuffle, whether every pass has another order.
    numbers: Its inputs, such as a count, a buffer's size or seeds.
  """

  operation: str
  reshuffles: bool
  numbers: tuple


class Level(NamedTuple):
  """What happens to examples, or to batches.

  A function of one element and a choice of elements commute, so that it does
  not matter how the ones stand among the others.
  """

  orderings: list
  functions: list


class Line(NamedTuple):
  """Slices of tensors, ordered, mapped, batched, ordered and mapped again.

  Attributes:
    source: Arrays whose rows are the examples.
    examples: What happens to the examples.
    batch: (batch size, whether a smaller last batch is dropped), or None.
    batches: What happens to the batches.
  """

  source: list
  examples: Level
  batch: Optional[tuple]
  batches: Level

  @property
  def has_functions(self) -> bool:
    """Whether examples or batches are mapped."""
    return bool(self.examples.functions or self.batches.functions)


class Pipeline:
  """The graph of a data set.

  Attributes:
    is_fixed: Whether its elements follow from what the graph contains: no
      files, no randomness, nothing of this process.
  """

  def __init__(self, dataset: tf.data.Dataset):
    """Writes the data set down.

    Raises:
      tf.errors.OpError: If TensorFlow cannot do that.
    """
    self._spec = dataset.element_spec
    self._written = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset),
        external_state_policy=tf.data.experimental.ExternalStatePolicy.IGNORE.value,
    ).numpy()
    self._graph = tf.compat.v1.GraphDef.FromString(self._written)
    self._nodes = {node.name: node for node in self._graph.node}
    bodies = [
        node for f in self._graph.library.function for node in f.node_def
    ]
    self._in_functions = frozenset(node.op for node in bodies)
    self._operations = self._in_functions.union(
        node.op for node in self._graph.node
    )
    self.is_fixed = operations.repeat(self._operations)

  def digest(self) -> bytes:
    """Returns what names the content."""
    return hashlib.sha256(self._written).digest()

  def written(self) -> bytes:
    """Returns the graph, of which data sets are made that share no state."""
    if not self._has_state():
      return self._written
    private = tf.compat.v1.GraphDef()
    private.CopyFrom(self._graph)
    shared = {
        source.split(':')[0]
        for node in private.node if node.op.startswith(_WITH_STATE)
        for source in node.input
    }
    for node in private.node:
      if node.op == 'Const' and node.name in shared:
        for handle in node.attr['value'].tensor.resource_handle_val:
          handle.name = 'no_such_resource'  # The data set makes its own.
    return private.SerializeToString()

  def private(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns `dataset`, or one that is like it before its first pass."""
    if not self._has_state():
      return dataset
    return tf.data.experimental.from_variant(
        tf.raw_ops.DatasetFromGraph(graph_def=self.written()), self._spec
    )

  def line(self) -> Optional[Line]:
    """Returns the data set in this form, None if it is of another one."""
    if not self._operations - self._in_functions <= _PLAIN or (
        operations.stateful(self._in_functions)
        or operations.reads_files(self._in_functions)
    ):
      return None
    nodes = self._chain()
    if nodes is None:
      return None
    source, *nodes = nodes
    levels, batch = [Level([], [])], None
    for node in nodes:
      constants = [self._constant(name) for name in node.input[1:]]
      if node.op in _BATCHES:
        if batch is not None:
          return None
        drop = constants[-1]
        batch = int(constants[0]), bool(drop)
        levels.append(Level([], []))
      elif node.op in _MAPS:
        captured = constants[:len(constants) - _MAPS[node.op]]
        levels[-1].functions.append(element_functions.load(
            self._graph.library, node.attr['f'].func.name, captured
        ))
      elif node.op in _ORDERING:
        numbers = [c for c in constants if c is not None]
        levels[-1].orderings.append(Ordering(
            node.op,
            'Shuffle' in node.op and node.attr['reshuffle_each_iteration'].b,
            tuple(int(number) for number in numbers),
        ))
    arrays = [self._constant(name) for name in source.input]
    return Line(
        arrays, levels[0], batch,
        levels[1] if batch is not None else Level([], []),
    )

  def _has_state(self) -> bool:
    return any(op.startswith(_WITH_STATE) for op in self._operations)

  def _chain(self) -> Optional[list]:
    """Returns the nodes from the source on; None if there are several."""
    [result] = [n for n in self._graph.node if n.op == '_Retval']
    nodes, node = [], self._node(result.input[0])
    while node.op != 'TensorSliceDataset':
      if node.op not in _PLAIN:
        return None
      nodes.append(node)
      node = self._node(node.input[0])
    is_files = node.attr['is_files'].b
    return None if is_files else [node, *reversed(nodes)]

  def _node(self, name: str) -> Any:
    return self._nodes[name.split(':')[0]]

  def _constant(self, name: str) -> Any:
    """Returns an array without a copy; None for a handle."""
    tensor = self._node(name).attr['value'].tensor
    dtype = tf.as_dtype(tensor.dtype)
    if dtype == tf.resource:
      return None
    if dtype == tf.string:
      return tf.io.parse_tensor(tensor.SerializeToString(), dtype).numpy()
    if not tensor.tensor_content:
      return tf.make_ndarray(tensor)
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    return np.frombuffer(tensor.tensor_content, dtype.as_numpy_dtype).reshape(
        shape
    )
