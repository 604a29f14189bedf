"""Layouts of arguments and results of a computation as flat tensors.

A layout describes the tensors of a value except for their sizes, so that one
traced function serves all cohorts of that layout. The values of clients are
stacked if they agree in shape, else packed one after another; so are the
elements of sequences.
"""

import dataclasses
from typing import Any, Iterator, NamedTuple, Optional, Sequence

import tensorflow as tf

from tff_pers.runtime.fused.values import packing
from tff_pers.runtime.fused.values import sequences
from tff_pers.runtime.fused.values import serialized


@dataclasses.dataclass(frozen=True)
class Single:
  """A tensor of the server, or one that all clients share."""

  shape: tuple
  dtype: tf.DType

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """One spec: that of the tensor itself."""
    return [tf.TensorSpec(self.shape, self.dtype)]

  def read(self, tensors: Iterator[tf.Tensor]) -> Any:
    """Returns the next of the flat tensors."""
    return next(tensors)


@dataclasses.dataclass(frozen=True)
class Stacked:
  """A tensor of every client, all of one shape: [clients, ...]."""

  shape: tuple
  dtype: tf.DType
  on_host: bool = False

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """One spec: [clients, ...], the number of clients open."""
    return [tf.TensorSpec((None, *self.shape), self.dtype)]

  def read(self, tensors: Iterator[tf.Tensor]) -> Any:
    """Returns the next of the flat tensors as `packing.Rows`."""
    return packing.Rows(next(tensors), self.on_host)


@dataclasses.dataclass(frozen=True)
class Packed:
  """A tensor of every client, of different shapes: all entries concatenated."""

  shape: tuple
  dtype: tf.DType
  on_host: bool = False

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """Two specs: all entries, [?], and shapes, int64[clients, rank]."""
    return [
        tf.TensorSpec([None], self.dtype),
        tf.TensorSpec([None, len(self.shape)], tf.int64),
    ]

  def read(self, tensors: Iterator[tf.Tensor]) -> Any:
    """Returns the next two of the flat tensors as `packing.Pieces`."""
    entries, table = next(tensors), next(tensors)
    return packing.Pieces.pack(entries, table, self.shape, self.on_host)


@dataclasses.dataclass(frozen=True)
class Varying:
  """A sequence whose elements differ in shape: all entries concatenated.

  One layout serves any number of shapes. With `clients`, it is one sequence per
  client: the elements of all clients, and the number of each client's elements.
  """

  element_type: Any
  clients: bool = False
  on_host: bool = False

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """The specs of `Packed` for each tensor of an element.

    If the sequence belongs to clients, these follow the number of elements of
    each client, int64[clients].
    """
    specs = [tf.TensorSpec([None], tf.int64)] if self.clients else []
    for t in sequences.flat_types(self.element_type):
      specs += Packed(t.shape, tf.as_dtype(t.dtype)).specs
    return specs

  def read(self, tensors: Iterator[tf.Tensor]) -> Any:
    """Reads its values from the flat tensors.

    Returns:
      A `sequences.Sequence` of the server, or the `Runs` of all clients.
    """
    counts = next(tensors) if self.clients else None
    segment = tuple(
        Packed(t.shape, tf.as_dtype(t.dtype), self.on_host).read(tensors)
        for t in sequences.flat_types(self.element_type)
    )
    if counts is None:
      return sequences.Sequence((segment,), self.element_type)
    starts = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    return Runs(segment, starts, self.element_type)


@dataclasses.dataclass(frozen=True)
class Parts:
  """A struct, or the tensors of a sequence's segments."""

  parts: tuple
  element_type: Any = None
  segment_sizes: tuple = ()

  @property
  def specs(self) -> list[tf.TensorSpec]:
    """The specs of all parts, in order."""
    return [spec for part in self.parts for spec in part.specs]

  def read(self, tensors: Iterator[tf.Tensor]) -> Any:
    """Reads its values from the flat tensors.

    Returns:
      A tuple with the value of each part; the `Segments` of a sequence.
    """
    values = tuple(part.read(tensors) for part in self.parts)
    if self.element_type is None:
      return values
    return Segments(values, self.element_type, self.segment_sizes)


def leaves(value: Any) -> list:
  """Returns the layouts of an argument's tensors; None has none."""
  if isinstance(value, Parts):
    return [leaf for part in value.parts for leaf in leaves(part)]
  return [] if value is None else [value]


class Segments(NamedTuple):
  """A sequence of the server or of every client, as tensors of segments."""

  tensors: Any
  element_type: Any
  sizes: Any

  @property
  def is_of_clients(self) -> bool:
    """Whether every client has such a sequence."""
    return any(isinstance(t, (packing.Rows, packing.Pieces)) for t in self.tensors)

  def at(self, i: tf.Tensor, is_loop: bool = False) -> Any:
    """Returns the sequence of client `i`; for `is_loop` see `Rows.at`."""
    if not self.is_of_clients:
      return self.sequence()
    return self.sequence([t.at(i, is_loop) for t in self.tensors])

  def sequence(
      self, tensors: Optional[Sequence[tf.Tensor]] = None
  ) -> sequences.Sequence:
    """Returns the sequence that consists of these tensors, or of its own.

    There is one for each tensor of each segment, [elements, ...].
    """
    left = list(self.tensors if tensors is None else tensors)
    segments = []
    for size in self.sizes:
      segments.append(tuple(packing.Rows(t) for t in left[:size]))
      left = left[size:]
    return sequences.Sequence(tuple(segments), self.element_type)


class Runs(NamedTuple):
  """A sequence per client, as the elements of all clients.

  Attributes:
    segment: The elements, see `sequences.Sequence`.
    starts: int64[clients + 1], where each client's elements begin, and the end.
    element_type: TFF type of an element.
  """

  segment: Any
  starts: Any
  element_type: Any

  def at(self, i: tf.Tensor) -> Any:
    """Returns the sequence of client `i`, an int32 scalar."""
    first, last = self.starts[i], self.starts[i + 1]
    segment = tuple(pieces.between(first, last) for pieces in self.segment)
    return sequences.Sequence((segment,), self.element_type)


def at(value: Any, i: tf.Tensor, is_loop: bool = False) -> Any:
  """Returns client `i`'s part of `value`; for `is_loop` see `Rows.at`."""
  if isinstance(value, (packing.Rows, packing.Pieces, Segments)):
    return value.at(i, is_loop)
  if isinstance(value, (Runs, serialized.DataSets)):
    return value.at(i)
  if isinstance(value, tuple):
    return tuple(at(part, i, is_loop) for part in value)
  return value


def on_server(value: Any) -> Any:
  """Returns `value` with sequences of the server made usable."""
  if isinstance(value, Segments) and not value.is_of_clients:
    return value.sequence()
  if type(value) is tuple:  # pylint: disable=unidiomatic-typecheck
    return tuple(on_server(part) for part in value)
  return value
