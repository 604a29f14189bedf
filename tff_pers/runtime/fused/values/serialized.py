"""Data sets that the traced function reads itself.

A computation that takes a part of a data set, or reads a shuffled one more than
once, gets it as on TFF's own executor: as its graph, from which it creates a
data set of its own.
"""

import dataclasses
import itertools
from typing import Any, Iterator

import tensorflow as tf

from tff_pers.runtime.fused.values import sequences

_UNKNOWN_FIELD = b'\xf8\x07'  # Field number 127, a varint.


@dataclasses.dataclass(frozen=True)
class Serialized:
  """The layout of data sets as their serialized graphs, strings."""

  element_type: Any
  is_at_clients: bool

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """One spec: the graphs of clients, string[clients], or the server's."""
    return [tf.TensorSpec([None] if self.is_at_clients else [], tf.string)]

  def read(self, tensors: Iterator[tf.Tensor]) -> Any:
    """Returns `DataSets` of clients, or the sequence of the server."""
    data_sets = DataSets(next(tensors), self.element_type)
    return data_sets if self.is_at_clients else data_sets.sequence()


class DataSets:
  """The data sets of all clients in a graph, or the server's."""

  def __init__(self, graphs: tf.Tensor, element_type: Any):
    self._graphs, self._element_type = graphs, element_type
    self._numbers = itertools.count()

  def at(self, i: tf.Tensor) -> Any:
    """Returns the sequence of client `i`, an int32 scalar."""
    with tf.device('/CPU:0'):
      return self.sequence(tf.gather(self._graphs, i))

  def sequence(self, graph: Any = None) -> sequences.Sequence:
    """Returns the sequence of a graph, a string; None: the server's."""
    graph = self._graphs if graph is None else graph
    return _Sequence(graph, self._element_type, self._numbers)


class _Sequence(sequences.Sequence):
  """A sequence of which only the data set is known."""

  def __init__(self, graph, element_type, numbers):
    super().__init__(None, element_type)
    self._graph, self._numbers = graph, numbers

  @property
  def variant(self):
    """A new data set for every use, so that no use advances another's."""
    with tf.device('/CPU:0'):
      number = next(self._numbers)
      # TensorFlow would merge data sets with equal graphs. This unknown field
      # of the protocol buffer makes them differ.
      field = _UNKNOWN_FIELD + bytes([number % 128])
      return tf.raw_ops.DatasetFromGraph(
          graph_def=tf.strings.join([self._graph, field])
      )
