"""Many tensors of one kind in a graph: those of clients, or of elements.

They are stacked if they agree in shape (`Rows`), else packed (`Pieces`).
"""

import contextlib
from typing import Any, NamedTuple, Sequence

import tensorflow as tf


class Rows(NamedTuple):
  """Tensors of equal shape.

  Attributes:
    tensor: [count, ...].
    on_host: Whether they stay in host memory, and only the tensor that a client
      needs goes to the device.
  """

  tensor: Any
  on_host: bool = False

  @property
  def tensors(self) -> tuple:
    """The tensors it consists of."""
    return (self.tensor,)

  @property
  def count(self) -> tf.Tensor:
    """The number of tensors, an int32 scalar."""
    return tf.shape(self.tensor)[0]

  def of_tensors(self, tensors: Sequence[Any]) -> 'Rows':
    """Returns rows like these that consist of `tensors`."""
    [tensor] = tensors
    return Rows(tensor, self.on_host)

  def at(self, i: tf.Tensor, is_loop: bool = False) -> tf.Tensor:
    """Returns tensor number `i`, an int32 scalar.

    If `i` is the variable of a loop that is not vectorized (`is_loop`), a slice
    is a view of the rows if their size in bytes is a multiple of Eigen's
    alignment; vectorized, it would copy all rows.
    """
    with _place(self.on_host):
      return self.tensor[i] if is_loop else tf.gather(self.tensor, i)


class Pieces(NamedTuple):
  """Tensors of different shapes.

  Attributes:
    entries: All entries, tensor by tensor, flat.
    shapes: int64[count, rank].
    starts: int64[count + 1], where each tensor begins in `entries`, and the
    end.
    shape: The dimensions that all shapes share; others are None.
    on_host: As in `Rows`.
  """

  entries: Any
  shapes: Any
  starts: Any
  shape: Any
  on_host: bool = False

  @classmethod
  def pack(
      cls, entries: tf.Tensor, shapes: tf.Tensor, shape: Any,
      on_host: bool = False,
  ) -> 'Pieces':
    """Returns the pieces; call it outside of loops over them."""
    with _place(on_host):
      # Only once: a sum for each piece would take quadratic time.
      stops = tf.cumsum(tf.reduce_prod(shapes, axis=1))
      starts = tf.concat([tf.zeros([1], tf.int64), stops], 0)
    return cls(entries, shapes, starts, shape, on_host)

  @property
  def tensors(self) -> tuple:
    """The tensors it consists of."""
    return self.entries, self.shapes, self.starts

  @property
  def count(self) -> tf.Tensor:
    """The number of tensors, an int32 scalar."""
    return tf.shape(self.shapes)[0]

  def of_tensors(self, tensors: Sequence[Any]) -> 'Pieces':
    """Returns pieces like these that consist of `tensors`."""
    entries, shapes, starts = tensors
    return Pieces(entries, shapes, starts, self.shape, self.on_host)

  def at(self, i: tf.Tensor, is_loop: bool = False) -> tf.Tensor:
    """Returns tensor number `i`."""
    del is_loop  # See `Rows`; here a slice is needed in any case.
    with _place(self.on_host):
      # Few operations, because they run for every element of every client.
      shape = tf.gather(self.shapes, i)
      start = tf.gather(self.starts, tf.reshape(i, [1]))
      size = tf.reduce_prod(shape, keepdims=True)
      piece = tf.reshape(tf.slice(self.entries, start, size), shape)
    piece.set_shape(self.shape)
    return piece

  def between(self, first: tf.Tensor, last: tf.Tensor) -> 'Pieces':
    """Returns the tensors from number `first` to number `last`, exclusive."""
    with _place(self.on_host):
      starts = self.starts[first:last + 1]
      return Pieces(
          self.entries[starts[0]:starts[-1]], self.shapes[first:last],
          starts - starts[0], self.shape,
      )


def _place(on_host: bool):
  return tf.device('/CPU:0') if on_host else contextlib.nullcontext()
