"""Reads `tf.data` pipelines from the graphs that TensorFlow serializes.

The graph contains all that a data set consists of: constants, functions and
seeds. TFF's own executor makes every data set again from it. Two data sets with
the same pipeline on different data differ only in constants.
"""

import hashlib
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from tff_pers.runtime.fused import operations
from tff_pers.runtime.fused.values import element_functions

# These operations only choose and order elements.
_ORDERING = frozenset({
    'RepeatDataset', 'ShardDataset', 'ShuffleDatasetV3', 'SkipDataset',
    'TakeDataset',
})
_NO_EFFECT = frozenset({'ModelDataset', 'OptionsDataset', 'PrefetchDataset'})
_BATCHES = frozenset({'BatchDatasetV2', 'ParallelBatchDataset'})
# Number of inputs after the values that the function captures.
_MAPS = {'MapDataset': 0, 'ParallelMapDataset': 1, 'ParallelMapDatasetV2': 1}
_PLAIN = frozenset({'Const', 'TensorSliceDataset', '_Retval'}).union(
    _ORDERING, _NO_EFFECT, _BATCHES, _MAPS
)
# Their state is a resource of this process, which other passes advance.
_WITH_STATE = ('Cache', 'Shuffle')


class Ordering(NamedTuple):
  """A step that chooses or orders elements.

  Attributes:
    operation: Name of the TensorFlow operation.
    reshuffles: For a shuffle, whether every pass has a new order.
    numbers: Its inputs, e.g. a count, a buffer size or seeds.
  """

  operation: str
  reshuffles: bool
  numbers: tuple


class Level(NamedTuple):
  """The steps applied to examples, or to batches.

  A function of one element commutes with choosing and ordering elements, so the
  order between the two kinds of steps does not matter.
  """

  orderings: list
  functions: list


class Line(NamedTuple):
  """Slices of tensors: ordered, mapped, batched, then ordered and mapped again.

  Attributes:
    source: Arrays whose rows are the examples.
    examples: The steps applied to examples.
    batch: (batch size, whether a smaller last batch is dropped), or None.
    batches: The steps applied to batches.
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
    is_fixed: Whether its elements are determined by the graph: no files, no
      randomness, no state of this process.
  """

  def __init__(self, dataset: tf.data.Dataset):
    """Serializes the data set to its graph.

    Raises:
      tf.errors.OpError: If TensorFlow cannot serialize it.
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
    """Returns a digest that identifies the content."""
    return hashlib.sha256(self._written).digest()

  def written(self) -> bytes:
    """Returns the graph; data sets made from it share no state."""
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
          handle.name = 'no_such_resource'  # So the data set makes its own.
    return private.SerializeToString()

  def private(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns `dataset`, or an equal one that has not been iterated over."""
    if not self._has_state():
      return dataset
    return tf.data.experimental.from_variant(
        tf.raw_ops.DatasetFromGraph(graph_def=self.written()), self._spec
    )

  def line(self) -> Optional[Line]:
    """Returns the data set as a `Line`, None if it has another form."""
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
    """Returns the nodes from the source on; None if sources are several."""
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
    """Returns an array without copying it; None for a handle."""
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
