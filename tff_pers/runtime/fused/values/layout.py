"""Arguments and results of a computation as flat tensors.

A layout says how the tensors of a value lie, apart from their sizes, so that
one traced function serves all cohorts of one layout. The values of clients are
stacked if they agree in shape, else packed one after the other.
"""

import contextlib
import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tff_pers.runtime.fused.values import sequences


@dataclasses.dataclass(frozen=True)
class Single:
  """A tensor of the server, or one that all clients share."""

  shape: tuple
  dtype: tf.DType

  @property
  def specs(self):
    return [tf.TensorSpec(self.shape, self.dtype)]

  def read(self, tensors):
    return next(tensors)


@dataclasses.dataclass(frozen=True)
class Stacked:
  """A tensor of every client, all of one shape: [clients, ...]."""

  shape: tuple
  dtype: tf.DType
  on_host: bool = False

  @property
  def specs(self):
    return [tf.TensorSpec((None, *self.shape), self.dtype)]

  def read(self, tensors):
    return Rows(next(tensors), self.on_host)


@dataclasses.dataclass(frozen=True)
class Packed:
  """A tensor of every client, of different shapes: their entries, joined."""

  shape: tuple
  dtype: tf.DType
  on_host: bool = False

  @property
  def specs(self):
    return [
        tf.TensorSpec([None], self.dtype),
        tf.TensorSpec([None, len(self.shape)], tf.int64),
    ]

  def read(self, tensors):
    return Pieces(next(tensors), next(tensors), self.shape, self.on_host)


@dataclasses.dataclass(frozen=True)
class Parts:
  """A struct, or the tensors of a sequence's segments."""

  parts: tuple
  element_type: Any = None
  segment_sizes: tuple = ()

  @property
  def specs(self):
    return [spec for part in self.parts for spec in part.specs]

  def read(self, tensors):
    values = tuple(part.read(tensors) for part in self.parts)
    if self.element_type is None:
      return values
    return Segments(values, self.element_type, self.segment_sizes)


def leaves(value) -> list:
  """Returns the layouts of the tensors of an argument; None has none."""
  if isinstance(value, Parts):
    return [leaf for part in value.parts for leaf in leaves(part)]
  return [] if value is None else [value]


class Rows(NamedTuple):
  """Clients' tensors in a graph.

  Attributes:
    tensor: [clients, ...].
    on_host: Whether it stays in the memory of the host, and only what a client
      needs goes to the device.
  """

  tensor: Any
  on_host: bool = False

  def at(self, i):
    with _place(self.on_host):
      return tf.gather(self.tensor, i)


class Pieces(NamedTuple):
  """Clients' tensors in a graph, of different shapes.

  Attributes:
    entries: All entries, client after client, flat.
    shapes: int64[clients, rank].
    shape: What is known of all shapes.
    on_host: As in `Rows`.
  """

  entries: Any
  shapes: Any
  shape: Any
  on_host: bool = False

  def at(self, i):
    with _place(self.on_host):
      sizes = tf.reduce_prod(self.shapes, axis=1)
      start = tf.reduce_sum(tf.where(
          tf.range(tf.shape(sizes)[0]) < i, sizes, tf.zeros_like(sizes)
      ))
      entries = tf.slice(self.entries, [start], [sizes[i]])
      piece = tf.reshape(entries, self.shapes[i])
    piece.set_shape(self.shape)
    return piece


def _place(on_host: bool):
  return tf.device('/CPU:0') if on_host else contextlib.nullcontext()


class Segments(NamedTuple):
  """A sequence of the server or of every client, as its segments' tensors."""

  tensors: Any
  element_type: Any
  sizes: Any

  def at(self, i):
    tensors = [
        t.at(i) if isinstance(t, (Rows, Pieces)) else t for t in self.tensors
    ]
    return self.sequence(tensors)

  def sequence(self, tensors=None) -> sequences.Sequence:
    tensors = list(self.tensors if tensors is None else tensors)
    segments = []
    for size in self.sizes:
      segments.append(tuple(tensors[:size]))
      tensors = tensors[size:]
    return sequences.Sequence(tuple(segments), self.element_type)


def at(value, i):
  """Returns what client `i` holds of `value`."""
  if isinstance(value, (Rows, Pieces, Segments)):
    return value.at(i)
  if isinstance(value, tuple):
    return tuple(at(part, i) for part in value)
  return value


def on_server(value):
  """Returns `value` with sequences of the server made usable."""
  if isinstance(value, Segments) and not any(
      isinstance(t, (Rows, Pieces)) for t in value.tensors
  ):
    return value.sequence()
  if type(value) is tuple:  # pylint: disable=unidiomatic-typecheck
    return tuple(on_server(part) for part in value)
  return value
